"""Methods, streams, backbones and parts of other packages: used by name, and told in one line where they fail."""

import json
import sys

import numpy as np
import pytest

import esacl
from esacl.config import Config, StreamConfig
from esacl.errors import ConfigError
from esacl.methods import METHODS, check_settings, method
from esacl.methods.names import part, plugin_methods
from esacl.runner import start
from esacl.testing import CheckFailed, check_backbone, check_method, check_stream
from esacl.training.events import EpochDone
from tests.cli.commands import esacl as command
from tests.installing import install, install_example

QUICK = ["--epochs", 1, "--width", 8]


@pytest.fixture
def example(tmp_path, monkeypatch):
    install_example(tmp_path / "site", monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_package_from_outside_adds_a_method_a_stream_and_a_backbone(example, capsys):
    names = ["--method", "esacl-anchor", "--stream", "stripes", "--backbone", "tiny"]
    command("run", *names, *QUICK, "--out", "run")
    results = json.loads((example / "run" / "results.json").read_text())
    assert (results["method"], results["stream"], results["tasks"]) == ("esacl-anchor", "stripes", 3)
    command("methods")
    assert "hold the weights near those of the last task" in capsys.readouterr().out
    command("inspect", "run")
    assert "tiny" in capsys.readouterr().out


def test_a_run_with_installed_parts_resumes_by_itself_to_the_same_bits(example):
    config = Config.of(method="anchor", stream="stripes", backbone="tiny", width=8, epochs=2, threads=1)
    whole = esacl.run(config, example / "whole")
    with start(config, example / "stopped") as opened:
        for event in opened.events():
            if isinstance(event, EpochDone) and event.task == 1:
                break
    assert esacl.resume(example / "stopped").matrix == whole.matrix


def test_the_classifier_takes_names_of_plugins(example):
    x, y = np.random.default_rng(0).integers(0, 255, (40, 8, 8)).astype(np.uint8), np.arange(40) % 2
    model = esacl.ContinualClassifier("esacl-anchor", backbone="tiny", epochs=1, random_state=0).partial_fit(x, y)
    model.save(example / "model.esacl")
    again = esacl.ContinualClassifier.load(example / "model.esacl")
    assert np.array_equal(again.predict(x), model.predict(x))


def test_the_checks_of_the_example_pass(example):
    import esacl_anchor

    assert check_method(esacl_anchor.ANCHOR).rows
    check_stream(esacl_anchor.stripes(StreamConfig("stripes"), seed=0))
    check_backbone(esacl_anchor.TINY, shape=(1, 8, 8))
    with pytest.raises(CheckFailed, match=r"no esacl\.Backbone"):
        check_backbone(esacl_anchor.Tiny)


FAULTS = {
    "fails to import": ("raise RuntimeError('no luck')", "bad:X", "cannot be imported: RuntimeError: no luck"),
    "is not there": ("", "bad:X", "cannot be imported: AttributeError"),
    "is no method": ("X = 3", "bad:X", "int is no method. Make one: esacl.Method"),
    "misses a method": (
        "import esacl\nclass Y: pass\nX = esacl.Method('x', {'gradient': Y})",
        "bad:X",
        "Y cannot fill the gradient slot",
    ),
    "has a wrong signature": (
        "import esacl\nclass Y(esacl.Objective):\n    def end_task(self, net): pass\n"
        "X = esacl.Method('x', {'objective': Y})",
        "bad:X",
        "Y.end_task takes (self, net), but is called with (self, net, task)",
    ),
    "claims no slot": ("import esacl\nX = esacl.Method('x', {'glue': esacl.Readout})", "bad:X", "unknown slot 'glue'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_plugin_is_told_in_one_line_and_others_go_on(fault, tmp_path, monkeypatch):
    code, value, told = FAULTS[fault]
    monkeypatch.delitem(sys.modules, "bad", raising=False)
    install(tmp_path, monkeypatch, "bad", {"esacl.methods": {"worse": value}}, code)
    with pytest.raises(ConfigError) as error:
        method("worse")
    message = str(error.value)
    assert message.startswith("the plugin 'bad' offers the method 'worse', but ")
    assert told in message
    assert message.endswith("Update or uninstall the plugin.")
    assert "\n" not in message
    found, problems = plugin_methods()
    assert (found, problems) == ({}, [message])
    assert check_settings(Config("esacl-er"))
    sys.modules.pop("bad", None)


def test_a_plugin_cannot_take_a_name_of_the_library(tmp_path, monkeypatch, capsys):
    install(tmp_path, monkeypatch, "greedy", {"esacl.methods": {"er": "greedy:X"}}, "raise SystemExit('started')")
    assert method("er") is METHODS["er"]
    command("methods")
    assert "a name that esacl has itself: it is left out. Rename its entry point." in " ".join(
        capsys.readouterr().err.split()
    )


def test_two_plugins_with_one_name_are_told(tmp_path, monkeypatch):
    install(tmp_path / "a", monkeypatch, "one", {"esacl.methods": {"mine": "one:X"}}, "")
    install(tmp_path / "b", monkeypatch, "two", {"esacl.methods": {"mine": "two:X"}}, "")
    with pytest.raises(ConfigError, match=r"plugins 'one' and 'two' both offer the method 'mine'\. Uninstall one"):
        method("mine")


def test_parts_and_readouts_of_plugins_fill_their_slots(tmp_path, monkeypatch, capsys):
    code = "import esacl\nclass Own(esacl.Readout):\n    '''Mine.'''\nclass Step(esacl.UpdateRule):\n    '''Yours.'''\n"
    points = {"esacl.readouts": {"own": "given:Own"}, "esacl.parts": {"step": "given:Step"}}
    install(tmp_path, monkeypatch, "given", points, code)
    assert part("readout", "own").__name__ == "Own"
    assert part("update", "step").__name__ == "Step"
    with pytest.raises(ConfigError, match="Step cannot fill the readout slot"):
        part("readout", "step")
    command("parts", "readout")
    assert "Mine" in capsys.readouterr().out
    check_settings(Config.of(method="er", readout="own", update="step"))
