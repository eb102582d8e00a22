"""Tracing refuses what it cannot divide by channels, in one line with the reason and a remedy."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from esacl.errors import ConfigError
from esacl.nets import own_net
from esacl.nets.connections import connections, stages_of
from tests.builders import network, parts
from tests.nets.own_nets import Attention, Plain, made
from tests.nets.traced_nets import SHAPE, TRACED, traced


class Tiny(nn.Module):
    """Two convolutions and what a test does with them."""

    def __init__(self, forward, **layers: nn.Module) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(1, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        for name, layer in layers.items():
            setattr(self, name, layer)
        self._forward = forward

    def forward(self, x: Tensor) -> Tensor:
        return self._forward(self, x).mean((2, 3))


def aliased(net: Tiny, x: Tensor) -> Tensor:
    first = second = net.one(x)
    second += 1
    return net.two(first)


REFUSED = [
    (made(Attention), "its layer 'embed' reads tokens"),
    (made(Plain), r"cannot be traced (RuntimeError: 'len' is not supported"),
    (Tiny(lambda n, x: n.two(n.one(x)) if x.sum() > -1e9 else n.two(n.one(-x))), "cannot be traced (TraceError"),
    (Tiny(lambda n, x: torch.cat([n.one(x), n.two(n.one(x) * 0)], 1)), "its layer 'one' is called twice"),
    (Tiny(lambda n, x: torch.cat([y := n.one(x), n.two(y)], 1)), "its forward calls cat(), which may join"),
    (Tiny(lambda n, x: n.two(F.channel_shuffle(n.one(x), 2))), "channel_shuffle(), which may join, mix or move"),
    (Tiny(lambda n, x: n.two(n.one(x).flip(1))), "its forward calls flip()"),
    (Tiny(lambda n, x: n.two(n.one(x))[:, :4]), "its forward calls getitem()"),
    (Tiny(lambda n, x: n.two(n.one(x)) + x), "the operands of its add have different channels"),
    (Tiny(lambda n, x: n.two(n.one(x)).softmax(1)), "its forward calls softmax()"),
    (Tiny(lambda n, x: n.two(n.one(x).view(-1, 6, 8, 8).view(-1, 12, 8, 4)[:, :6])), "its forward calls view()"),
    (Tiny(lambda n, x: n.norm(n.two(n.one(x))), norm=nn.GroupNorm(2, 6)), "its layer 'norm' (GroupNorm) may mix"),
    (Tiny(lambda n, x: n.two(n.one(n.norm(x))), norm=nn.BatchNorm2d(1)), "its layer 'norm' normalises the image"),
    (Tiny(lambda n, x: n.act(n.two(n.one(x))), act=nn.PReLU()), "its layer 'act' (PReLU) may mix channels"),
    (Tiny(lambda n, x: n.deep(n.two(n.one(x))), deep=nn.Conv2d(6, 6, 1, groups=3)), "a convolution of 3 groups"),
    (Tiny(lambda n, x: n.up(n.two(n.one(x))), up=nn.ConvTranspose2d(6, 6, 2)), "its layer 'up' (ConvTranspose2d)"),
    (Tiny(lambda n, x: n.two(n.one(x)) * n.two.weight.mean()), "it uses 'two.weight' outside of a layer"),
    (Tiny(aliased), "its forward changes what it has computed in place"),
]


@pytest.mark.parametrize(("module", "words"), REFUSED, ids=[words[:40] for _, words in REFUSED])
def test_what_cannot_be_divided_is_refused_with_reason_and_remedy(module, words):
    model = own_net(module, SHAPE, 0).model(10, 0)
    with pytest.raises(ConfigError) as refused:
        connections(model)
    told = str(refused.value)
    assert words in told
    assert "which layer reads which" in told
    assert told.endswith("or take a method that need not know, such as 'esacl-der++'.")
    assert "\n" not in told


@pytest.mark.parametrize("name", TRACED)
def test_stages_one_after_another_answer_the_same_bits_as_the_backbone(name):
    net = traced(name)
    stages = stages_of(net.model)
    assert len(stages.starts) == {"vgg": 3, "residual": 2, "hidden": 2, "excited": 1}[name]
    x = torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(0))
    with net.inference():
        whole, y = net(x).features, x
        for stage in range(len(stages.starts)):
            y = stages.part(stage, stage + 1)(y)
    assert torch.equal(y, whole)


@pytest.mark.parametrize("name", ["efficientnet-lite0", "mobilenet-v2"])
def test_inverted_residuals_are_divided_too(name):
    net = network(name, 8, (3, 32, 32))
    stages = stages_of(net.model)
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    with net.inference():
        assert torch.equal(stages.part(5, len(stages.starts))(stages.part(0, 5)(x)), net(x).features)
    assert all(one.depthwise == ("depthwise" in one.layer) for one in connections(net.model))


def test_a_stage_is_never_cut_out_of_a_block_or_a_group():
    stages = stages_of(traced("residual").model)
    assert {layer.split(".")[1] for layer, stage in stages.of.items() if stage == 0} == {"stem", "layer1"}
    assert len(stages_of(network("cnn", 4, (1, 4, 4)).model).starts) == 3


def test_tracing_leaves_the_network_as_it_was():
    net = traced("vgg")
    net.train_mode()
    before = {name: value.clone() for name, value in net.model.state_dict().items()}
    connections(net.model)
    assert all(torch.equal(value, before[name]) for name, value in net.model.state_dict().items())
    assert all(module.training for module in net.model.modules())


@pytest.mark.parametrize("name", ["vgg", "residual", "excited"])
def test_nispa_refuses_layers_whose_units_it_cannot_join(name):
    with pytest.raises(ConfigError, match=r"nispa needs .* is another layer\. Average maps"):
        parts("nispa").attach(traced(name))


def test_nispa_takes_a_network_of_ones_own_with_plain_layers():
    net = traced("hidden")
    parts("nispa").attach(net)
    assert net.stored["backbone.two.weight"].count_nonzero() < net.stored["backbone.two.weight"].numel()
