"""Narrow dense twins: nearest in weights or FLOPs, on the base of each sparse row, from one switch of a recipe."""

import pytest

from esacl.cli import main
from esacl.config import Config
from esacl.grid.recipe import read_recipe
from esacl.grid.twins import dense_base, twin_width
from esacl.nets import build_model
from esacl.nets.macs import macs_per_example
from esacl.nets.partition import partition

TWINS = """
twins = ["weights", "flops"]
seeds = [0]
[base]
stream = "split-digits"
epochs = 1
[[rows]]
methods = ["er"]
buffer = 20
lr = 0.02
[[rows]]
methods = ["esacl-er", "sparcl-er"]
buffer = 20
sparsities = [0.8]
"""
DIGITS, PICTURES = (1, 8, 8), (3, 32, 32)


def sizes(backbone, width, shape):
    model = build_model(backbone, width, shape, 10, seed=0)
    prunable = sum(model.get_parameter(name).numel() for name in partition(model).prunable)
    return sum(p.numel() for p in model.parameters()), prunable, sum(macs_per_example(model, shape).values())


@pytest.mark.parametrize(
    ("backbone", "width", "stream", "shape"),
    [
        ("mlp", 40, "split-digits", DIGITS),
        ("cnn", 8, "split-cifar10", PICTURES),
        ("resnet10", 8, "split-cifar10", PICTURES),
    ],
)
def test_no_other_width_is_nearer_to_the_weights_or_the_flops(backbone, width, stream, shape):
    config = Config.of(
        method="esacl-er", stream=stream, backbone=backbone, width=width, sparsity=0.8, keep=0.4, rho=0.1
    )
    every, prunable, macs = sizes(backbone, width, shape)
    goals = {"weights": (0, every - 0.8 * prunable), "flops": (2, 0.2 * 0.4 * 2 * macs)}
    for kind, (place, goal) in goals.items():
        best = min(range(1, width + 1), key=lambda other: abs(sizes(backbone, other, shape)[place] - goal))
        assert twin_width(config, kind) == best


@pytest.mark.parametrize(
    ("method", "base"),
    [
        ("esacl-er", "er"),
        ("sparcl-der++", "der++"),
        ("esacl", "finetune"),
        ("packnet", "finetune"),
        ("wsn", "finetune"),
    ],
)
def test_the_base_of_a_twin_is_the_method_below_or_fine_tuning(method, base):
    assert dense_base(method) == base


def test_one_switch_adds_a_twin_for_every_sparse_row_with_the_settings_of_its_base(recipe):
    points = {point.label: point for point in read_recipe(recipe(TWINS)).points}
    added = [label for label in points if "as few" in label]
    assert sum("as few weights" in label for label in added) == 1  # the same for both sparse rows
    assert all(label.startswith("er, as few ") for label in added)
    assert any("FLOPs" in label for label in added)
    for label in added:
        config = points[label].config(seed=0)
        assert config.method == "er"
        assert config.net.width < 256
        assert config.options == {"update": {"lr": 0.02}, "objective": {"buffer": 20}}


def test_an_unknown_twin_is_told(recipe, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["grid", str(recipe(TWINS.replace('"flops"', '"flop"'))), "--dry-run"])
    assert ended.value.code == 2
    assert "Did you mean 'flops'?" in capsys.readouterr().err
