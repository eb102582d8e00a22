"""A run directory is read as it is, and refused with a remedy when it cannot be."""

import json
from math import isinf, isnan

import pytest

from esacl.errors import RunError
from esacl.report import load_run
from tests.report.fabricate import config, events, results, write_run


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


def test_a_whole_figure_may_be_null(tmp_path):
    found = results()
    found |= {"fwt": None, "peak_memory_bytes": None}
    record = load_run(write_run(tmp_path / "run", found))
    assert record.fwt.task_il is None
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
    log[0]["loss"], log[1]["loss"] = float("inf"), None
    losses = [epoch.loss for epoch in load_run(write_run(tmp_path / "run", log=log)).log]
    assert isinf(losses[0])
    assert isnan(losses[1])


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
        (lambda found: found.pop("schema"), "'schema' is missing"),
        (lambda found: found.update(schema=2), "schema 2, but this version of esacl reads schema 1"),
        (lambda found: found.pop("flops"), "'flops' is missing"),
        (lambda found: found["flops"].pop("paper"), "flops: 'paper' is missing"),
        (lambda found: found.update(flops=3), "'flops' is not a table"),
        (lambda found: found.update(task_il=97.1), "task_il = 97.1 is not from 0 to 1"),
        (lambda found: found.update(task_il=float("nan")), "task_il = nan is not a number"),
        (lambda found: found.update(seed=True), "seed = True is not a number"),
        (lambda found: found.update(tasks=2.5), "tasks = 2.5 is not a whole number"),
        (lambda found: found.update(density=-1), "density = -1 is not positive"),
        (lambda found: found.update(method=7), "method = 7 is not text"),
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
def test_half_a_file_is_refused(tmp_path, name, remedy):
    run = write_run(tmp_path / "run")
    (run / name).write_text('{"schema": 1, "meth', "utf-8")
    with pytest.raises(RunError, match=remedy):
        load_run(run)


def test_a_log_that_is_damaged_is_refused(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "events.jsonl").write_text('{"event": "epoch", "task": 0}\n', "utf-8")
    with pytest.raises(RunError, match="Delete the file"):
        load_run(run)
