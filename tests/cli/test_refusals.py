"""What the command line does with what it cannot do."""

import pytest
from rich.console import Console

from esacl.cli import main
from esacl.cli.progress import counting_progress, training_progress, transfer_progress
from esacl.config import Config, StreamConfig, TrainConfig
from esacl.runner import start
from tests.cli.commands import DENSE, PRUNING, QUICK, esacl
from tests.streams.layouts import cifar10_files, write_folder


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
        (
            ["run", *DENSE, "--sparsity", "0.5"],
            "no use for --sparsity 0.5. Methods that use it: ",
        ),
        (
            ["run", *DENSE, "--keep", "0.5"],
            "no use for --keep 0.5. Methods that use it: esacl, ",
        ),
        (
            ["run", "--method", "esacl-la-maml"],
            "esacl and la-maml cannot be combined: SharpnessAware and Lookahead",
        ),
        (["run", "--method", "wsn-icarl"], "NearestMean is fitted with the weights of the last task, but Wsn"),
        (["run", "--method", "er-esacl"], "only a sparsity strategy stands before another method in a name"),
        (["run", "--method", "er", "--rho", "0.1"], "no use for --rho 0.1. Methods that use it:"),
        (["run", *PRUNING, "--sparsity", "1.5"], "--sparsity 1.5 is not allowed. Allowed: a number from 0"),
        (["run", *PRUNING, "--keep", "0"], "--keep 0.0 is not allowed. Allowed: a number from 0.01 to 1."),
        (["run", *PRUNING, "--rho", "-1"], "--rho -1.0 is not allowed. Allowed: a number from 0 to 100."),
        (
            ["run", *PRUNING, "--rho", "0.1", "--set", "sparsity.sharpness=false"],
            "use --set sparsity.sharpness=true.",
        ),
        (["run", "--preset", "nope"], "unknown preset 'nope'. Allowed: full, paper."),
        (["run", "--config", "nowhere.toml"], "there is no config file 'nowhere.toml'"),
        (["run", "--tasks", "3"], "tasks"),
        (["resume", "nowhere"], "there is no run in 'nowhere'"),
        (["report", "nowhere"], "nowhere"),
        (["data", "get", "cifar"], "Did you mean 'cifar10'?"),
        (["run", "--stream", "split-cifar10", "--data-dir", "nowhere"], "esacl data get cifar10"),
        (["run", *DENSE, "--lr", "100", "--epochs", "2"], "Use a smaller --lr"),
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
        with progress(console, "reading {a} [/b]") as tell:
            for done in range(0, 101, 50):
                tell(done, 100)
        shown = console.export_text()
        assert ("100/100" in shown) == ("reading {a} [/b]" in shown) == interactive


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
