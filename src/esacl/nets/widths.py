"""Widths of a network: channels of each group of units, read from shapes of weights, and changed."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from esacl.errors import ConfigError
from esacl.nets.connections import HEAD, IMAGE, Connection, connections

NEUTRAL = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}
"""What BatchNorm has that changes nothing."""


def widths_of(model: nn.Module, state: Mapping[str, Tensor]) -> dict[str, int] | None:
    """Channels of each group in weights of such a model; None where layers contradict each other or the
    model, or where tracing does not tell which layer reads which.

    >>> from esacl.nets import build_model
    >>> model = build_model("mlp", 4, (1, 2, 2), 3, 0)
    >>> widths_of(model, model.state_dict())
    {'first': 4, 'second': 4}
    """
    try:
        layers = connections(model)
    except ConfigError:
        return None
    found: dict[str, int] = {}
    own = model.state_dict()
    for one in layers:
        if one.weight not in state or state[one.weight].dim() != own[one.weight].dim():
            return None
        if state[one.weight].shape[2:] != own[one.weight].shape[2:]:
            return None
        rows, columns = state[one.weight].shape[:2]
        if rows != (len(own[one.weight]) if one.writes == HEAD else found.setdefault(one.writes, rows)):
            return None
        if columns != (own[one.weight].shape[1] if one.reads == IMAGE else one.columns(found[one.reads])):
            return None
    return found


def set_widths(model: nn.Module, widths: Mapping[str, int]) -> None:
    """Give groups of units other widths, in place. Old channels stay as they are; new ones answer zero."""
    layers = connections(model)
    for tensor in _tensors(model, layers):
        sizes = [
            widths[group] * each if group in widths else size
            for (group, each), size in zip(tensor.sides, tensor.value.shape)
        ]
        new = tensor.value.new_full((*sizes, *tensor.value.shape[len(sizes) :]), tensor.neutral)
        common = tuple(slice(min(sides)) for sides in zip(new.shape, tensor.value.shape))
        new[common] = tensor.value[common]
        tensor.put(new)
    _note_widths(model, layers)


Places = tuple[Tensor | None, ...]
"""Which rows and columns of a tensor stay; None for all."""


def keep_channels(model: nn.Module, kept: Mapping[str, Tensor]) -> dict[str, Places]:
    """Remove all channels but these of each group of units, in place; returns what stays of each tensor, by name."""
    places: dict[str, Places] = {}
    layers = connections(model)
    for tensor in _tensors(model, layers):
        places[tensor.name] = tuple(
            (kept[group].unsqueeze(1) * each + torch.arange(each, device=kept[group].device)).flatten()
            if group in kept
            else None
            for group, each in tensor.sides
        )
        tensor.put(taken(tensor.value, places[tensor.name]))
    _note_widths(model, layers)
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


def written(model: nn.Module) -> dict[str, list[str]]:
    """Names of the parameters that write each group of units; a row of each belongs to one channel."""
    found: dict[str, list[str]] = {}
    parameters = dict(model.named_parameters())
    for tensor in _tensors(model, connections(model)):
        group = tensor.sides[0][0]
        if group != HEAD and tensor.name in parameters:
            found.setdefault(group, []).append(tensor.name)
    return found


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A parameter or statistic whose shape follows widths."""

    module: nn.Module
    own: str  # name within the module
    name: str
    sides: tuple[tuple[str, int], ...]  # groups of its rows, and of its columns, with the entries of each unit
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


def _tensors(model: nn.Module, layers: tuple[Connection, ...]) -> Iterator[_Tensor]:
    """Everything whose shape follows the widths of the groups."""
    modules = dict(model.named_modules())
    for one in layers:
        columns = () if one.depthwise else ((one.reads, one.places),)
        yield _Tensor(modules[one.layer], "weight", one.weight, ((one.writes, 1), *columns), 0.0)
        if modules[one.layer].bias is not None:
            yield _Tensor(modules[one.layer], "bias", f"{one.layer}.bias", ((one.writes, 1),), 0.0)
        for norm in one.norms:
            for own, neutral in NEUTRAL.items():
                if getattr(modules[norm], own) is not None:
                    yield _Tensor(modules[norm], own, f"{norm}.{own}", ((one.writes, 1),), neutral)


def _note_widths(model: nn.Module, layers: tuple[Connection, ...]) -> None:
    """Let layers say how wide they are now."""
    modules = dict(model.named_modules())
    for one in layers:
        layer = modules[one.layer]
        rows, columns = layer.get_parameter("weight").shape[:2]
        if one.depthwise:
            layer.groups, columns = rows, rows
        linear = isinstance(layer, nn.Linear)
        for name, units in zip(
            ("out_features", "in_features") if linear else ("out_channels", "in_channels"), (rows, columns)
        ):
            setattr(layer, name, units)
        for norm in one.norms:
            modules[norm].num_features = rows
