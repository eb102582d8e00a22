"""The commands as people use them: what they print, what they leave behind, how they fail."""

import json

import pytest
from rich.console import Console

from esacl.cli import app, main
from esacl.cli.progress import counting_progress, training_progress, transfer_progress
from esacl.config import Config, StreamConfig, TrainConfig
from esacl.errors import ConfigError
from esacl.runner import start
from tests.streams.layouts import cifar10_files, write_folder

QUICK = ["--epochs", "1", "--limit-per-class", "20"]
PRUNING = ["--method", "esacl-der++"]


def esacl(*words):
    """Run a command; what it returns is not of interest, what it prints is."""
    app([str(word) for word in words], result_action="return_value")


@pytest.fixture
def fails(capsys):
    """Run a command that must fail as a user would see it: one line, a code, no traceback."""

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        assert ended.value.code == 2
        told = capsys.readouterr()
        assert "Traceback" not in told.err + told.out
        return " ".join(told.err.split())

    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cli") / "er"
    esacl("run", "--method", "er", *QUICK, "--buffer", 30, "--seed", 3, "--out", directory)
    return directory


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
    assert set(results["flops"]) == {"paper", "sparse", "executed"}
    assert 0 < results["flops"]["paper"] < results["flops"]["sparse"] == results["flops"]["executed"]
    assert set(results["seconds"]) == {"total", "train", "evaluate", "data"}
    assert sum(results["seconds"][part] for part in ("train", "evaluate", "data")) <= results["seconds"]["total"]
    assert set(results["footprint_bytes"]) == {"parameters", "activations", "gradients"}
    assert results["peak_memory_bytes"] > sum(results["footprint_bytes"].values()) > 0
    assert results["density"] == results["capacity"] == 1.0


def test_the_event_log_has_one_line_an_epoch_and_one_a_task(finished):
    events = [json.loads(line) for line in (finished / "events.jsonl").read_text().splitlines()]
    assert [event["event"] for event in events] == ["epoch", "task"] * 5
    assert events[0]["samples"] == 36, "20 of each of two classes, less a tenth held out for validation"


def test_the_recorded_config_starts_the_same_run_again(finished, tmp_path):
    esacl("run", "--config", finished / "config.toml", "--out", tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (finished / "model.safetensors").read_bytes()


WHOLE = [*PRUNING, "--epochs", "1", "--sparsity", "0.8", "--keep", "0.4", "--rho", "0.05"]


def test_the_whole_algorithm_runs_from_its_flags(tmp_path, capsys):
    esacl("run", *WHOLE, "--set", "update.reach=0.5", "--out", tmp_path / "run")
    assert "esacl-der++" in capsys.readouterr().out
    text = (tmp_path / "run" / "config.toml").read_text()
    for line in ("level = 0.8", "keep = 0.4", "rho = 0.05"):
        assert f"\n{line}\n" in text
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["sparsity"] == 0.8
    assert results["density"] == results["capacity"] == pytest.approx(0.2, abs=1e-4)
    assert 0 < results["flops"]["paper"] < 0.5 * results["flops"]["executed"]
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


def test_the_options_of_a_method_are_explained_with_their_flags_and_defaults(capsys):
    esacl("methods", "esacl-er")
    told = capsys.readouterr().out
    for words in ("sparsity.level (--sparsity)", "gradient.rho (--rho)", "objective.buffer (--buffer)", "update.k"):
        assert words in told
    with pytest.raises(ConfigError, match=r"unknown method 'esacl-err'\. Did you mean 'esacl-er'\?"):
        esacl("methods", "esacl-err")


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "--method", "derpp"], "Did you mean 'der++'?"),
        (["run", "--stream", "split-cifar"], "Did you mean 'split-cifar10'?"),
        (["run", "--backbone", "resnet81"], "Did you mean 'resnet18'?"),
        (["run", "--mehtod", "er"], "Did you mean --method?"),
        (["rnu"], 'Did you mean "run"?'),
        (["run", "--set", "train.epcohs=3"], "Did you mean 'epochs'?"),
        (["run", "--epochs", "0"], "a whole number from 1 to 100000"),
        (["run", "--epochs", "many"], 'unable to convert "many" into int'),
        (["run", "--precision", "64"], 'Choose from: "32", "bf16", "16"'),
        (["run", "--method", "finetune", "--buffer", "5"], "use it: co2l, der++, er, esacl-co2l, "),
        (["run", "--sparsity", "0.5"], "no use for --sparsity (sparsity.level) = 0.5. Methods that use it: esacl"),
        (["run", "--keep", "0.5"], "no use for --keep (selection.keep) = 0.5. Methods that use it: esacl, esacl-co2l"),
        (["run", "--method", "esacl-la-maml"], "SharpnessAware and Lookahead both claim the gradient slot"),
        (["run", "--method", "er", "--rho", "0.1"], "no use for --rho (gradient.rho) = 0.1. Methods that use it:"),
        (["run", *PRUNING, "--sparsity", "1.5"], "sparsity.level = 1.5 is not allowed. Allowed: a number from 0"),
        (["run", *PRUNING, "--keep", "0"], "selection.keep = 0.0 is not allowed. Allowed: a number from 0.01 to 1."),
        (["run", *PRUNING, "--rho", "-1"], "gradient.rho = -1.0 is not allowed. Allowed: a number from 0 to 100."),
        (["run", *PRUNING, "--rho", "0.1", "--set", "sparsity.sharpness=false"], "while sparsity.sharpness = false."),
        (["run", "--preset", "nope"], "unknown preset 'nope'. Allowed: paper."),
        (["run", "--config", "nowhere.toml"], "there is no config file 'nowhere.toml'"),
        (["run", "--tasks", "3"], "tasks"),
        (["resume", "nowhere"], "there is no run in 'nowhere'"),
        (["report", "nowhere"], "nowhere"),
        (["data", "get", "cifar"], "Did you mean 'cifar10'?"),
        (["run", "--stream", "split-cifar10", "--data-dir", "nowhere"], "esacl data get cifar10"),
        (["run", "--lr", "100", "--epochs", "2"], "Use a smaller --lr"),
    ],
)
def test_bad_input_is_one_line_that_helps(fails, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in fails(*words)


def test_a_directory_that_holds_a_run_is_not_overwritten_unless_asked(fails, finished):
    before = (finished / "results.json").read_bytes()
    told = fails("run", "--method", "er", *QUICK, "--out", finished)
    assert "esacl resume" in told
    assert "--overwrite" in told
    assert (finished / "results.json").read_bytes() == before


def test_refused_settings_leave_no_directory_behind(fails, tmp_path):
    fails("run", "--method", "finetune", "--buffer", 3, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_on_other_data_is_not_resumed(fails, finished, tmp_path):
    copy = tmp_path / "copy"
    esacl("run", "--method", "finetune", *QUICK, "--out", copy)
    (copy / "results.json").unlink()
    text = (copy / "config.toml").read_text()
    (copy / "config.toml").write_text(text.replace("limit_per_class = 20", "limit_per_class = 30"))
    assert "not those that the run" in fails("resume", copy)


def test_interrupting_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(self):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr("esacl.training.trainer.Trainer.run", interrupted)
    with pytest.raises(SystemExit) as ended:
        esacl("run", *QUICK, "--out", tmp_path / "run")
    assert ended.value.code == 130
    assert f"esacl resume {tmp_path / 'run'}" in capsys.readouterr().err.replace("\n", "")


def test_progress_shows_task_epoch_loss_speed_and_time_left_on_a_terminal_only(tmp_path, monkeypatch):
    monkeypatch.setattr("esacl.cli.progress.REFRESH", 0.0)
    settings = Config("er", stream=StreamConfig(limit_per_class=20), train=TrainConfig(epochs=2))
    terminal = Console(force_terminal=True, width=120, record=True)
    with start(settings, tmp_path / "a") as run, training_progress(terminal, run) as listen:
        for event in run.events():
            listen(event)
    shown = terminal.export_text()
    for piece in ("task 5/5", "epoch 2/2", "loss ", "samples/s", "100%", "after task 5/5: Task-IL", "0:00:0"):
        assert piece in shown, piece
    pipe = Console(force_terminal=False, record=True)
    with start(settings, tmp_path / "b") as run, training_progress(pipe, run) as listen:
        for event in run.events():
            listen(event)
    assert pipe.export_text() == ""


@pytest.mark.parametrize("progress", [counting_progress, transfer_progress])
def test_other_bars_are_drawn_on_a_terminal_only(progress):
    for interactive in (True, False):
        console = Console(force_terminal=interactive, width=100, record=True)
        with progress(console, "reading") as tell:
            for done in range(0, 101, 50):
                tell(done, 100)
        assert ("100/100" in console.export_text()) == interactive


@pytest.fixture
def half_done(tmp_path):
    """A run that stopped after its second checkpoint."""
    directory = tmp_path / "half"
    settings = Config.of(method="er", limit_per_class=20, epochs=3, buffer=30)
    with start(settings, directory) as run:
        for _, _event in zip(range(7), run.events()):
            pass
    assert not (directory / "results.json").exists()
    return directory


@pytest.mark.parametrize(
    ("was", "becomes", "named"),
    [
        ("seed = 0", "seed = 5", "seed = 5"),
        ("width = 256", "width = 128", "net.width = 128"),
        ('method = "er"', 'method = "der++"', 'method = "der++"'.replace('"', "'")),
        ("epochs = 3", "epochs = 1", "train.epochs = 1"),
    ],
)
def test_a_run_is_not_resumed_with_other_settings(fails, half_done, was, becomes, named):
    config = half_done / "config.toml"
    assert was in config.read_text()
    config.write_text(config.read_text().replace(was, becomes))
    told = fails("resume", half_done)
    assert named in told
    assert "started with" in told


def test_a_log_that_was_lost_does_not_stop_a_resume(half_done):
    (half_done / "events.jsonl").unlink()
    esacl("resume", half_done)
    assert (half_done / "report.html").exists()


def test_the_recorded_settings_find_the_data_from_any_folder(tmp_path, monkeypatch):
    write_folder(tmp_path, "cifar-10-batches-py", cifar10_files())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ESACL_DATA", ".")
    words = ["--stream", "split-cifar10", "--backbone", "mlp", "--width", "8", "--epochs", "1"]
    esacl("run", "--method", "finetune", *words, "--out", "run")
    text = (tmp_path / "run" / "config.toml").read_text()
    assert f'data_dir = "{tmp_path.resolve()}"' in text
    assert "tasks = 5" in text
    assert "classes_per_task = 2" in text


@pytest.mark.parametrize("name", ["model.safetensors", "checkpoint", "report.html"])
def test_files_that_no_run_made_are_never_deleted(fails, tmp_path, name):
    (tmp_path / name).write_text("mine")
    for words in ([], ["--overwrite"]):
        assert f"holds '{name}'" in fails("run", *QUICK, "--out", tmp_path, *words)
    assert (tmp_path / name).read_text() == "mine"


def test_a_full_disk_is_one_line_that_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    settings = Config.of(method="finetune", limit_per_class=20, epochs=1)
    with start(settings, tmp_path / "run"):
        pass
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(SystemExit) as ended:
        main(["resume", str(tmp_path / "run")])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "No space left on device" in told
    assert "esacl resume" in told
    with pytest.raises(SystemExit):
        main(["run", *QUICK, "--out", str(tmp_path / "other")])
    assert "No space left on device" in capsys.readouterr().err


def test_an_option_of_folders_is_refused_for_other_streams(fails):
    assert "of use for folder:PATH only" in fails("run", "--image-size", "64")
