"""Settings that nobody gave follow what a network is, never its name."""

import pytest
from torch import nn

from esacl.config import Config, NetConfig
from esacl.methods import resolve
from esacl.nets import own_net
from tests.builders import stream

STREAM = stream()


class Plain(nn.Sequential):
    """A user's network without BatchNorm."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 8), nn.ReLU())


class Normed(nn.Sequential):
    """A user's network with BatchNorm."""

    def __init__(self) -> None:
        super().__init__(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


@pytest.mark.parametrize("module", [Plain(), Normed()], ids=["plain", "batchnorm"])
def test_a_network_of_ones_own_gets_the_settings_of_what_it_is(module: nn.Module) -> None:
    own = own_net(module, (1, 8, 8), seed=0)
    named = NetConfig(f"<{type(module).__name__}>")
    resolved = resolve(Config("esacl", net=named), STREAM, own)
    like = NetConfig("cnn" if isinstance(module, Normed) else "mlp")
    of_given_weights = {"expand": "initial", "polytope": False}
    twin = resolve(Config("esacl", net=like, options={"sparsity": of_given_weights}), STREAM)
    assert resolved.options == twin.options
    polytope = resolve(Config("esacl", net=named, options={"sparsity": {"polytope": True}}), STREAM, own)
    assert polytope.options["update"]["radius"] == (2.0 if isinstance(module, Normed) else 0.35)
