import pytest
import torch

from esacl.errors import ConfigError
from esacl.nets import BACKBONES, build_model, resolve_backbone
from tests.builders import network

SHAPES = [(1, 8, 8), (3, 32, 32), (3, 64, 64)]
FEATURES = {
    "mlp": 1,
    "cnn": 4,
    "resnet10": 8,
    "resnet18": 8,
    "efficientnet-lite0": 40,
    "mobilenet-v2": 40,
}  # times the width


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_every_backbone_gives_features_and_one_logit_per_class(
    backbone: str, width: int, shape: tuple[int, int, int]
) -> None:
    net = network(backbone, width, shape, classes=7)
    outputs = net(torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)))
    assert outputs.features.shape == (2, FEATURES[backbone] * width)
    assert outputs.logits.shape == (2, 7)
    assert outputs.logits.dtype == torch.float32
    assert torch.isfinite(outputs.logits).all()


@pytest.mark.parametrize("shape", [(1, 9, 13), (2, 11, 8)], ids=str)
@pytest.mark.parametrize("backbone", BACKBONES)
def test_images_need_not_be_square_or_even(backbone: str, shape: tuple[int, int, int]) -> None:
    assert network(backbone, 4, shape, classes=3)(torch.zeros(2, *shape)).logits.shape == (2, 3)


@pytest.mark.parametrize("backbone", BACKBONES)
def test_logits_are_the_head_applied_to_the_features(backbone: str) -> None:
    net = network(backbone, 4)
    outputs = net(torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(net.model.get_submodule("head")(outputs.features), outputs.logits)


@pytest.mark.parametrize(("backbone", "layers"), [("resnet10", 10), ("resnet18", 18)])
def test_a_residual_network_has_as_many_layers_as_its_name_says(backbone: str, layers: int) -> None:
    names = [n for n, p in build_model(backbone, 4, (3, 32, 32), 5, 0).named_parameters() if p.ndim > 1]
    assert len([name for name in names if "shortcut" not in name]) == layers


def test_the_papers_resnet18_has_eleven_million_weights() -> None:
    model = build_model("resnet18", 64, (3, 32, 32), 10, 0)
    assert sum(p.numel() for p in model.parameters()) == 11_173_962


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_smallest_image_a_backbone_admits_works_and_a_smaller_one_is_refused(backbone: str) -> None:
    size = BACKBONES[backbone].smallest
    assert resolve_backbone(backbone, None, (1, size, size)) == (backbone, BACKBONES[backbone].width)
    assert network(backbone, 4, (1, size, size))(torch.zeros(2, 1, size, size)).logits.shape == (2, 6)
    if size > 1:
        with pytest.raises(ConfigError, match=rf"'{backbone}' needs images of at least {size}×{size} pixels"):
            resolve_backbone(backbone, None, (1, size, size - 1))


def test_an_unknown_backbone_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown backbone 'resnet'\. Did you mean 'resnet1"):
        resolve_backbone("resnet", None, (3, 32, 32))


def test_a_width_that_is_given_is_kept() -> None:
    assert resolve_backbone("cnn", 5, (3, 32, 32)) == ("cnn", 5)
    assert resolve_backbone("auto", 5, (3, 32, 32)) == ("resnet10", 5)
