"""A run directory is read as it is, and refused with a remedy when it cannot be."""

import json
from math import isfinite, isnan

import pytest

from esacl import resume
from esacl.errors import RunError
from esacl.report import load_run
from tests.report.fabricate import config, events, results, write_run

IMPOSSIBLE = {"epoch": [0.5], "phase": [3], "event": [3, None], "task": [-1, 5, 10**30, "0"], "loss": ["low", 10**400]}


def test_a_record_holds_what_the_files_say(tmp_path):
    found = results("er", seed=3)
    record = load_run(write_run(tmp_path / "er-3", found))
    assert (record.name, record.method, record.stream, record.seed) == ("er-3", "er", "split-digits", 3)
    assert record.accuracy.task_il == found["task_il"]
    assert record.accuracy.of("class_il") == found["class_il"]
    assert [list(row) for row in record.matrix["class_il"]] == found["matrix"]["class_il"]
    assert record.flops.executed == found["flops"]["executed"]
    assert record.footprint.total == sum(found["footprint_bytes"].values())
    assert record.task_classes[1] == ("2", "3")
    assert record.config["objective"]["buffer"] == 200
    assert len(record.log) == 50
    assert not record.joint


def test_time_that_is_not_accounted_for_is_other(tmp_path):
    found = results()
    found["seconds"] = {"total": 10.0, "train": 6.0, "evaluate": 2.0, "data": 1.5}
    assert load_run(write_run(tmp_path / "run", found)).seconds.other == pytest.approx(0.5)


def test_average_so_far_is_over_the_tasks_seen(tmp_path):
    record = load_run(write_run(tmp_path / "run"))
    rows = record.matrix["task_il"]
    assert record.average_so_far("task_il") == pytest.approx(
        [sum(row[: i + 1]) / (i + 1) for i, row in enumerate(rows)]
    )


def test_a_joint_run_has_one_row_and_nothing_to_forget(tmp_path):
    record = load_run(write_run(tmp_path / "mtl", results("mtl")))
    assert record.joint
    assert len(record.matrix["task_il"]) == 1
    assert record.forgetting.task_il is None
    assert record.average_so_far("task_il") == pytest.approx([record.accuracy.task_il])


def test_a_method_that_needs_the_task_has_no_class_il(tmp_path):
    record = load_run(write_run(tmp_path / "packnet", results("packnet")))
    assert record.accuracy.class_il is None
    assert set(record.matrix) == {"task_il"}


def test_memory_that_was_not_measured_may_be_null(tmp_path):
    record = load_run(write_run(tmp_path / "run", results() | {"peak_memory_bytes": None}))
    assert record.peak_memory_bytes is None


def test_a_run_from_before_the_remembered_bytes_were_counted_does_not_say(tmp_path):
    found = results()
    assert load_run(write_run(tmp_path / "now", found)).remembered_bytes == 2_471_936
    del found["remembered_bytes"]
    assert load_run(write_run(tmp_path / "then", found)).remembered_bytes is None


def test_a_cell_that_was_not_measured_is_nan(tmp_path):
    found = results()
    found["matrix"]["task_il"][0][4] = None
    assert isnan(load_run(write_run(tmp_path / "run", found)).matrix["task_il"][0][4])


def test_a_run_without_a_log_or_class_names_can_be_reported(tmp_path):
    found = results()
    del found["task_classes"], found["versions"]
    run = write_run(tmp_path / "run", found)
    (run / "events.jsonl").unlink()
    record = load_run(run)
    assert record.log == ()
    assert record.task_classes == ()


def test_a_loss_that_diverged_is_kept(tmp_path):
    log = events(5, 2)
    log[0]["loss"], log[1]["loss"], log[4]["loss"] = float("inf"), float("nan"), 1e308
    losses = [epoch.loss for epoch in load_run(write_run(tmp_path / "run", log=log)).log]
    assert [isfinite(loss) for loss in losses[:4]] == [False, False, True, False]


def test_characters_that_a_document_cannot_hold_are_replaced(tmp_path):
    found = results()
    settings = config(found)
    del settings["method"]
    found["method"] = "a\x00b\ud800c\u202ed"
    assert load_run(write_run(tmp_path / "run", found, settings)).method == "a�b�c�d"


def test_a_directory_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(RunError, match=r"no run directory .*nowhere.*esacl run"):
        load_run(tmp_path / "nowhere")


def test_a_directory_that_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"not a run directory.*config\.toml"):
        load_run(tmp_path)


def test_an_unfinished_run_is_told_how_to_resume(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "results.json").unlink()
    with pytest.raises(RunError, match=rf"not finished.*esacl resume {run}"):
        load_run(run)


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda found: found.pop("schema"), "there is no schema"),
        (lambda found: found.update(schema="1"), "schema = '1' is not 1"),
        (lambda found: found.update(schema=2), "newer version of esacl: it has schema 2, but this version of esacl"),
        (lambda found: found.pop("flops"), "there is no flops"),
        (lambda found: found["flops"].pop("paper"), "flops: there is no paper"),
        (lambda found: found["seconds"].pop("data"), "seconds: there is no data"),
        (lambda found: found.update(flops=3), "flops: expected a table, got whole number"),
        (lambda found: found.update(task_il=97.1), "task_il: expected a number <= 1.0"),
        (lambda found: found.update(task_il=float("nan")), "task_il: expected a number >= 0.0"),
        (lambda found: found.update(task_il=10**400), "task_il: Number out of range"),
        (lambda found: found.update(seed=True), "seed: expected a whole number, got truth value"),
        (lambda found: found.update(seed=10**400), "seed: expected a whole number <="),
        (lambda found: found.update(tasks=2.5), "tasks: expected a whole number, got number"),
        (lambda found: found.update(density=-1), "density: expected a number >= 0.0"),
        (lambda found: found["flops"].update(paper=1e308), "flops.paper: expected a number <="),
        (lambda found: found["seconds"].update(total=float("inf")), "seconds[...]: expected a number <="),
        (lambda found: found["footprint_bytes"].update(gradients=10**30), "gradients: expected a whole number <="),
        (lambda found: found.update(method=7), "method: expected a text, got whole number"),
        (lambda found: found.update(task_classes=[[1]] * 5), "task_classes[0][0]: expected a text"),
        (lambda found: found["matrix"]["task_il"][1].__setitem__(2, "x"), "[1][2]: expected a number | null, got text"),
        (lambda found: found.update(matrix=[]), "matrix: expected a table, got list"),
        (lambda found: found.update(pruning_drop={"task_il": []}), "pruning_drop[...]: expected a list of length >= 1"),
        (lambda found: found["matrix"]["task_il"].pop(), "not a matrix with 5 columns and 1 or 5 rows"),
        (lambda found: found["matrix"]["task_il"][2].pop(), "not a matrix with 5 columns"),
        (lambda found: found["matrix"].update(class_il=found["matrix"]["class_il"][:1]), "same number of rows"),
        (lambda found: found.update(class_il=None), "an accuracy and its matrix"),
        (lambda found: found.update(task_classes=[["0"]]), "each of the 5 tasks"),
    ],
)
def test_damaged_results_are_refused_with_what_is_wrong(tmp_path, damage, complaint):
    found = results()
    damage(found)
    run = write_run(tmp_path / "run")
    (run / "results.json").write_text(json.dumps(found), "utf-8")
    with pytest.raises(RunError) as error:
        load_run(run)
    assert complaint in str(error.value)
    assert "results.json" in str(error.value)


@pytest.mark.parametrize(
    ("name", "remedy"), [("results.json", "run it again"), ("config.toml", "another run directory")]
)
@pytest.mark.parametrize("text", ['{"schema": 1, "meth', "[" * 100_000, "seed = " + "1" * 5000, "\0", "[]", "1e999"])
def test_a_file_that_cannot_be_parsed_is_refused(tmp_path, name, remedy, text):
    run = write_run(tmp_path / "run")
    (run / name).write_text(text, "utf-8")
    with pytest.raises(RunError, match=remedy):
        load_run(run)


def test_results_of_a_newer_version_are_not_called_damaged_by_resume(tmp_path):
    run = write_run(tmp_path / "run", results() | {"schema": 2})
    with pytest.raises(RunError, match=r"newer version of esacl.*Update esacl"):
        resume(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epoch", 0.5),
        ("phase", 3),
        ("event", 3),
        ("event", None),
        ("task", -1),
        ("task", 5),
        ("task", 10**30),
        ("task", "0"),
        ("loss", "low"),
        ("loss", None),
        ("loss", 10**400),
    ],
)
def test_an_event_that_cannot_have_been_is_refused(tmp_path, name, value):
    log = events(5, 2)
    log[1][name] = value
    with pytest.raises(RunError, match="Delete the file"):
        load_run(write_run(tmp_path / "run", log=log))


@pytest.mark.parametrize("line", ["{", "[]", "3", '{"event": "epoch", "task": 0}', "[" * 100_000, "1" * 5000, "\0"])
def test_a_line_that_is_no_event_is_refused_unless_it_was_cut_off(tmp_path, line):
    run = write_run(tmp_path / "run")
    whole = load_run(run).log
    text = (run / "events.jsonl").read_text("utf-8")
    (run / "events.jsonl").write_text(text + line, "utf-8")
    assert load_run(run).log == whole
    (run / "events.jsonl").write_text(f"{text}{line}\n", "utf-8")
    with pytest.raises(RunError, match="Delete the file"):
        load_run(run)


def test_a_confusion_matrix_is_optional_and_must_fit_the_classes(tmp_path):
    found = results(tasks=2)
    assert load_run(write_run(tmp_path / "with", found)).confusion == tuple(map(tuple, found["confusion"]))
    without = {name: value for name, value in found.items() if name != "confusion"}
    assert load_run(write_run(tmp_path / "without", without)).confusion == ()
    for number, wrong in enumerate(([[1]], [[1, 2]] * 4, [[-1] * 4] * 4)):
        with pytest.raises(RunError, match="damaged"):
            load_run(write_run(tmp_path / f"wrong {number}", found | {"confusion": wrong}))
