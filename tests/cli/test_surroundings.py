"""Commands whose output, memory or directory is not as it should be."""

import os
import subprocess
import sys
import warnings

import pytest

from esacl.cli import main
from esacl.cli.consoles import NARROWEST, STATUS
from esacl.cli.errors import warnings_as_notes
from tests.deploy.models import saved


def shell(line):
    """A command line through a shell: exit code and what it says."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m esacl {line}"],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    return done.returncode, done.stderr


def test_output_onto_a_full_disk_is_one_line():
    code, said = shell("--version > /dev/full")
    assert (code, said.splitlines()) == (
        2,
        ["error: the system refused: No space left on device. Nothing that was saved is lost."],
    )


def test_a_command_without_standard_output_works():
    assert shell("--version >&-") == (0, "")


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_a_full_memory_is_one_line(monkeypatch, capsys, error):
    def full(*_, **__):
        raise error

    monkeypatch.setattr("esacl.cli.app", full)
    with pytest.raises(SystemExit) as ended:
        main(["methods"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: the memory is full. ")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", ["config.toml", "results.json", "events.jsonl", "checkpoint"])
@pytest.mark.parametrize("words", [["resume"], ["report"], ["inspect"]])
def test_a_pipe_in_the_place_of_a_file_of_a_run_is_refused(tmp_path, monkeypatch, capsys, name, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    for file in {"config.toml", "results.json"} - {name}:
        (tmp_path / "run" / file).write_text("{}" if file.endswith("json") else "")
    os.mkfifo(tmp_path / "run" / name)
    with pytest.raises(SystemExit) as ended:
        main([*words, "run"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_names_of_files_cannot_command_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = saved(tmp_path, epochs=1)
    (tmp_path / "\x1b[31mred\u202e.png").write_bytes(b"no image")
    with pytest.raises(SystemExit):
        main(["predict", str(model), "\x1b[31mred\u202e.png"])
    assert "�[31mred�.png: not a readable image" in capsys.readouterr().err


def test_warnings_of_an_image_library_are_not_shown(capsys):
    with warnings_as_notes(STATUS):
        warnings.warn_explicit(
            "Truncated File Read", UserWarning, "TiffImagePlugin.py", 773, module="PIL.TiffImagePlugin"
        )
    assert capsys.readouterr().err == ""


def test_a_value_of_several_lines_is_told_in_one(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--stream", "a\nb", "--out", "x"])
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("columns", [0, 1, 2])
def test_help_ends_in_a_terminal_without_room(columns):
    environment = {**os.environ, "COLUMNS": str(columns)}
    done = subprocess.run([sys.executable, "-m", "esacl", "run", "--help"], env=environment, capture_output=True)
    assert done.returncode == 0
    assert max(map(len, done.stdout.decode().splitlines())) == NARROWEST


@pytest.mark.parametrize("word", ["[]", "[1]", "null", '{"a": 1}'])
def test_a_word_is_a_path_and_no_json(capsys, word):
    with pytest.raises(SystemExit):
        main(["table", "a", word, "b"])
    assert capsys.readouterr().err.startswith("error: there is no run directory 'a'")
