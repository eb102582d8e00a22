from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

from esacl.nets import Network
from esacl.nets.statistics import recalibrate
from esacl.rng import generator
from tests.builders import network, same, weights


def looks(*sizes: int) -> list[Tensor]:
    """Batches of these sizes."""
    draw = generator(0, "looks")
    return [torch.randn(size, 1, 8, 8, generator=draw) for size in sizes]


def norms(net: Network) -> dict[str, nn.BatchNorm2d]:
    """Its BatchNorms by name."""
    return {name: module for name, module in net.model.named_modules() if isinstance(module, nn.BatchNorm2d)}


def watched(net: Network, batches: list[Tensor]) -> dict[str, list[Tensor]]:
    """What goes into each BatchNorm in training mode, batch by batch."""
    seen: dict[str, list[Tensor]] = {name: [] for name in norms(net)}

    def watch(name: str, norm: nn.BatchNorm2d) -> None:
        norm.register_forward_pre_hook(lambda module, given: seen[name].append(given[0].detach().clone()))

    for name, norm in norms(net).items():
        watch(name, norm)
    net.model.train()
    with torch.no_grad():
        for batch in batches:
            net(batch)
    return seen


def test_layers_that_stay_in_evaluation_mode_keep_their_statistics() -> None:
    net = network("cnn", 4)
    net.held = ("backbone.layers.1",)
    recalibrate(net, looks(8))  # so that all statistics differ from neutral ones
    net.held = ("backbone.layers.1", "backbone.layers.5")
    before = {name: value.clone() for name, value in net.model.named_buffers()}
    recalibrate(net, [3 * batch for batch in looks(8, 8)])
    moved = {name for name, value in net.model.named_buffers() if not torch.equal(value, before[name])}
    assert {name.rpartition(".")[0] for name in moved} == {"backbone.layers.9"}


@pytest.mark.parametrize("backbone", ["cnn", "resnet10"])
def test_statistics_are_the_mean_of_those_of_the_batches(backbone: str) -> None:
    net, batches = network(backbone, 4), looks(8, 8, 5)
    for batch in looks(20):
        net(3 * batch)  # statistics of before are forgotten
    recalibrate(net, batches)
    seen = watched(network(backbone, 4), batches)
    assert seen
    for name, norm in norms(net).items():
        assert norm.running_mean is not None
        assert norm.running_var is not None
        means = torch.stack([x.mean((0, 2, 3)) for x in seen[name]]).mean(0)
        variances = torch.stack([x.transpose(0, 1).flatten(1).var(1) for x in seen[name]]).mean(0)
        torch.testing.assert_close(norm.running_mean, means, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(norm.running_var, variances, rtol=1e-4, atol=1e-5)


def test_only_statistics_change() -> None:
    net = network("cnn", 4)
    before = weights(net)
    recalibrate(net, looks(8))
    after = weights(net)
    changed = {name for name, value in before.items() if not torch.equal(value, after[name])}
    assert changed == {f"{name}.{kind}" for name in norms(net) for kind in _statistics()}
    assert net.gradients() == {}


def _statistics() -> tuple[str, ...]:
    return ("running_mean", "running_var", "num_batches_tracked")


@pytest.mark.parametrize("fails", [False, True])
def test_momentum_and_modes_are_as_before_whatever_happens(fails: bool) -> None:
    net = network("cnn", 4)
    net.model.eval()
    first, second, _ = norms(net).values()
    first.momentum, second.momentum = 0.3, None
    second.train()
    modes = [module.training for module in net.model.modules()]

    def batches() -> Iterator[Tensor]:
        yield from looks(4)
        assert all(module.training for module in net.model.modules())
        if fails:
            raise OSError("the data are gone")

    if fails:
        with pytest.raises(OSError, match="the data are gone"):
            recalibrate(net, batches())
    else:
        recalibrate(net, batches())
    assert [norm.momentum for norm in norms(net).values()] == [0.3, None, 0.1]
    assert [module.training for module in net.model.modules()] == modes


def test_a_network_without_batchnorm_is_not_even_called() -> None:
    net = network("mlp")
    before = weights(net)
    untouched = iter(looks(4))
    recalibrate(net, untouched)
    assert len(list(untouched)) == 1
    assert same(weights(net), before)
    assert net.meter.executed_macs == {}


def test_it_is_charged_to_training_as_forward_passes_that_hold_no_activations() -> None:
    net = network("cnn", 4)
    recalibrate(net, looks(8, 5))
    assert net.meter.executed_macs == {"train": 13 * net.meter.dense}
    net.meter.release()
    assert net.meter.largest_step == 0


def test_the_weights_that_are_seen_are_those_of_the_view() -> None:
    net = network("cnn", 4)
    net.view = lambda stored, task: {name: value * 0 for name, value in stored.items()}
    recalibrate(net, looks(8))
    for norm in norms(net).values():
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert not bool(norm.running_mean.any())
        assert not bool(norm.running_var.any())
        assert int(norm.num_batches_tracked or 0) == 1
