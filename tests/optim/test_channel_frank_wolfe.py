"""Frank-Wolfe over whole channels: its naive twin, its polytope, and what it refuses."""

from typing import Any

import pytest
import torch

from esacl.config import NetConfig, TrainConfig
from esacl.errors import ConfigError
from esacl.optim.channel_frank_wolfe import ChannelFrankWolfe
from esacl.optim.polytope import GroupSparsePolytope
from tests.builders import finish, network, parts, stream, trainer
from tests.reference.channel_frank_wolfe import NaiveChannelFrankWolfe, vertex

SHAPES = ((5, 3, 2, 2), (5,), (5, 4))
DRAW = torch.Generator().manual_seed(0)


def rows(params: list[torch.Tensor]) -> list[list[float]]:
    return [torch.cat([param[row].flatten() for param in params]).tolist() for row in range(5)]


@pytest.mark.parametrize("k", [0.01, 0.4, 1.0])
@pytest.mark.parametrize("mode", ["average", "accumulate"])
@pytest.mark.parametrize("scale", ["norm", "absolute"])
def test_the_optimiser_is_its_naive_twin(k, mode, scale):
    params = [torch.nn.Parameter(torch.randn(shape, dtype=torch.float64, generator=DRAW)) for shape in SHAPES]
    options: dict[str, Any] = {"k": k, "radius": 0.8, "radius_scale": scale, "momentum": 0.7, "momentum_mode": mode}
    optimizer, twin = ChannelFrankWolfe(params, 0.1, **options), NaiveChannelFrankWolfe(rows(params), **options)
    for step in range(5):
        for param in params:
            param.grad = torch.randn(param.shape, dtype=torch.float64, generator=DRAW)
            param.grad[step] = 0.0  # a channel without a gradient
        optimizer.step()
        twin.step(rows([param.grad for param in params]), 0.1)
        torch.testing.assert_close(torch.tensor(rows(params)), torch.tensor(twin.rows))


@pytest.mark.parametrize("k", [1, 3])
def test_the_vertex_descends_most(k):
    direction = torch.randn(4, 6, dtype=torch.float64, generator=DRAW)
    found = GroupSparsePolytope(k, 1.5).lmo(direction)
    torch.testing.assert_close(found, torch.tensor(vertex(direction.tolist(), k, 1.5), dtype=torch.float64))
    for _ in range(50):
        other = torch.randn(4, 6, dtype=torch.float64, generator=DRAW)
        lengths = other.norm(dim=1)
        other /= torch.maximum(lengths.max(), lengths.sum() / k) / 1.5  # on the boundary
        assert (direction * found).sum() <= (direction * other).sum() + 1e-9


def test_no_direction_moves_nothing_but_inwards():
    assert not GroupSparsePolytope(2, 1.0).lmo(torch.zeros(3, 2)).any()


@pytest.mark.parametrize("options", [{"scope": "layer"}, {"pull": True}, {"rescale": "gradient"}])
def test_what_is_about_single_weights_is_refused(options):
    with pytest.raises(ConfigError, match=r"is of no use to a polytope of whole channels"):
        ChannelFrankWolfe([torch.nn.Parameter(torch.ones(2, 2))], **options)


def test_every_parameter_is_moved_by_one_group():
    net = network("resnet10", 4, (1, 10, 10))
    made = parts("esacl-er", {"sparsity": {"polytope": True}, "update": {"scope": "channel"}})
    optimizer = made.update.build(net, {}, 10)
    held = [param for group in optimizer.param_groups for param in group["params"]]
    assert len(held) == len({id(param) for param in held}) == len(net.stored)
    assert {id(param) for param in optimizer.param_groups[-1]["params"]} == {
        id(net.stored[name]) for name in net.partition.head
    }


@pytest.mark.parametrize(
    ("update", "setting"), [({"pull": True}, "pull"), ({"rescale": "diameter"}, "rescale"), ({"holds": "all"}, "holds")]
)
def test_settings_of_single_weights_are_refused_before_training(update, setting):
    with pytest.raises(ConfigError, match=rf"update.{setting}.*about single weights.*update.scope = 'layer'"):
        parts("esacl", {"update": {"scope": "channel", **update}})


def test_frozen_weights_are_refused():
    options = {"sparsity": {"form": "freeze"}, "update": {"scope": "channel"}, "objective": {"buffer": 20}}
    with pytest.raises(ConfigError, match="moves whole channels, but some weights are frozen"):
        finish(trainer("esacl-er", options, of=stream(tasks=2)))


def test_it_trains_a_network_whose_channels_are_removed():
    options = {"sparsity": {"unit": "channel", "polytope": True}, "update": {"scope": "channel", "k": 0.3}}
    options["objective"] = {"buffer": 20}
    train, net = TrainConfig(epochs=8, batch_size=8), NetConfig("cnn", 8)
    done = finish(trainer("esacl-er", options, of=stream(tasks=2), net=net, train=train))
    assert done._update_density() <= 0.2
    assert sum(done.rows[-1].task_il) / 2 > 0.6
