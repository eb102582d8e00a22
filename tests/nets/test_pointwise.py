from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from esacl.config import NetConfig
from esacl.nets import Network, build_model
from esacl.nets import network as module
from esacl.nets.layers import Pointwise, fits_channels_last
from esacl.nets.macs import macs_per_example
from esacl.optim.gpm import input_rows
from tests.builders import CPU, stream, trainer
from tests.reference.gpm import columns
from tests.reference.macs import macs
from tests.reference.pointwise import gradients, pointwise, with_strided_shortcuts
from tests.resuming import assert_resumes

LAYOUTS = [torch.contiguous_format, torch.channels_last]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def layer_of(inside: int, outside: int, stride: int, layout: torch.memory_format) -> Pointwise:
    layer = Pointwise(inside, outside, stride)
    with torch.no_grad():
        layer.weight.copy_(draw(outside, inside, 1, 1, seed=1))
    return layer.to(memory_format=layout)  # type: ignore[call-overload, no-any-return]


@settings(deadline=None, max_examples=40)
@given(
    inside=st.integers(4, 32),
    outside=st.integers(1, 9),
    stride=st.integers(1, 3),
    size=st.tuples(st.integers(1, 11), st.integers(1, 11)),
    layout=st.sampled_from(LAYOUTS),
)
def test_it_is_the_loop_over_every_second_pixel_with_its_gradients(
    inside: int, outside: int, stride: int, size: tuple[int, int], layout: torch.memory_format
) -> None:
    layer = layer_of(inside, outside, stride, layout)
    x = draw(2, inside, *size).contiguous(memory_format=layout).requires_grad_()
    out = layer(x)
    above = draw(*out.shape, seed=2)
    out.backward(above)
    assert x.grad is not None
    assert layer.weight.grad is not None
    images, weight = x.detach().double().numpy(), layer.weight.detach().double().flatten(1).numpy()
    of_x, of_weight = gradients(images, weight, stride, above.double().numpy())
    np.testing.assert_allclose(out.detach(), pointwise(images, weight, stride), atol=5e-5)
    np.testing.assert_allclose(x.grad, of_x, atol=5e-5)
    np.testing.assert_allclose(layer.weight.grad.flatten(1), of_weight, atol=2e-4)


@pytest.mark.parametrize("size", [(8, 8), (9, 13), (1, 2)], ids=str)
@pytest.mark.parametrize("inside", [4, 10, 15, 16, 32])
def test_both_layouts_give_what_a_strided_convolution_gives(inside: int, size: tuple[int, int]) -> None:
    for layout in LAYOUTS:
        layer = layer_of(inside, 2 * inside, 2, layout)
        plain = nn.Conv2d(inside, 2 * inside, 1, 2, bias=False)  # in the ordinary layout, where it is sound
        plain.load_state_dict({"weight": layer.weight.detach().contiguous()})
        ours, theirs = (draw(3, inside, *size).requires_grad_() for _ in range(2))
        out, expected = layer(ours.contiguous(memory_format=layout)), plain(theirs)
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
        above = draw(*out.shape, seed=2)
        out.backward(above), expected.backward(above)
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(layer.weight.grad, plain.weight.grad, atol=1e-4, rtol=1e-4)


def test_channels_last_images_keep_their_layout_forwards_and_backwards() -> None:
    layer = layer_of(10, 20, 2, torch.channels_last)
    x = draw(2, 10, 9, 8).contiguous(memory_format=torch.channels_last).requires_grad_()
    out = layer(x)
    out.sum().backward()
    assert x.grad is not None
    for value in (out, x.grad):
        assert value.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 11, 14)], ids=str)
@pytest.mark.parametrize("width", [4, 10])
def test_multiply_adds_of_narrow_blocks_are_those_counted_by_hand(width: int, shape: tuple[int, int, int]) -> None:
    model = build_model("resnet18", width, shape, 5, seed=0)
    assert macs_per_example(model, shape) == macs("resnet18", width, shape, 5)
    assert macs_per_example(model, shape) == macs_per_example(with_strided_shortcuts(model), shape)


@pytest.mark.parametrize("size", [(8, 8), (7, 5)], ids=str)
def test_gpm_projects_on_the_pixels_that_it_reads(size: tuple[int, int]) -> None:
    layer, x = layer_of(6, 4, 2, torch.contiguous_format), draw(3, 6, *size)
    rows = input_rows(layer, x)
    np.testing.assert_allclose(rows.numpy().T, columns(layer, x), atol=1e-12)
    answer = (rows @ layer.weight.detach().double().flatten(1).T).float()
    torch.testing.assert_close(answer, layer(x).detach().permute(0, 2, 3, 1).flatten(0, 2))


def test_a_state_saved_with_strided_shortcuts_loads_and_answers_the_same() -> None:
    model = build_model("resnet10", 10, (3, 16, 16), 5, seed=0)
    before = with_strided_shortcuts(build_model("resnet10", 10, (3, 16, 16), 5, seed=1)).eval()
    state = before.state_dict()
    assert state["backbone.blocks.1.shortcut.0.weight"].shape == (20, 10, 1, 1)
    assert {name: value.shape for name, value in state.items()} == {n: v.shape for n, v in model.state_dict().items()}
    model.load_state_dict(state, strict=True)
    x = draw(4, 3, 16, 16)
    torch.testing.assert_close(model.eval()(x), before(x), atol=1e-5, rtol=1e-5)


def test_a_narrow_network_trains_alike_in_both_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    shape, x, y = (3, 16, 16), draw(16, 3, 16, 16), torch.arange(16) % 4
    last = Network(build_model("resnet18", 10, shape, 4, seed=0), shape, CPU)
    monkeypatch.setattr(module, "fits_channels_last", lambda model: False)
    first = Network(with_strided_shortcuts(build_model("resnet18", 10, shape, 4, seed=0)), shape, CPU)
    assert [last.layout, first.layout] == LAYOUTS[::-1]
    losses: list[list[float]] = []
    for net in (last, first):
        optimizer = torch.optim.SGD(net.model.parameters(), lr=0.01)
        losses.append([])
        for _ in range(8):
            loss = cross_entropy(net(x).logits, y)
            net.backward(loss)
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0][-1] < 0.8 * losses[0][0], "it learns"
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


@pytest.mark.parametrize(("inside", "fits"), [(4, False), (15, False), (16, True)])
def test_torchs_own_strided_1x1_convolution_of_few_channels_stays_away(inside: int, fits: bool) -> None:
    assert fits_channels_last(nn.Sequential(nn.Conv2d(inside, 8, 1, 2))) is fits
    assert fits_channels_last(nn.Sequential(Pointwise(inside, 8, 2)))
    assert fits_channels_last(nn.Sequential(nn.Conv2d(inside, 8, 1)))


class Strided(TorchDispatchMode):
    """Notes 1×1 convolutions that torch is asked for with a stride, forwards and backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.found = 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        places = {torch.ops.aten.convolution.default: (1, 3), torch.ops.aten.convolution_backward.default: (2, 4)}
        if func in places:
            weight, stride = (args[place] for place in places[func])
            self.calls += 1
            self.found += tuple(weight.shape[2:]) == (1, 1) and max(stride) > 1
        return func(*args, **(kwargs or {}))


def test_a_narrow_network_never_asks_for_a_strided_1x1_convolution() -> None:
    model = build_model("resnet10", 10, (3, 16, 16), 4, seed=0)
    found = {}
    for kind, each in (("own", model), ("strided", with_strided_shortcuts(model))):
        with Strided() as noted:
            each(draw(2, 3, 16, 16)).logits.sum().backward()
        assert noted.calls == 2 * 12
        found[kind] = noted.found
    assert found == {"own": 0, "strided": 2 * 3}


def test_a_narrow_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    def made(seed: int = 0) -> Any:
        return trainer("er", of=stream(2, shape=(1, 10, 10)), net=NetConfig("resnet10", 4), seed=seed)

    assert made().net.layout is torch.channels_last
    assert len(assert_resumes(made, made(seed=5), tmp_path)) >= 3
