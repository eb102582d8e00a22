"""What a newcomer runs into: each stumble is one line, and nothing is lost by it."""

import json
import os
from errno import ENOSPC
from pathlib import Path

import pytest
from PIL import Image

from esacl.cli import app, main
from esacl.files import Folder
from tests.cli.commands import QUICK, esacl

FAST = ["--method", "finetune", *QUICK]


@pytest.fixture
def photos(tmp_path):
    """Make folders of images: number of pictures by class."""

    def make(counts):
        for label, (name, count) in enumerate(counts.items()):
            (tmp_path / "photos" / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (6, 6), (40 * label, 9 * number, 0)).save(tmp_path / "photos" / name / f"{number}.png")
        return tmp_path / "photos"

    return make


@pytest.fixture
def interrupts(capsys):
    """Run a command that Ctrl-C ends."""

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        assert ended.value.code == 130
        return capsys.readouterr().err

    return run


def fill_disk(monkeypatch, name):
    """From now on no file whose name contains this can be written, and half a line of it is left."""
    usual = Folder._open

    def opened(folder, entry, flags, inside):
        descriptor = usual(folder, entry, flags, inside)
        if name in entry and flags & (os.O_WRONLY | os.O_RDWR):
            os.write(descriptor, b'{"ev')
            os.close(descriptor)
            raise OSError(ENOSPC, "No space left on device")
        return descriptor

    monkeypatch.setattr(Folder, "_open", opened)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The results of a run that nothing stopped."""
    place = tmp_path_factory.mktemp("whole") / "run"
    esacl("run", *FAST, "--out", place)
    return json.loads((place / "results.json").read_text())["matrix"]


@pytest.mark.parametrize("name", ["events.jsonl", "000003.safetensors", "model.safetensors", "results.json", "report"])
def test_a_full_disk_at_any_file_is_one_line_and_the_run_ends_the_same_once_there_is_room(
    name, fails, whole, whole_reports, tmp_path, monkeypatch
):
    place = tmp_path / "run"
    with monkeypatch.context() as disk:
        fill_disk(disk, name)
        told = fails("run", *FAST, "--out", place)
    assert told.startswith("error: ")
    assert "No space left on device" in told
    assert ("The results are saved" if name == "report" else f"esacl resume {place}") in told
    assert not list(place.rglob(".*.tmp"))
    esacl("resume", place)
    assert json.loads((place / "results.json").read_text())["matrix"] == whole
    assert (place / "report.html").stat().st_size > 10_000
    assert [json.loads(line)["event"] for line in (place / "events.jsonl").read_text().splitlines()][-1] == "finished"


def test_a_place_that_cannot_be_written_is_refused_before_any_data_are_read(fails, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("esacl.streams.photos.decoded", lambda *_: pytest.fail("the images were read"))
    words = ["run", "--stream", f"folder:{photos({'a': 3, 'b': 3})}", "--out"]
    (tmp_path / "file").write_text("mine")
    assert f"cannot write to '{tmp_path / 'file'}': '{tmp_path / 'file'}' is a file" in fails(*words, tmp_path / "file")
    assert "is a file. Choose another folder with --out." in fails(*words, tmp_path / "file" / "deep" / "run")
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    assert f"you may not write to the folder '{tmp_path}'" in fails(*words, tmp_path / "new" / "run")
    assert not (tmp_path / "new").exists()


def test_the_config_of_somebody_else_is_not_replaced(fails, tmp_path):
    (tmp_path / "config.toml").write_text('title = "my site"\n')
    assert "is not the config.toml of a run" in fails("run", *FAST, "--overwrite", "--out", tmp_path)
    assert "does not describe a run: unknown setting 'title'" in fails("resume", tmp_path)
    assert (tmp_path / "config.toml").read_text() == 'title = "my site"\n'


def test_interrupted_while_images_are_read_leaves_nothing_behind(interrupts, photos, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("esacl.streams.photos.decode_resized", stop)
    folder = photos({"a": 3, "b": 3})
    assert "interrupted" in interrupts("run", "--stream", f"folder:{folder}", "--out", tmp_path / "run")
    assert "interrupted" in interrupts("learn", tmp_path / "model", folder, "--method", "er")
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_interrupted_while_a_report_is_written_keeps_the_old_one(interrupts, finished, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    before = (finished / "report.html").read_bytes()
    monkeypatch.setattr("esacl.files.os.fsync", stop)
    interrupts("report", finished)
    assert (finished / "report.html").read_bytes() == before
    assert not list(finished.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "er"], "esacl run has no place for 'er'. `esacl run --help` lists"),
        (["run", "--method"], "esacl run needs --method: method to train"),
        (["learn", "model"], "esacl learn needs FOLDER: folder that holds one sub-folder of images for each class."),
        (["data", "gte"], 'Unknown command "gte". Did you mean "get"? Allowed: check, get. `esacl data --help`'),
        (["frobnicate"], "Allowed: data, evaluate, export, grid, inspect, landscape, leaderboard, learn, methods, "),
        (["run", "--jobs", "2"], "Unknown option: --jobs. Did you mean --json? `esacl run --help` lists"),
        (["run", "--processes", "0"], "--processes 0 is not allowed. Allowed: a whole number from 1 to"),
        (["run", "--backbone", "nosuch:net"], "backbone 'nosuch:net' cannot be imported from"),
        (["landscape"], "no run was given to draw. Name finished ones: esacl landscape runs/first"),
        (["landscape", "empty"], "there is no run in 'empty': it has no config.toml. Start one with"),
        (
            ["resume", "empty"],
            "there is no run in 'empty': it has no config.toml. Start one with `esacl run --out empty`",
        ),
        (["resume", "file"], "there is no run in 'file': that is a file."),
        (["resume", "many"], "Give one of the runs in it, such as 'many/one'."),
        (["report", "empty"], "there is no finished run in 'empty'. Give a directory of `esacl run` or `esacl grid`"),
        (["table", "empty"], "there is no finished run in 'empty'. Give a directory of `esacl run` or `esacl grid`"),
        (["table", "empty", "--out", "nowhere/t.md"], "'nowhere/t.md' is in a folder that does not exist, so no table"),
        (["export", "m", "--format", "torch", "--out", "empty"], "'empty' is a directory, so no model can be written"),
        (["predict", "m"], "no image was given. Name files, or folders of them: esacl predict m photo.jpg"),
    ],
)
def test_a_stumble_is_one_line_that_says_what_to_do(fails, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("many/one").mkdir(parents=True)
    Path("many/one/config.toml").touch()
    Path("file").touch()
    told = fails(*words)
    assert told.startswith("error: ")
    assert message in told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "many"]


@pytest.mark.filterwarnings("default::UserWarning")
def test_classes_of_all_but_the_same_name_are_learnt_with_a_note(photos, capsys, tmp_path):
    folder = photos({"Cats": 3, "cats": 3, "dogs": 3})
    words = ["--epochs", "1", "--backbone", "mlp", "--width", "8"]
    with pytest.raises(SystemExit) as ended:
        main(["run", "--stream", f"folder:{folder}", "--tasks", "1", *words, "--out", str(tmp_path / "run")])
    assert ended.value.code == 0
    told = capsys.readouterr().err
    assert told.startswith("note: 'Cats' and 'cats' are learnt as two classes.")
    assert ".py" not in told


def test_a_class_that_is_known_under_another_case_is_noted_and_a_known_one_is_not(photos, tmp_path):
    folder, model = photos({"Cats": 3, "dogs": 3}), tmp_path / "model"
    esacl("learn", model, folder, "--method", "er", "--epochs", 1)
    (folder / "Cats").rename(folder / "cats")
    with pytest.warns(UserWarning, match="'Cats' and 'cats' are learnt as two classes") as caught:
        esacl("learn", model, folder)
    assert len(caught) == 1
    esacl("learn", model, folder)  # where a warning is an error


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_the_help_says_what_to_type_first(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    first, then = told.index("esacl run --out runs/first"), told.index("esacl report runs/first runs/plain")
    assert first < then < told.index("Train and compare") < told.index("Use a model") < told.index("See what there is")


def test_the_commands_of_the_help_are_accepted():
    for words in (["run", "--out", "runs/first"], ["report", "runs/first", "runs/plain"]):
        assert not app.parse_args(words, exit_on_error=False, print_error=False)[2]
