"""Growth of networks of one's own: earlier features keep their bits, runs resume, and what is stored is the network."""

from dataclasses import replace

import pytest
import torch

import esacl
from esacl.deploy import open_model
from esacl.errors import ConfigError
from esacl.nets.branches import TRUNK
from esacl.runner import start
from esacl.training.events import EpochDone, TaskDone
from tests.builders import same
from tests.nets.own_nets import made
from tests.nets.traced_nets import Hidden, Residual, Vgg

SETTINGS = esacl.Config.of(method="grow", epochs=1, limit_per_class=24, threads=1)
KINDS = {"vgg": lambda: Vgg(20), "residual": lambda: Residual(12), "hidden": lambda: Hidden(24)}


@pytest.mark.parametrize("kind", KINDS)
def test_features_of_earlier_tasks_keep_their_bits_and_a_run_resumes_to_the_same(kind, tmp_path):
    module = made(KINDS[kind])
    kept: list[tuple[dict[str, torch.Tensor], torch.Tensor]] = []
    with start(SETTINGS, tmp_path / "whole", backbone=module) as whole:
        net, grown = whole.trainer.net, whole.trainer.parts.sparsity
        branches = grown.branches
        given = dict(module.named_parameters())
        for name, value in branches.values(TRUNK).items():
            if name in net.stored:
                assert torch.equal(value, given[name.removeprefix("backbone.")]), "training starts with them"
        x = whole.stream.inputs.plain(whole.stream.tasks[0].test.x)

        def features(task: int) -> torch.Tensor:
            with net.inference():
                places = branches.head.places
                first, after = (bound * places for bound in branches.spans[task][branches.head.reads])
                return net(x).features[:, first:after].clone()

        for event in whole.events():
            if isinstance(event, TaskDone):
                for task, (values, before) in enumerate(kept):
                    assert torch.equal(features(task), before)
                    assert same({**branches.values(task), **branches.values(TRUNK)}, values)
                values = {**branches.values(event.task), **branches.values(TRUNK)}
                kept.append(({name: value.clone() for name, value in values.items()}, features(event.task)))
        results = whole.finish()
        with net.inference():
            parts = net(x).logits
            net.route = None
            torch.testing.assert_close(net(x).logits, parts)
    assert len(kept) == 5
    assert all(before.any() for _, before in kept)

    with start(SETTINGS, tmp_path / "half", backbone=module) as half:
        epochs = (event for event in half.events() if isinstance(event, EpochDone))
        next(epochs)
        next(epochs)
    resumed = esacl.resume(tmp_path / "half", backbone=made(KINDS[kind], seed=7))
    assert resumed.matrix == results.matrix
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "half")]
    assert files[0] == files[1]


def test_a_classifier_that_grew_wider_than_its_module_is_saved_and_opened(tmp_path):
    x = torch.randint(0, 255, (48, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8).numpy()
    y = torch.arange(8).repeat_interleave(6).numpy()
    model = esacl.ContinualClassifier(method="grow", backbone=made(lambda: Vgg(8)), expected_tasks=2, epochs=1)
    for first in range(0, 8, 2):
        rows = (y >= first) & (y < first + 2)
        model.partial_fit(x[rows], y[rows])
    model.save(tmp_path / "m")
    again = esacl.ContinualClassifier.load(tmp_path / "m", backbone=made(lambda: Vgg(8), seed=3))
    assert (again.predict(x) == model.predict(x)).all()
    opened = open_model(tmp_path / "m", made(lambda: Vgg(8), seed=3))
    assert opened.weights["backbone.hidden.weight"].shape > made(lambda: Vgg(8)).hidden.weight.shape
    with torch.no_grad():
        shares, _ = opened.answering()(torch.from_numpy(x[:, None]) / 255)
        narrow, _ = opened.compacted()(torch.from_numpy(x[:, None]) / 255)
    torch.testing.assert_close(shares.double(), torch.from_numpy(model.predict_proba(x)).double(), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(shares, narrow)


@pytest.mark.parametrize("method", ["grow", "nispa"])
def test_layers_that_are_frozen_from_the_start_are_refused(method, tmp_path):
    settings = replace(SETTINGS, method=method)
    settings = replace(settings, net=replace(settings.net, freeze="one"))
    with pytest.raises(ConfigError, match="'one' is frozen from the start"):
        esacl.run(settings, tmp_path, backbone=made(Hidden))
