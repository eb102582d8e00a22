import pytest
import torch
from torch import nn

from esacl.errors import ConfigError
from esacl.nets import Network, build_model
from esacl.nets.features import features_move
from esacl.nets.freezing import freeze
from tests.builders import CPU

SHAPE = (1, 8, 8)


def frozen(how: str, backbone: str = "cnn") -> Network:
    model = build_model(backbone, 4, SHAPE, 6, 0)
    freeze(model, how, SHAPE)
    return Network(model, SHAPE, CPU)


def layers(net: Network) -> set[str]:
    """Layers of the backbone that may move."""
    return {name.rpartition(".")[0].removeprefix("backbone.") for name in net.stored if name.startswith("backbone.")}


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ("none", {"layers.0", "layers.1", "layers.4", "layers.5", "layers.8", "layers.9"}),
        ("all", set()),
        ("layers.0,layers.1", {"layers.4", "layers.5", "layers.8", "layers.9"}),
        ("backbone.layers.0, layers.9", {"layers.1", "layers.4", "layers.5", "layers.8"}),
        ("until:layers.5", {"layers.8", "layers.9"}),
    ],
)
def test_layers_are_frozen_by_name_or_by_the_order_in_which_they_are_called(how: str, left: set[str]) -> None:
    assert layers(frozen(how)) == left


def test_until_freezes_what_is_called_before_whatever_it_is_called() -> None:
    net = frozen("until:blocks.1", "resnet10")
    assert {name.split(".")[1] for name in layers(net)} == {"2", "3"}


def test_frozen_batchnorm_stays_in_evaluation_mode_and_its_statistics_never_move() -> None:
    net = frozen("until:layers.5")
    before = {name: value.clone() for name, value in net.model.named_buffers()}
    net.train_mode()
    net(torch.randn(4, *SHAPE))
    moved = {
        name.rpartition(".")[0] for name, value in net.model.named_buffers() if not torch.equal(value, before[name])
    }
    assert moved == {"backbone.layers.9"}


def test_frozen_parameters_are_neither_prunable_nor_trained_and_backward_stops_above_them() -> None:
    net = frozen("until:layers.5")
    assert net.partition.prunable == ("backbone.layers.8.weight",)
    assert "backbone.layers.0.weight" not in {*net.partition.other, *net.trained}
    maps: list[torch.Tensor] = []
    net.model.get_submodule("backbone.layers.4").register_forward_hook(lambda layer, given, out: maps.append(out))
    net.train_mode()
    net.backward(net(torch.randn(4, *SHAPE)).logits.square().sum())
    assert not maps[0].requires_grad
    assert net.model.get_parameter("backbone.layers.0.weight").grad is None
    assert net.model.get_parameter("backbone.layers.8.weight").grad is not None


def test_a_frozen_layer_costs_a_forward_pass_and_one_behind_trained_layers_its_inputs_gradient_too() -> None:
    macs = frozen("none").meter.layers
    first, second, third, head = (macs[f"{name}"] for name in (*(f"backbone.layers.{n}" for n in (0, 4, 8)), "head"))
    for how, cost in (
        ("all", first + second + third + 3 * head),
        ("until:layers.5", first + second + 3 * third + 3 * head),
        ("layers.4", 3 * first + 2 * second + 3 * third + 3 * head),
        ("none", 3 * (first + second + third + head)),
    ):
        net = frozen(how)
        net(torch.randn(8, *SHAPE))
        assert net.meter.executed_macs == {"train": 8 * cost}
        assert net.meter.sparse_macs == {"train": 8 * cost}
        with torch.no_grad():
            net(torch.randn(8, *SHAPE))
        assert net.meter.executed_macs == {"train": 8 * cost + 8 * (first + second + third + head)}


def test_features_of_a_frozen_backbone_do_not_move() -> None:
    assert not features_move(frozen("all"))
    assert features_move(frozen("until:layers.5"))
    assert features_move(frozen("until:layers.8"))  # BatchNorm behind it


def test_a_layer_that_is_not_there_is_refused_with_those_that_are() -> None:
    for how in ("lyers", "until:lyers", ""):
        with pytest.raises(
            ConfigError, match=r"the backbone has no such layer\. Allowed: all, none, until:LAYER, or"
        ) as told:
            frozen(how)
        assert "\n" not in str(told.value)
    with pytest.raises(ConfigError, match=r"such as layers.0, layers.1"):
        frozen("layers.")


def test_a_module_that_is_frozen_as_it_is_given_stays_in_evaluation_mode() -> None:
    model = build_model("cnn", 4, SHAPE, 6, 0)
    model.backbone.get_submodule("layers.1").requires_grad_(False)
    freeze(model, "none", SHAPE)
    net = Network(model, SHAPE, CPU)
    net.train_mode()
    training = {
        name for name, module in net.model.named_modules() if isinstance(module, nn.BatchNorm2d) and module.training
    }
    assert training == {"backbone.layers.5", "backbone.layers.9"}


@pytest.mark.parametrize("how", ["all", "until:layers.5", "until:layers.3"])
def test_what_frozen_layers_answer_is_computed_once_for_images_that_come_again(how: str) -> None:
    model, net = build_model("cnn", 4, SHAPE, 6, 0), frozen(how)
    x = torch.randn(16, *SHAPE)
    with torch.no_grad():
        expected = model.eval()(x)
    net.cache.size = 1 << 20
    costs = []
    for _ in range(2):
        with net.inference():
            before = net.meter.executed_macs.get("train", 0)
            outputs = net(x)
            costs.append(net.meter.executed_macs["train"] - before)
        assert torch.allclose(outputs.logits, expected.logits, atol=1e-6)
    first, second, third, head = (
        net.meter.layers[name] for name in (*(f"backbone.layers.{n}" for n in (0, 4, 8)), "head")
    )
    once = {"all": first + second + third, "until:layers.5": first + second, "until:layers.3": first}[how]
    assert costs == [16 * (first + second + third + head), 16 * (first + second + third + head - once)]


def test_answers_are_the_same_bits_whether_or_not_they_are_kept() -> None:
    kept, fresh = frozen("until:layers.5"), frozen("until:layers.5")
    kept.cache.size = 1 << 20
    x = torch.randn(11, *SHAPE)
    for net in (kept, kept, fresh):
        net.model.eval()
    assert torch.equal(kept(x).logits, fresh(x).logits)
    assert torch.equal(kept(x[[3, 5, 3]]).logits, fresh(x[[3, 5, 3]]).logits)


def test_weights_that_are_loaded_answer_anew() -> None:
    net, other = frozen("all"), build_model("cnn", 4, SHAPE, 6, 1)
    net.cache.size = 1 << 20
    x = torch.randn(8, *SHAPE)
    with net.inference():
        before = net(x).features
        state = net.state_dict()
        net.load_state_dict({**state, "model": other.state_dict()})
        after = net(x).features
    assert not torch.allclose(before, after)
