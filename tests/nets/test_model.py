from math import sqrt

import pytest
import torch
from torch import nn

from esacl.errors import ConfigError
from esacl.nets import BACKBONES, build_model
from esacl.nets.model import initialise
from tests.builders import same

SHAPE = (1, 8, 8)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_fresh_weights_depend_on_the_seed_and_never_on_the_global_generator(backbone: str) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = build_model(backbone, 4, SHAPE, 6, seed=0).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert same(first, build_model(backbone, 4, SHAPE, 6, seed=0).state_dict())
    other = build_model(backbone, 4, SHAPE, 6, seed=1).state_dict()
    for name, value in first.items():
        if value.ndim > 1:
            assert not torch.equal(value, other[name]), name


def test_the_weights_of_a_layer_depend_on_its_own_name_and_not_on_the_other_layers() -> None:
    small = build_model("resnet10", 4, SHAPE, 6, seed=0).state_dict()
    more_classes = build_model("resnet10", 4, SHAPE, 9, seed=0).state_dict()
    different = {name for name in small if not torch.equal(small[name], more_classes[name])}
    assert different == {"head.weight", "head.bias"} or different == {"head.weight"}
    assert not torch.equal(small["backbone.blocks.0.conv1.weight"], small["backbone.blocks.0.conv2.weight"])


@pytest.mark.parametrize("backbone", ["mlp", "cnn", "resnet10"])
def test_fresh_weights_are_kaiming_normal_biases_zero_and_batchnorm_neutral(backbone: str) -> None:
    model = build_model(backbone, 32, SHAPE, 200, seed=0)
    for name, module in model.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            inputs = module.weight[0].numel()
            expected = sqrt((1 if name == "head" else 2) / inputs)
            spread = 5 / sqrt(2 * module.weight.numel())  # five standard errors
            assert module.weight.std().item() == pytest.approx(expected, rel=spread), name
            assert abs(module.weight.mean().item()) < 5 * expected / sqrt(module.weight.numel())
            assert module.bias is None or module.bias.count_nonzero() == 0
        if isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()
            assert (module.running_mean == 0).all()
            assert (module.running_var == 1).all()
            assert module.num_batches_tracked == 0


def test_no_parameter_is_left_uninitialised() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

    with pytest.raises(ConfigError, match="no initialisation is known for the layer '0' of type Odd"):
        initialise(nn.Sequential(Odd()), 0)
