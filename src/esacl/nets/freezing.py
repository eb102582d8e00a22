"""Layers that training leaves alone: which those are, by name or by the order in which they are called."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from esacl.errors import ConfigError
from esacl.nets.connections import stages_of
from esacl.nets.model import WHOLE, Model

UNTIL = "until:"


def freeze(model: Model, how: str, shape: tuple[int, int, int]) -> None:
    """Let nothing move the layers that `how` names: none, all, prefixes of names, or until:LAYER in order of calls.

    They stay in evaluation mode, and so do layers all of whose parameters were frozen already.
    """
    body = model.backbone
    if how == "all":
        body.requires_grad_(False)
        chosen = [""]
    elif how.startswith(UNTIL):
        chosen = list(_until(model, how, shape))
    else:
        chosen = [] if how == "none" else [_layer(body, name.strip(), how) for name in how.split(",")]
        for name in chosen:
            body.get_submodule(name).requires_grad_(False)
    inside = [f"backbone.{name}".rstrip(".") for name in chosen]
    model.held = tuple(dict.fromkeys([*inside, *_still(model.backbone, "backbone")]))
    if "backbone" in model.held:
        model.frozen_stages = WHOLE
    elif model.held:
        _divide(model)


def _divide(model: Model) -> None:
    """Find the stages that come first and never move, where the backbone can be divided at all."""
    try:
        stages = stages_of(model)
    except ConfigError:
        return
    learns = [stages.of[name] for name in stages.of if _moves(model, name)]
    learns += [stages.of[layer] for name, (_, layer) in stages.traced.norms.items() if _moves(model, name)]
    first = min(learns, default=len(stages.starts))
    if first:
        model.frozen_stages = first
        model.first, model.rest = (stages.part(0, first),), (stages.part(first, len(stages.starts)),)


def _moves(model: Model, name: str) -> bool:
    """Whether a layer has parameters that are trained, or statistics that training moves."""
    held = any(f"{name}.".startswith(f"{outer}.") for outer in model.held)
    return not held and any(value.requires_grad for value in model.get_submodule(name).parameters())


def _layer(body: nn.Module, name: str, how: str) -> str:
    """A layer of the backbone by its name; `backbone.` before it is left out."""
    name = name.removeprefix("backbone.")
    known = [each for each, _ in body.named_modules() if each]
    if name in known:
        return name
    near = [each for each in known if name and each.startswith(name)] or [each for each in known if "." not in each]
    raise ConfigError(
        "{given} names {name!r}, and the backbone has no such layer.",
        "net.freeze",
        how,
        allowed=f"all, none, {UNTIL}LAYER, or layers such as {', '.join(near[:4])}",
        name=name,
    )


def _until(model: Model, how: str, shape: tuple[int, int, int]) -> Iterator[str]:
    """Freeze every layer that is called up to and with the last one inside that which is named."""
    body = model.backbone
    last = _layer(body, how.removeprefix(UNTIL).strip(), how)
    names = {module: name for name, module in body.named_modules()}
    called: list[str] = []
    handles = [
        module.register_forward_pre_hook(lambda each, given: called.append(names[each])) for module in body.modules()
    ]
    try:
        with torch.no_grad():
            body.eval()(torch.zeros(1, *shape))
    finally:
        for handle in handles:
            handle.remove()
    places = [place for place, name in enumerate(called) if name == last or name.startswith(f"{last}.")]
    if not places:
        raise ConfigError("{given} names a layer that is never called.", "net.freeze", how)
    for name in dict.fromkeys(called[: places[-1] + 1]):
        module = body.get_submodule(name)
        for own in module.parameters(recurse=False):  # of a layer, or of one whose first layer is called before
            own.requires_grad_(False)
        if next(module.children(), None) is None:
            yield name


def _still(module: nn.Module, name: str) -> Iterator[str]:
    """The outermost modules all of whose parameters are frozen."""
    own: list[Tensor] = list(module.parameters())
    if own and not any(value.requires_grad for value in own):
        yield name
    elif own:
        for inside, child in module.named_children():
            yield from _still(child, f"{name}.{inside}")
