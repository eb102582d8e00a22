"""Widths of a network: channels of each group of units, read from shapes of weights, and changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from esacl.nets.connections import HEAD, IMAGE, connections


def widths_of(model: nn.Module, state: Mapping[str, Tensor]) -> dict[str, int] | None:
    """Channels of each group in weights of such a model; None where layers contradict each other or the
    model, or where nobody knows which layer reads which.

    >>> from esacl.nets import build_model
    >>> model = build_model("mlp", 4, (1, 2, 2), 3, 0)
    >>> widths_of(model, model.state_dict())
    {'first': 4, 'second': 4}
    """
    if getattr(model, "own", False) or not hasattr(model.backbone, "connections"):
        return None
    found: dict[str, int] = {}
    own = model.state_dict()
    for one in connections(model):
        if one.weight not in state or state[one.weight].dim() != own[one.weight].dim():
            return None
        if state[one.weight].shape[2:] != own[one.weight].shape[2:]:
            return None
        rows, columns = state[one.weight].shape[:2]
        for group, units, mine in (
            (one.reads, columns, own[one.weight].shape[1]),
            (one.writes, rows, len(own[one.weight])),
        ):
            fixed = group in (IMAGE, HEAD)
            if units != (mine if fixed else found.setdefault(group, units)):
                return None
    return found


def set_widths(model: nn.Module, widths: Mapping[str, int]) -> None:
    """Give groups of units other widths, in place. Old channels stay as they are; new ones answer zero."""
    for tensor in _tensors(model):
        sizes = [widths.get(group, units) for group, units in zip(tensor.groups, tensor.value.shape)]
        new = tensor.value.new_full((*sizes, *tensor.value.shape[2:]), tensor.neutral)
        common = tuple(slice(min(sides)) for sides in zip(new.shape, tensor.value.shape))
        new[common] = tensor.value[common]
        tensor.put(new)
    _note_widths(model)


Places = tuple[Tensor | None, ...]
"""Which rows and columns of a tensor stay; None for all."""


def keep_channels(model: nn.Module, kept: Mapping[str, Tensor]) -> dict[str, Places]:
    """Remove all channels but these of each group of units, in place; returns what stays of each tensor, by name."""
    places: dict[str, Places] = {}
    for tensor in _tensors(model):
        places[tensor.name] = tuple(map(kept.get, tensor.groups))
        tensor.put(taken(tensor.value, places[tensor.name]))
    _note_widths(model)
    return places


def taken(value: Tensor, places: Places) -> Tensor:
    """A tensor without the rows and columns that do not stay, in plain memory order.

    >>> taken(torch.arange(6).view(2, 3), (None, torch.tensor([0, 2])))
    tensor([[0, 2],
            [3, 5]])
    """
    found = value
    for dimension, chosen in enumerate(places):
        if chosen is not None:
            found = found.index_select(dimension, chosen.to(value.device))
    return torch.empty(found.shape, dtype=found.dtype, device=found.device).copy_(found)


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A parameter or statistic whose shape follows widths."""

    module: nn.Module
    own: str  # name within the module
    name: str
    groups: tuple[str, ...]  # those that its rows, and its columns if it has such, belong to
    neutral: float  # of new channels

    @property
    def value(self) -> Tensor:
        """What it is now."""
        return getattr(self.module, self.own).detach()  # type: ignore[no-any-return]

    def put(self, value: Tensor) -> None:
        """Replace its values; a parameter stays the same object."""
        if self.own in dict(self.module.named_parameters(recurse=False)):
            parameter = self.module.get_parameter(self.own)
            parameter.data, parameter.grad = value, None
        else:
            setattr(self.module, self.own, value)


def _tensors(model: nn.Module) -> Iterator[_Tensor]:
    """Everything whose shape follows the widths of the groups."""
    modules = dict(model.named_modules())
    for one in connections(model):
        layer, norm = modules[one.layer], modules.get(one.norm or "")
        yield _Tensor(layer, "weight", one.weight, (one.writes, one.reads), 0.0)
        if layer.bias is not None:
            yield _Tensor(layer, "bias", f"{one.layer}.bias", (one.writes,), 0.0)
        if isinstance(norm, nn.BatchNorm2d):
            for own, neutral in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
                yield _Tensor(norm, own, f"{one.norm}.{own}", (one.writes,), neutral)


def _note_widths(model: nn.Module) -> None:
    """Let layers say how wide they are now."""
    modules = dict(model.named_modules())
    for one in connections(model):
        layer, norm = modules[one.layer], modules.get(one.norm or "")
        linear = isinstance(layer, nn.Linear)
        names = ("out_features", "in_features") if linear else ("out_channels", "in_channels")
        for name, units in zip(names, layer.get_parameter("weight").shape):
            setattr(layer, name, units)
        if isinstance(norm, nn.BatchNorm2d):
            norm.num_features = len(layer.get_parameter("weight"))
    model.backbone.features = model.head.in_features  # type: ignore[union-attr]
