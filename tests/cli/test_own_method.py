"""Methods, parts and streams that are code of the user's own: named, named again, and never started by a file."""

import json

import pytest

import esacl
from esacl.config import Config
from esacl.errors import CheckpointError, ConfigError
from esacl.methods.catalogue import ER, GPM
from esacl.runner import start
from esacl.training.events import EpochDone
from tests.cli.commands import esacl as command

CODE = """
import esacl, torch

class Shy(esacl.Readout):
    '''The head, by another name.'''

METHOD = esacl.combine("mine", esacl.Method("shy", {"readout": Shy}))

def open(config, seed):
    return esacl.from_arrays(torch.randint(0, 255, (60, 8, 8)).byte(), torch.arange(60) % 4, tasks=2)
"""
QUICK = ["--epochs", 1, "--tasks", 2, "--limit-per-class", 10]


@pytest.fixture
def code(tmp_path, monkeypatch):
    (tmp_path / "shy.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(*words):
    with pytest.raises(ConfigError) as error:
        command(*words)
    return str(error.value)


def test_code_is_a_method_or_a_part_and_is_named_again_to_go_on(code):
    command("run", "--method", "shy.py:METHOD", *QUICK, "--out", "one")
    command("run", "--method", "er", "--readout", "shy:Shy", "--constraint", "gpm", *QUICK, "--out", "two")
    assert json.loads((code / "two" / "results.json").read_text())["method"] == "er + gpm + shy:Shy"
    for run, name in (("one", "shy.py:METHOD"), ("two", "shy:Shy")):
        (code / run / "results.json").unlink()
        assert f"{name!r}, and no file is allowed to start code" in refusal("resume", run)
        command("resume", run, "--code", name)
        assert (code / run / "results.json").exists()


def test_a_config_file_alone_starts_no_code(code):
    (code / "shy.py").write_text("raise SystemExit('this code was started')")
    for text in ('method = "shy:METHOD"', 'parts.readout = "shy:Shy"', 'stream.name = "shy.py:open"'):
        (code / "sent.toml").write_text(text)
        assert "no file is allowed to start code" in refusal("run", "--config", "sent.toml", "--out", "x")
    assert "this code was started" in refusal("run", "--config", "sent.toml", "--out", "x", "--code", "shy.py:open")


def test_a_stream_of_code_trains(code):
    command("run", "--method", "finetune", "--stream", "shy:open", "--epochs", 1, "--out", "run")
    assert json.loads((code / "run" / "results.json").read_text())["tasks"] == 2


def test_several_processes_load_the_code_that_the_first_was_given(code):
    command("run", "--method", "shy.py:METHOD", *QUICK, "--processes", 2, "--out", "run")
    assert (code / "run" / "results.json").exists()


def test_an_object_is_a_method_and_is_given_again_to_the_same_bits(tmp_path):
    mine = esacl.combine("both", ER, GPM)
    settings = Config.of(epochs=2, limit_per_class=20, tasks=2, threads=1, buffer=20)
    whole = esacl.run(settings, tmp_path / "whole", method=mine)
    assert whole.method == "<Er + Gpm>"
    with start(settings, tmp_path / "stopped", method=mine) as opened:
        next(event for event in opened.events() if isinstance(event, EpochDone))
    with pytest.raises(ConfigError, match="an object in the memory of Python, '<Er \\+ Gpm>'"):
        esacl.resume(tmp_path / "stopped")
    assert esacl.resume(tmp_path / "stopped", method=mine).matrix == whole.matrix
    twin = Config.of(method="er", constraint="gpm", epochs=2, limit_per_class=20, tasks=2, threads=1, buffer=20)
    assert esacl.run(twin, tmp_path / "twin").matrix == whole.matrix


class Lossy(esacl.Readout):
    """Cannot read what it wrote."""

    def load_state_dict(self, state):
        raise KeyError("means")


def test_a_state_that_does_not_come_back_is_told_with_the_part(tmp_path):
    mine = esacl.Method("lossy", {"readout": Lossy})
    settings = Config.of(epochs=2, limit_per_class=20, tasks=2)
    with start(settings, tmp_path / "run", method=mine) as opened:
        next(event for event in opened.events() if isinstance(event, EpochDone))
    with pytest.raises(CheckpointError, match=r"Lossy \(tests.*\), the readout, cannot go on from the state"):
        esacl.resume(tmp_path / "run", method=mine)


@pytest.mark.parametrize(
    ("given", "meant"),
    [("esacl-derpp", "esacl-der++"), ("escal-er", "esacl-er"), ("packnett-lwf", "packnet-lwf"), ("derpp", "der++")],
)
def test_a_misspelt_name_suggests_the_right_one_for_whole_and_part(given, meant):
    assert f"Did you mean {meant!r}?" in refusal("run", "--method", given)


def test_the_parts_of_a_slot_are_listed_with_their_options(capsys):
    command("parts", "gradient", "--json")
    found = json.loads(capsys.readouterr().out)["gradient"]
    assert found["sharpness"]["options"]["rho"]["default"] == 0.0
    command("parts")
    assert "--readout" in capsys.readouterr().out
    assert "Did you mean 'readout'?" in refusal("parts", "redout")
