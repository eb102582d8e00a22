"""Every command that opens what somebody saved starts its code only where `--code` names it."""

import pytest

from esacl import ContinualClassifier
from esacl.errors import CheckpointError, ConfigError
from esacl.estimator import storage
from esacl.short_names import as_flags
from tests.cli.commands import esacl
from tests.deploy.models import pictures, write_pictures

CODE = "import esacl\nclass Shy(esacl.Readout):\n    '''The head.'''\nMETHOD = esacl.Method('mine', {'readout': Shy})\n"
NAME = "shy.py:METHOD"


@pytest.fixture
def model(tmp_path, monkeypatch):
    """The file of a classifier with a method of the user's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shy.py").write_text(CODE)
    ContinualClassifier(NAME, epochs=1, random_state=0).partial_fit(*pictures(range(2), each=8)).save("m.esacl")
    write_pictures(tmp_path / "new", range(2), each=2)
    return tmp_path / "m.esacl"


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "m.esacl", "--json"),
        ("predict", "m.esacl", "new"),
        ("export", "m.esacl", "--format", "torch", "--out", "m.pt"),
        ("learn", "m.esacl", "new", "--epochs", "1", "--out", "more.esacl"),
    ],
)
def test_a_saved_model_starts_code_only_where_it_is_named_again(model, words):
    with pytest.raises(ConfigError, match="no file is allowed to start code") as error:
        esacl(*words)
    assert error.value.problem.message(as_flags()).endswith(f"--code {NAME}.")
    esacl(*words, "--code", NAME)


def test_parameters_of_a_sent_classifier_start_no_code_of_their_own(model, monkeypatch):
    """The settings of the file name no code, but its parameters do, from which the next task is learnt."""
    (model.parent / "evil.py").write_text("raise SystemExit('this code was started')")
    honest = ContinualClassifier("finetune", epochs=1, random_state=0).partial_fit(*pictures(range(2), each=8))
    for sent in ({"method": "evil.py:METHOD"}, {"options": {"parts": {"readout": "evil.py:Shy"}}}):
        usual = storage.plain
        with monkeypatch.context() as patch:
            patch.setattr(storage, "plain", lambda value, sent=sent: {**value, **sent} if "epochs" in value else value)
            honest.save(model)
        assert storage.plain is usual
        with pytest.raises(CheckpointError, match=r"its parameters name code, 'evil\.py:"):
            esacl("learn", model, "new")


def test_an_old_run_whose_scale_is_looked_up_starts_no_code(model, monkeypatch):
    """The scale of images was not written down by older versions, so the stream is opened: it may be code."""
    from esacl.deploy import opening

    esacl("run", "--method", "finetune", "--epochs", 1, "--limit-per-class", 10, "--out", "run")
    for name in ("config.toml", "results.json"):
        file = model.parent / "run" / name
        file.write_text(file.read_text().replace('"split-digits"', '"evil.py:open"'))
    (model.parent / "evil.py").write_text("raise SystemExit('this code was started')")
    usual = opening._weights

    def without_scale(directory):
        about, tensors = usual(directory)
        return {name: value for name, value in about.items() if name != "inputs"}, tensors

    monkeypatch.setattr(opening, "_weights", without_scale)
    with pytest.raises(ConfigError, match="no file is allowed to start code"):
        esacl("inspect", "run")
    with pytest.raises(Exception, match="this code was started"):
        esacl("inspect", "run", "--code", "evil.py:open")
