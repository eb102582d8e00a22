"""Runs and models whose network is the user's own: exact, resumable, loadable, and no code that nobody allowed."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import esacl
from esacl.config import read_toml
from esacl.deploy import open_model
from esacl.errors import CheckpointError, ConfigError, DataError
from esacl.runner import start
from esacl.training.events import EpochDone, TaskDone
from tests.builders import same
from tests.cli.commands import esacl as command
from tests.deploy.models import pictures, write_pictures
from tests.nets.own_nets import OWN, Plain, Separable, made

SETTINGS = esacl.Config.of(method="esacl-der++", epochs=1, buffer=20, limit_per_class=40, threads=1).with_options(
    sparsity={"form": "freeze"}
)
CODE = """
from torch import nn
def tiny():
    return nn.Sequential(nn.Flatten(), nn.Linear({inputs}, 16), nn.ReLU(), nn.Linear(16, 10))
"""


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A folder with networks for 8×8 images of one channel and of three."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grey.py").write_text(CODE.format(inputs=64))
    (tmp_path / "wide.py").write_text(CODE.format(inputs=64).replace("ReLU()", "ReLU(), nn.Linear(16, 16)"))
    (tmp_path / "colour.py").write_text(CODE.format(inputs=192))
    return tmp_path


@pytest.mark.parametrize("kind", OWN)
def test_density_is_exact_frozen_weights_stay_and_a_run_resumes_to_the_same_bits(kind, tmp_path):
    frozen = {}
    with start(SETTINGS, tmp_path / "whole", backbone=made(kind)) as whole:
        strategy, net = whole.trainer.parts.sparsity, whole.trainer.net
        for event in whole.events():
            if isinstance(event, TaskDone):
                assert all(torch.equal(net.stored[name][mask], kept) for name, (mask, kept) in frozen.items())
                masks = {name: mask.clone() for name, mask in strategy.kept.items()}
                frozen = {name: (mask, net.stored[name].detach()[mask]) for name, mask in masks.items()}
        results = whole.finish()
    sizes = [mask.numel() for mask, _ in frozen.values()]
    assert sum(len(kept) for _, kept in frozen.values()) == round(0.2 * sum(sizes))
    assert results.density == round(0.2 * sum(sizes)) / sum(sizes)

    with start(SETTINGS, tmp_path / "half", backbone=made(kind)) as half:
        epochs = (event for event in half.events() if isinstance(event, EpochDone))
        next(epochs)
        next(epochs)
    resumed = esacl.resume(tmp_path / "half", backbone=made(kind, seed=7))
    assert resumed.matrix == results.matrix
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "half")]
    assert files[0] == files[1]

    opened = open_model(tmp_path / "whole", backbone=made(kind, seed=9))
    task = whole.stream.tasks[-1]
    with torch.no_grad():
        _, logits = opened.answering()(task.test.x / 255)
    right = (logits.argmax(1) == task.test.y).double().mean().item()
    assert right == pytest.approx(results.matrix["class_il"][-1][-1])


def test_a_run_records_its_network_by_name_and_wants_it_again(tmp_path):
    with start(SETTINGS, tmp_path, backbone=made(Plain)) as opened:
        (note,) = opened.notes
        assert note == "classify (32 → 10) is the head of <Plain>: one of this library, of 10 columns, replaces it."
        next(event for event in opened.events() if isinstance(event, EpochDone))
    assert 'backbone = "<Plain>"' in (tmp_path / "config.toml").read_text()
    with pytest.raises(ConfigError, match=r"a module in the memory of Python, '<Plain>', .* give it again"):
        esacl.resume(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"'<Separable>' is not the one .* its 'hidden\.bias' is missing, there it is 32"
    ):
        esacl.resume(tmp_path, backbone=made(Separable))


def test_two_networks_or_a_width_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="two networks are given"):
        esacl.run(replace(SETTINGS, net=replace(SETTINGS.net, backbone="mlp")), tmp_path / "x", backbone=made(Plain))
    with pytest.raises(ConfigError, match="as wide as its code says"):
        esacl.run(replace(SETTINGS, net=replace(SETTINGS.net, width=3)), tmp_path / "x", backbone=made(Plain))
    with pytest.raises(ConfigError, match=r"esacl\.run\(settings, out, backbone=module\)"):
        esacl.Config.of(backbone=made(Plain))
    assert not (tmp_path / "x").exists()


def test_a_network_wins_over_that_of_a_preset_but_not_over_another_that_was_given(tmp_path):
    asked = {"preset": "paper", "method": "er", "stream": "split-cifar10", "data_dir": tmp_path}
    assert esacl.Config.of(**asked).net.backbone == "resnet18"
    with pytest.raises(ConfigError, match=r"two networks are given: net.backbone = 'cnn' .* backbone = '<Plain>'"):
        esacl.run(esacl.Config.of(backbone="cnn", **asked), tmp_path / "run", backbone=made(Plain))
    with pytest.raises(DataError, match=r"split-cifar10|CIFAR-10"):  # only the images are missing
        esacl.run(esacl.Config.of(**asked), tmp_path / "run", backbone=made(Plain))


def test_several_processes_are_refused_before_anything_is_written(tmp_path):
    several = replace(SETTINGS, machine=replace(SETTINGS.machine, processes=2))
    with pytest.raises(ConfigError, match="in the memory of this process, but 2 processes were asked for"):
        esacl.run(several, tmp_path / "run", backbone=made(Plain))
    assert not (tmp_path / "run").exists()


def test_the_command_line_trains_code_and_wants_it_again_for_whatever_opens_it(code, fails, capsys):
    quick = ["--method", "esacl-der++", "--epochs", 1, "--tasks", 2, "--limit-per-class", 10, "--buffer", 10]
    command("run", *quick, "--backbone", "grey:tiny", "--out", "run")
    assert 'backbone = "grey:tiny"' in (code / "run" / "config.toml").read_text()
    (code / "run" / "results.json").rename(code / "kept.json")
    assert "no file is allowed to start code" in fails("resume", "run")
    command("resume", "run", "--backbone", "grey.py:tiny")
    (code / "grey.py").write_text("raise SystemExit('this code was started')")
    for words in (
        ["inspect", "run"],
        ["predict", "run", "x.png"],
        ["export", "run", "--format", "torch", "--out", "m"],
    ):
        told = fails(*words)
        assert "'grey:tiny', and no file is allowed to start code" in told
        assert "--backbone grey:tiny" in told
    assert "this code was started" in fails("inspect", "run", "--backbone", "grey.py:tiny")
    assert "is not the one that the model 'run' was trained with" in fails("inspect", "run", "--backbone", "wide:tiny")


def test_a_config_file_alone_starts_no_code(code, fails):
    (code / "grey.py").write_text("raise SystemExit('this code was started')")
    (code / "sent.toml").write_text('net.backbone = "grey:tiny"\n')
    assert "add --backbone grey:tiny" in fails("run", "--config", "sent.toml", "--out", "x")
    (code / "grid.toml").write_text('methods = ["er"]\nbase = { backbone = "grey:tiny" }\n')
    assert "which no file is allowed to start" in fails("grid", "grid.toml", "--out", "x")


def test_settings_from_a_file_start_no_code_in_python_either(code, tmp_path):
    (code / "c.toml").write_text('method = "finetune"\n[net]\nbackbone = "grey:tiny"\n')
    tables = read_toml(code / "c.toml")
    for settings in (esacl.Config.from_mapping(tables), esacl.Config.from_mapping(dict(tables))):
        with pytest.raises(ConfigError, match=r"no file is allowed to start code.*backbone='grey:tiny'"):
            esacl.run(replace(settings, seed=1), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert "c.toml" in str(esacl.Config.from_mapping(tables).origin)
    assert esacl.Config.of(backbone="grey:tiny").origin is None


@pytest.mark.parametrize(
    "text", ['method = "grey:METHOD"', '[stream]\nname = "grey:open"', '[parts]\nupdate = "grey:Update"']
)
def test_methods_streams_and_parts_of_a_file_start_no_code_in_python(code, tmp_path, text):
    (code / "c.toml").write_text(text)
    settings = esacl.Config.from_mapping(read_toml(code / "c.toml"))
    with pytest.raises(ConfigError, match=r"c\.toml.* names code, 'grey:.*code=\['grey:"):
        esacl.run(settings, tmp_path / "run")
    with pytest.raises(ConfigError, match="has no"):  # named again, so it is imported and looked for
        esacl.run(settings, tmp_path / "run", code=settings.code())


def test_a_saved_classifier_holds_the_name_only_and_goes_on_to_the_same_bits(tmp_path):
    module = nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU())
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = esacl.ContinualClassifier(backbone=module, epochs=1, expected_tasks=2, random_state=0)
    model.partial_fit(*pictures(range(3)))
    assert same(before, module.state_dict())
    model.save(tmp_path / "model.esacl")
    with pytest.raises(ConfigError, match="'<Sequential>', and no file is allowed to start code"):
        esacl.ContinualClassifier.load(tmp_path / "model.esacl")
    narrow = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU())
    with pytest.raises(CheckpointError, match=r"mask of backbone\.1\.weight is not one of 1536 weights"):
        esacl.ContinualClassifier.load(tmp_path / "model.esacl", backbone=narrow)
    twin = esacl.ContinualClassifier.load(tmp_path / "model.esacl", backbone=module)
    x, y = pictures(range(3, 5))
    assert np.array_equal(twin.partial_fit(x, y).predict_proba(x), model.partial_fit(x, y).predict_proba(x))


def test_learn_predict_inspect_and_export_work_with_code(code, fails, capsys):
    write_pictures(code / "week-1", range(3))
    write_pictures(code / "week-2", range(3, 5))
    own = ["--backbone", "colour:tiny"]
    command("learn", "m.esacl", "week-1", "--method", "esacl-der++", "--image-size", 8, "--epochs", 1, *own)
    assert "no file is allowed to start code" in fails("learn", "m.esacl", "week-2")
    command("learn", "m.esacl", "week-2", *own)
    command("inspect", "m.esacl", *own)
    assert "colour:tiny, 3,1" in capsys.readouterr().out
    command("export", "m.esacl", "--format", "safetensors", "--out", "small", *own)
    command("predict", "small", "week-2/dog", "--json", *own)
    found = json.loads(capsys.readouterr().out.split("\n", 1)[1])
    assert {image["answers"][0]["class"] for image in found["images"]} <= {"ant", "bee", "cat", "dog", "emu"}
    assert "of this library, but 'colour:tiny' was given" in fails("inspect", _dense(code), *own)


def _dense(folder):
    model = esacl.ContinualClassifier(epochs=1, width=8).partial_fit(*pictures(range(2)))
    model.save(folder / "dense.esacl")
    return folder / "dense.esacl"
