"""Widths of a network: channels of each group of units, read from shapes of weights, and changed."""

from collections.abc import Mapping

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
    modules = dict(model.named_modules())
    for one in connections(model):
        layer, norm = modules[one.layer], modules.get(one.norm or "")
        weight = layer.get_parameter("weight")
        rows, columns = widths.get(one.writes, weight.shape[0]), widths.get(one.reads, weight.shape[1])
        _resize(layer, "weight", (rows, columns, *weight.shape[2:]), 0.0)
        linear = isinstance(layer, nn.Linear)
        for name, units in zip(
            ("out_features", "in_features") if linear else ("out_channels", "in_channels"), (rows, columns)
        ):
            setattr(layer, name, units)
        if layer.bias is not None:
            _resize(layer, "bias", (rows,), 0.0)
        if isinstance(norm, nn.BatchNorm2d):
            for name, neutral in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
                _resize(norm, name, (rows,), neutral)
            norm.num_features = rows
    model.backbone.features = model.head.in_features  # type: ignore[union-attr]


def _resize(module: nn.Module, name: str, shape: tuple[int, ...], neutral: float) -> None:
    """A parameter or statistic of another shape: what fits of the old one, and the neutral value."""
    old = getattr(module, name).detach()
    new = old.new_full(shape, neutral)
    common = tuple(slice(min(sides)) for sides in zip(shape, old.shape))
    new[common] = old[common]
    if name in dict(module.named_parameters(recurse=False)):
        getattr(module, name).data = new
    else:
        setattr(module, name, new)
