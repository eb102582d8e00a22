"""The commands as people use them: what they print, what they leave behind, how they fail."""

import json

import pytest

from esacl.errors import ConfigError
from tests.cli.commands import PRUNING, QUICK, esacl
from tests.streams.layouts import cifar10_files, write_folder


def test_a_run_leaves_the_promised_files_behind(finished):
    names = {path.name for path in finished.iterdir() if not path.name.startswith(".")}
    promised = {"config.toml", "results.json", "events.jsonl", "checkpoint", "model.safetensors", "report.html"}
    assert names == promised


def test_results_have_the_stable_schema(finished):
    results = json.loads((finished / "results.json").read_text())
    assert results["schema"] == 1
    assert results["method"] == "er"
    assert results["seed"] == 3
    assert results["tasks"] == 5
    both = {"task_il", "class_il"}
    assert set(results) >= {
        *("schema", "method", "stream", "seed", "sparsity", "epochs", "tasks", "logit_mask", "task_il", "class_il"),
        *("matrix", "forgetting", "bwt", "fwt", "density", "capacity", "flops", "seconds", "peak_memory_bytes"),
        "footprint_bytes",
    }
    for figure in ("matrix", "forgetting", "bwt", "fwt"):
        assert set(results[figure]) == both
    for rows in results["matrix"].values():
        assert [len(row) for row in rows] == [5] * 5
    assert results["task_il"] == pytest.approx(sum(results["matrix"]["task_il"][-1]) / 5)
    assert results["class_il"] == pytest.approx(sum(results["matrix"]["class_il"][-1]) / 5)
    assert set(results["flops"]) == {"paper", "sparse", "executed", "credited"}
    assert 0 < results["flops"]["paper"] < results["flops"]["sparse"] == results["flops"]["executed"]
    assert set(results["seconds"]) == {"total", "train", "evaluate", "data", "cpu"}
    assert sum(results["seconds"][part] for part in ("train", "evaluate", "data")) <= results["seconds"]["total"]
    assert set(results["footprint_bytes"]) == {"parameters", "activations", "gradients"}
    assert results["peak_memory_bytes"] > sum(results["footprint_bytes"].values()) > 0
    assert results["density"] == results["capacity"] == 1.0


def test_the_event_log_has_lines_for_the_start_the_epochs_and_the_end_of_a_task_and_of_the_run(finished):
    events = [json.loads(line) for line in (finished / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == [*["start", "epoch", "task"] * 5, "finished"]
    assert events[1]["samples"] == 36, "20 of each of two classes, less a tenth held out for validation"


def test_the_recorded_config_starts_the_same_run_again(finished, tmp_path):
    esacl("run", "--config", finished / "config.toml", "--out", tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()


WHOLE = [*PRUNING, "--epochs", "1", "--sparsity", "0.8", "--keep", "0.4", "--rho", "0.05"]


def test_the_whole_algorithm_runs_from_its_flags(tmp_path, capsys):
    esacl("run", *WHOLE, "--unpruned", "--set", "update.reach=0.5", "--out", tmp_path / "run")
    assert "esacl-der++" in capsys.readouterr().out
    text = (tmp_path / "run" / "config.toml").read_text()
    for line in ("level = 0.8", "keep = 0.4", "rho = 0.05", "unpruned = true"):
        assert f"\n{line}\n" in text
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["sparsity"] == 0.8
    assert results["density"] == results["capacity"] == pytest.approx(0.2, abs=1e-4)
    assert 0 < results["flops"]["paper"] < 0.5 * results["flops"]["executed"]
    assert len(results["pruning_drop"]["class_il"]) == 5
    assert results["task_il"] > 0.6, "two classes a task: chance is 0.5"
    assert (tmp_path / "run" / "report.html").exists()


def test_the_whole_algorithm_runs_for_a_single_epoch(tmp_path):
    esacl("run", *WHOLE, "--out", tmp_path / "run")
    assert (tmp_path / "run" / "results.json").exists()


def test_a_preset_fills_in_what_no_flag_file_or_set_gives(tmp_path):
    (tmp_path / "c.toml").write_text('preset = "paper"\n[gradient]\nrho = 0.2\n[selection]\nkeep = 0.7\n')
    words = ["--config", tmp_path / "c.toml", "--set", "update.k=0.3", "--set", "selection.keep=0.6"]
    esacl("run", "--method", "esacl-er", *QUICK, *words, "--buffer", "30", "--out", tmp_path / "run")
    text = (tmp_path / "run" / "config.toml").read_text()
    given = ("epochs = 1", "rho = 0.2", "k = 0.3", "keep = 0.6", "buffer = 30")
    for line in (*given, "radius = 5.0", "eta = 0.01", "lr = 0.01", 'rule = "loss"', 'backbone = "mlp"'):
        assert f"\n{line}\n" in text


def test_json_prints_the_results_and_nothing_else(tmp_path, capsys):
    esacl("run", "--method", "finetune", *QUICK, "--out", tmp_path / "run", "--json")
    told = capsys.readouterr()
    assert json.loads(told.out) == json.loads((tmp_path / "run" / "results.json").read_text())


def test_flags_win_over_set_which_wins_over_the_file(tmp_path):
    (tmp_path / "c.toml").write_text('method = "er"\nseed = 1\n[train]\nepochs = 7\nbatch_size = 7\n')
    words = ["--config", tmp_path / "c.toml", "--set", "train.batch_size=5", "--set", "train.epochs=9"]
    esacl("run", *words, *QUICK, "--out", tmp_path / "run")
    text = (tmp_path / "run" / "config.toml").read_text()
    assert "epochs = 1" in text
    assert "batch_size = 5" in text
    assert "seed = 1" in text


def test_without_out_the_directory_is_named_after_the_run_and_never_taken_twice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        esacl("run", "--method", "finetune", *QUICK)
    found = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert found == ["finetune-split-digits-0", "finetune-split-digits-0-2"]


def test_a_finished_run_has_nothing_left_to_resume(finished, capsys):
    before = (finished / "results.json").read_bytes()
    (finished / "report.html").unlink()
    esacl("resume", finished)
    assert "nothing is left to do" in capsys.readouterr().err
    assert (finished / "results.json").read_bytes() == before
    assert (finished / "report.html").exists(), "a report that is missing is written again"


def test_report_puts_several_runs_on_one_page(finished, tmp_path, capsys):
    esacl("run", "--method", "mtl", *QUICK, "--out", tmp_path / "mtl")
    esacl("report", finished, tmp_path / "mtl", "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "mtl" in page
    assert "er" in page
    assert "page.html" in capsys.readouterr().out


def test_the_options_of_a_method_are_explained_with_their_flags_defaults_and_what_they_allow(capsys):
    esacl("methods", "esacl-er")
    told = capsys.readouterr().out
    for words in ("sparsity.level (--sparsity)", "gradient.rho (--rho)", "objective.buffer (--buffer)", "update.k"):
        assert words in told
    assert "['freeze' or 'cycle', or nothing]" in " ".join(told.split())
    esacl("methods", "esacl-er", "--json")
    told = json.loads(capsys.readouterr().out)["esacl-er"]["options"]["sparsity.level"]
    assert (told["default"], told["allowed"]) == (0.8, "a number from 0 to 0.9999")
    with pytest.raises(ConfigError, match=r"unknown method 'esacl-err'\. Did you mean 'esacl-er'\?"):
        esacl("methods", "esacl-err")


@pytest.mark.parametrize(
    ("method", "told", "rule"),
    [
        *(("gpm", "task, as its authors have it", "task"), ("icarl", "seen, as its authors have it", "seen")),
        *(("er", "all columns.", "all"), ("esacl-der++", "all columns.", "all")),
    ],
)
def test_a_methods_training_columns_are_told_with_where_they_are_from(method, told, rule, capsys):
    esacl("methods", method)
    assert f"Training columns (--columns): {told}" in capsys.readouterr().out
    esacl("methods", method, "--json")
    assert json.loads(capsys.readouterr().out)[method]["columns"] == rule


def test_methods_and_streams_are_listed_for_people_and_for_programs(capsys):
    for command, expected in (("methods", "der++"), ("streams", "split-cifar100")):
        esacl(command)
        assert expected in capsys.readouterr().out
        esacl(command, "--json")
        assert expected in json.dumps(json.loads(capsys.readouterr().out))


def test_data_check_tells_whole_readable_damaged_and_missing_apart(tmp_path, capsys):
    write_folder(tmp_path, "cifar-10-batches-py", cifar10_files())
    (tmp_path / "tiny-imagenet-200.zip").write_bytes(b"not a zip")
    with pytest.raises(SystemExit) as ended:
        esacl("data", "check", "--data-dir", tmp_path)
    assert ended.value.code == 1
    told = capsys.readouterr().out
    assert "cifar10 readable" in told
    assert "cifar100 missing" in told
    assert "esacl data get cifar100" in told
    assert "tinyimagenet damaged" in told
    with pytest.raises(SystemExit):
        esacl("data", "check", "--data-dir", tmp_path, "--json")
    states = {report["name"]: report["state"] for report in json.loads(capsys.readouterr().out)}
    assert states == {"cifar10": "other", "cifar100": "missing", "tinyimagenet": "damaged"}
