import pytest
from torch import nn

from esacl.nets import BACKBONES, build_model
from esacl.nets.partition import partition


@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_parameter_has_exactly_one_role(backbone: str) -> None:
    model = build_model(backbone, 4, (1, 8, 8), 6, 0)
    roles = partition(model)
    assert sorted([*roles.prunable, *roles.head, *roles.other]) == sorted(name for name, _ in model.named_parameters())


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_head_is_never_prunable_and_every_other_convolution_and_linear_weight_is(backbone: str) -> None:
    model = build_model(backbone, 4, (1, 8, 8), 6, 0)
    roles = partition(model)
    assert roles.head == ("head.weight", "head.bias")
    assert set(roles.prunable) == {
        f"{name}.weight"
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d | nn.Linear) and name != "head"
    }
    for name in roles.other:
        assert model.get_parameter(name).ndim == 1


def test_a_module_whose_name_begins_like_the_head_is_not_the_head() -> None:
    model = nn.ModuleDict({"header": nn.Linear(2, 2), "head": nn.Linear(2, 2)})
    roles = partition(model)
    assert roles.prunable == ("header.weight",)
    assert roles.head == ("head.weight", "head.bias")
