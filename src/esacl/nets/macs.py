"""How many multiply-adds an example takes, layer by layer, found by calling the model."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from torch.utils.hooks import RemovableHandle

from esacl.nets.layers import PROJECTIONS, TRANSPOSED, WEIGHTED

REST = "(rest)"
"""Multiply-adds that belong to no weight, such as those of attention between tokens."""


def macs_per_example(model: nn.Module, shape: tuple[int, int, int]) -> dict[str, int]:
    """Multiply-adds of each convolution, linear layer and attention for one example, by layer name.

    Of a network of the user's own, also those of other matrix products in its forward, as `REST`.
    """
    counts: dict[str, int] = {}
    was_training = model.training
    parameter = next(model.parameters())
    x = torch.zeros(1, *shape, device=parameter.device, dtype=parameter.dtype)
    handles = [handle for name, module in model.named_modules() for handle in _watched(name, module, counts)]
    try:
        if getattr(model, "own", False):
            counts[REST] = max(0, _counted(model.eval(), x) - sum(counts.values()))
        else:
            with torch.no_grad():
                model.eval()(x)
    finally:
        model.train(was_training)
        for handle in handles:
            handle.remove()
    return {name: count for name, count in counts.items() if count or name != REST}


def _counted(model: nn.Module, x: Tensor) -> int:
    """Multiply-adds of a call as torch counts them; with gradients on, as attention has a shortcut without."""
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(x)
    return int(counter.get_total_flops()) // 2


def _watched(name: str, module: nn.Module, counts: dict[str, int]) -> list[RemovableHandle]:
    """Hooks that add up what a layer does for one example."""

    def add(layer: str, macs: int) -> None:
        counts[layer] = counts.get(layer, 0) + macs

    def weighted(layer: nn.Module, given: tuple[Tensor, ...], out: Tensor) -> None:
        weight = layer.weight
        assert isinstance(weight, Tensor)
        through = given[0] if isinstance(layer, TRANSPOSED) else out  # what has a unit for each row of the weight
        add(name, through.numel() // weight.shape[0] * weight.numel())

    def attention(layer: nn.Module, given: tuple[Tensor, ...], named: dict[str, Any], out: object) -> None:
        assert isinstance(layer, nn.MultiheadAttention)
        read = dict(zip(("query", "key", "value"), given)) | named
        tokens = [read[role].numel() // read[role].shape[-1] for role in ("query", "key", "value")]
        widths = [layer.embed_dim, layer.kdim, layer.vdim]
        macs = [count * layer.embed_dim * width for count, width in zip(tokens, widths)]
        if layer._qkv_same_embed_dim:
            add(f"{name}.{PROJECTIONS[0]}", sum(macs))
        else:
            for own, count in zip(PROJECTIONS[1:], macs):
                add(f"{name}.{own}", count)
        add(f"{name}.out_proj", tokens[0] * layer.embed_dim**2)

    if isinstance(module, nn.MultiheadAttention):
        return [module.register_forward_hook(attention, with_kwargs=True)]
    return [module.register_forward_hook(weighted)] if isinstance(module, WEIGHTED) else []


def backward_passes(model: nn.Module, shape: tuple[int, int, int]) -> dict[str, int]:
    """How often each layer is run on the way back: not at all before everything that learns, once where its own
    weights are frozen; layers that are not named, twice (gradients of inputs and of weights).
    """
    if all(value.requires_grad for value in model.parameters()):
        return {}
    passes: dict[str, int] = {}

    def watched(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def watch(layer: nn.Module, given: tuple[Tensor, ...]) -> None:
            learns = any(value.requires_grad for value in layer.parameters())
            own = (*PROJECTIONS, "out_proj") if isinstance(layer, nn.MultiheadAttention) else ()
            for each in [f"{name}.{part}" for part in own] or [name]:
                passes[each] = 2 if learns else int(given[0].requires_grad)

        return watch

    was_training = model.training
    x = torch.zeros(1, *shape, device=next(model.parameters()).device)
    kinds = (*WEIGHTED, nn.MultiheadAttention)
    layers = [(name, module) for name, module in model.named_modules() if isinstance(module, kinds)]
    handles = [module.register_forward_pre_hook(watched(name)) for name, module in layers]
    try:
        with torch.enable_grad():
            model.eval()(x)
    finally:
        model.train(was_training)
        for handle in handles:
            handle.remove()
    body = [count for name, count in passes.items() if name != "head"]
    return passes | {REST: max(body, default=0)}
