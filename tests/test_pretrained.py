"""Runs that begin with weights of a file: what they keep, what they record, and how they go on."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import esacl
from esacl.cli import app
from esacl.deploy import open_model
from esacl.errors import ConfigError
from esacl.nets import build_model
from esacl.runner import start
from esacl.training.events import EpochDone
from tests.nets.own_nets import Plain

SHORT = {"epochs": 2, "buffer": 20, "batch_size": 8}


@pytest.fixture
def stream():
    numbers = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 20)
    x = (y[:, None, None, None] * 50 + numbers.integers(0, 40, (80, 3, 8, 8))).astype(np.uint8)
    return esacl.from_arrays(x, y, classes_per_task=2, name="bars")


@pytest.fixture
def weights(tmp_path):
    model = build_model("cnn", 4, (3, 8, 8), 7, seed=5)
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    return tmp_path / "weights.pth"


def settings(weights: Path, method: str = "er", **more: object) -> esacl.Config:
    return esacl.Config.of(method=method, backbone="cnn", width=4, weights=weights, **{**SHORT, **more})


def test_frozen_layers_keep_the_weights_of_the_file_to_the_bit(stream, weights, tmp_path):
    esacl.run(settings(weights, freeze="until:layers.5"), tmp_path / "run", stream)
    before, after = torch.load(weights, weights_only=True), load_file(tmp_path / "run" / "model.safetensors")
    moved = {name for name, value in before.items() if name in after and not torch.equal(value, after[name])}
    assert {name.rpartition(".")[0] for name in moved} == {"backbone.layers.8", "backbone.layers.9", "head"}


def test_a_run_records_its_weights_and_what_was_taken_from_them(stream, weights, tmp_path):
    with start(settings(weights), tmp_path / "run", stream=stream) as run:
        assert "skipped its head (head.bias of 7 and head.weight of 7×16)" in run.notes[0]
        assert run.config.net.weights == str(weights.resolve())
        assert len(run.config.net.weights_digest) == 64
    torch.save(build_model("cnn", 4, (3, 8, 8), 7, seed=6).state_dict(), weights)
    again = esacl.Config.from_mapping(run.config.to_mapping())
    with pytest.raises(ConfigError, match="holds other weights than those"):
        esacl.run(again, tmp_path / "again", stream)


def test_a_run_resumes_without_the_file_to_the_same_bits(stream, weights, tmp_path):
    chosen = settings(weights, method="esacl-er", freeze="layers.0", backbone_lr=0.01, lr=0.1)
    whole = esacl.run(chosen, tmp_path / "whole", stream)
    with start(chosen, tmp_path / "half", stream=stream) as half:
        next(event for event in half.events() if isinstance(event, EpochDone))
    weights.unlink()
    assert esacl.resume(tmp_path / "half", stream).matrix == whole.matrix
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "half")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_run_that_never_saved_needs_the_file_again(stream, weights, tmp_path):
    with start(settings(weights), tmp_path / "run", stream=stream):
        pass
    weights.unlink()
    with pytest.raises(ConfigError, match="is no file"):
        esacl.resume(tmp_path / "run", stream)


def test_the_backbone_has_a_rate_of_its_own(stream, weights, tmp_path):
    esacl.run(settings(weights, backbone_lr=0.0), tmp_path / "run", stream)
    before, after = torch.load(weights, weights_only=True), load_file(tmp_path / "run" / "model.safetensors")
    same = {name for name in before if name in after and torch.equal(before[name], after[name])}
    assert same >= {name for name in before if name.endswith((".weight", ".bias")) and name.startswith("backbone.")}
    fresh = build_model("cnn", 4, (3, 8, 8), 4, seed=0)
    assert not torch.equal(after["head.weight"], fresh.head.weight)


def test_the_scale_of_images_goes_with_the_weights(stream, weights, tmp_path):
    with start(settings(weights), tmp_path / "data", stream=stream) as run:
        assert run.trainer.stream.inputs.mean == stream.inputs.mean  # as this file tells none
    chosen = settings(weights).to_mapping()
    chosen["net"]["normalise"] = "imagenet"
    esacl.run(esacl.Config.from_mapping(chosen), tmp_path / "run", stream)
    made = tmp_path / "run" / "model.safetensors"
    opened = open_model(tmp_path / "run")
    assert opened.scale.mean == (0.485, 0.456, 0.406)
    with start(settings(made), tmp_path / "next", stream=stream) as run:
        assert run.trainer.stream.inputs.std == (0.229, 0.224, 0.225)


def test_own_networks_begin_with_a_file_and_may_hold_layers_frozen(tmp_path):
    torch.manual_seed(0)
    given, module = Plain(), Plain()
    torch.save(given.state_dict(), tmp_path / "plain.pth")
    module.one.requires_grad_(False)
    chosen = esacl.Config.of(method="esacl-der++", weights=tmp_path / "plain.pth", freeze="two", **SHORT)
    notes = []
    with start(chosen, tmp_path / "run", backbone=module) as run:
        notes += run.notes
        for _ in run.events():
            pass
        run.finish()
    after = load_file(tmp_path / "run" / "model.safetensors")
    for name in ("one.weight", "two.weight"):
        assert torch.equal(after[f"backbone.{name}"], given.state_dict()[name])
    assert "skipped its head (classify.bias of 10 and classify.weight of 10×32)" in " ".join(notes)


def test_the_flags_of_the_command_line(stream, weights, tmp_path, capsys):
    words = ["run", "--stream", "split-digits", "--method", "er", "--epochs", "1", "--limit-per-class", "20"]
    words += ["--backbone", "cnn", "--width", "4", "--out", str(tmp_path / "run"), "--json"]
    model = build_model("cnn", 4, (1, 8, 8), 10, seed=5)
    torch.save({f"module.{name}": value for name, value in model.state_dict().items()}, weights)
    with pytest.raises(SystemExit) as ended:
        app([*words, "--weights", str(weights), "--freeze", "all", "--backbone-lr", "0.1"])
    assert not ended.value.code
    out, err = capsys.readouterr()
    assert json.loads(out)["method"] == "er"
    assert "tensors of" in err
    assert "'module.' was taken off" in err


@pytest.mark.parametrize("method", ["lwf", "esacl-ewc", "sparcl-er", "wsn"])
@pytest.mark.parametrize("freeze", ["until:layers.5", "all"])
def test_methods_go_on_from_frozen_layers_that_are_called_once(method, freeze, stream, weights, tmp_path):
    chosen = settings(weights, method, freeze=freeze).to_mapping()
    if method != "sparcl-er":
        del chosen["objective"]
    if freeze == "all" and method != "lwf":
        with pytest.raises(ConfigError, match="nothing of this network can be pruned"):
            esacl.run(esacl.Config.from_mapping(chosen), tmp_path / "run", stream)
        return
    kept = esacl.Config.from_mapping({**chosen, "machine": {"feature_cache": 64}})
    results = [
        esacl.run(each, tmp_path / str(each is kept), stream) for each in (kept, esacl.Config.from_mapping(chosen))
    ]
    assert results[0].matrix == results[1].matrix
    files = [tmp_path / name / "model.safetensors" for name in ("True", "False")]
    one, other = (load_file(file) for file in files)
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert results[0].flops.executed < results[1].flops.executed


def test_free_weights_return_to_their_pretrained_values(stream, weights, tmp_path):
    chosen = settings(weights, "esacl", sparsity=0.5).to_mapping()
    del chosen["objective"]
    chosen["update"] = {"lr": 0.0}
    chosen["train"] = {**chosen["train"], "epochs": 1}
    with start(esacl.Config.from_mapping(chosen), tmp_path / "run", stream=stream) as run:
        assert run.config.options["sparsity"]["expand"] == "initial"
        assert run.config.options["sparsity"]["polytope"] is False
        for event in run.events():
            if isinstance(event, EpochDone) and event.task == 1:
                break
        before = torch.load(weights, weights_only=True)
        assert all(
            torch.equal(run.trainer.net.stored[name], before[name]) for name in run.trainer.net.partition.prunable
        )
    state = run.trainer.state_dict()["parts"]["sparsity"]["initial"]
    assert all(torch.equal(value, before[name]) for name, value in state.items())


def test_a_classifier_begins_with_weights_and_goes_on_without_the_file(weights, tmp_path):
    numbers = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 10)
    x = (y[:, None, None, None] * 50 + numbers.integers(0, 40, (40, 3, 8, 8))).astype(np.uint8)
    made = esacl.ContinualClassifier("slda", backbone="cnn", width=4, weights=str(weights), random_state=0)
    made.partial_fit(x[:20], y[:20])
    before = torch.load(weights, weights_only=True)
    assert all(
        torch.equal(value, before[name]) for name, value in made._learner.weights().items() if "backbone" in name
    )
    made.save(tmp_path / "model.esacl")
    weights.unlink()
    loaded = esacl.ContinualClassifier.load(tmp_path / "model.esacl").partial_fit(x[20:], y[20:])
    made.partial_fit(x[20:], y[20:])
    assert np.array_equal(loaded.predict_proba(x), made.predict_proba(x))
    assert made.score(x, y) > 0.9


def test_dropout_is_drawn_so_that_a_run_resumes_to_the_same_bits(tmp_path):
    torch.manual_seed(0)
    module = torch.nn.Sequential(Plain(), torch.nn.ReLU(), torch.nn.Dropout(0.5))
    chosen = esacl.Config.of(method="er", limit_per_class=20, **SHORT)
    state = torch.get_rng_state()
    whole = esacl.run(chosen, tmp_path / "whole", backbone=module)
    assert torch.equal(state, torch.get_rng_state())
    with start(chosen, tmp_path / "half", backbone=module) as half:
        next(event for event in half.events() if isinstance(event, EpochDone))
        assert half.trainer.net.calls > 0
    assert esacl.resume(tmp_path / "half", backbone=module).matrix == whole.matrix
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "half")]
    assert files[0].read_bytes() == files[1].read_bytes()
    dry = esacl.run(chosen, tmp_path / "dry", backbone=torch.nn.Sequential(*module[:2]))
    assert dry.weights_sha256 != whole.weights_sha256
