"""The compact form of a grown network answers as the whole one does, with fewer multiply-adds."""

import re

import numpy as np
import pytest
import torch
from torch import nn

import esacl
from esacl.deploy import open_model
from esacl.deploy.graph import write_onnx
from esacl.errors import ConfigError
from esacl.nets import own_net
from esacl.nets.branches import TRUNK
from esacl.nets.compact import Compact
from esacl.nets.macs import macs_per_example
from tests.cli.commands import esacl as command
from tests.nets.own_nets import made
from tests.nets.test_branches import divided
from tests.nets.traced_nets import SHAPE, TRACED, Vgg


def count(model: nn.Module) -> int:
    return sum(macs_per_example(model, SHAPE).values())


CASES = [("mlp", 12, 0), ("cnn", 6, 1), ("resnet10", 4, 2), ("vgg", 0, 1), ("residual", 0, 1), ("excited", 0, 0)]


@pytest.mark.parametrize(("backbone", "width", "stages"), CASES)
def test_parts_answer_as_the_whole_and_take_what_the_branches_take(backbone, width, stages):
    grown = divided(backbone, width, stages)
    grown.prepare([TRUNK])  # of a trunk that moves no more answers are kept
    model = grown.net.model.eval()
    compact = Compact(model).eval()
    x = torch.randn(5, *grown.net.shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(compact(x).logits, model(x).logits)
    taken = sum(macs_per_example(compact, grown.net.shape).values())
    with grown.net.inference():
        grown(x[:1], range(3))
    assert len(compact.limbs) == 3
    assert taken <= grown.net.meter.executed_macs["train"] < grown.net.meter.dense


@pytest.mark.parametrize("backbone", TRACED)
def test_a_network_without_zeros_is_one_part_of_the_same_cost(backbone):
    model = own_net(made(TRACED[backbone]), SHAPE, 0).model(5, 0).eval()
    compact = Compact(model).eval()
    assert len(compact.limbs) == 1
    assert count(compact) == count(model)
    x = torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(compact(x).logits, model(x).logits)


def test_scattered_zeros_and_dead_channels_change_no_answer():
    model = own_net(made(Vgg), SHAPE, 0).model(5, 0).eval()
    with torch.no_grad():
        for number, value in enumerate(model.parameters()):
            if value.ndim > 1:
                value *= torch.rand(value.shape, generator=torch.Generator().manual_seed(number)) < 0.3
        model.head.weight[:, :3] = 0
        compact = Compact(model).eval()
        x = torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(compact(x).logits, model(x).logits)
    assert count(compact) < count(model)


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """A run of `grow` whose readout chooses the task first."""
    folder = tmp_path_factory.mktemp("grown") / "run"
    settings = esacl.Config.of(
        method="grow-er", backbone="cnn", width=16, epochs=1, buffer=40, limit_per_class=40, threads=1,
        readout="two-step",
    )  # fmt: skip
    esacl.run(settings, out=folder)
    return folder


@pytest.mark.parametrize("task", [None, 2])
def test_graphs_agree_in_another_runtime(grown, task, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = open_model(grown).for_task(task)
    dense, compact = write_onnx(tmp_path / "dense", model), write_onnx(tmp_path / "compact", model, compact=True)
    assert compact < 0.6 * dense == 0.6 * model.multiply_adds()
    x = np.random.default_rng(0).random((7, *SHAPE), np.float32)
    found = [
        onnxruntime.InferenceSession(str(tmp_path / name)).run(["probabilities", "logits"], {"images": x})
        for name in ("dense", "compact")
    ]
    for one, other in zip(*found):
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        shares, _ = model.compacted()(torch.from_numpy(x))
    np.testing.assert_allclose(shares.numpy(), found[0][0], atol=1e-5)


def test_the_command_tells_both_costs(grown, tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    command("export", grown, "--format", "onnx", "--compact", "-o", tmp_path / "m.onnx")
    assert re.search(r"multiply-adds of an example: [\d,]+ compact, [\d,]+ dense \(0\.\d\d\)", capsys.readouterr().out)
    with pytest.raises(ConfigError, match="Use --format onnx"):
        command("export", grown, "--format", "torch", "--compact", "-o", tmp_path / "m")


def test_random_features_have_no_compact_form():
    model = own_net(made(Vgg), SHAPE, 0).model(5, 0)
    model.expand(3, 20)
    with pytest.raises(ConfigError, match="no compact form"):
        Compact(model)
