"""Networks of the user's own: any module that maps images to features or to logits, found out by calling it."""

from copy import deepcopy

from torch import nn

from esacl.code import is_own, message
from esacl.errors import ConfigError
from esacl.nets.backbones import Shape
from esacl.nets.model import OwnNet
from esacl.nets.user_code import load
from esacl.nets.validate import Probe

Given = str | nn.Module
"""A network as the user gives it: the name of a function that returns it, or the module."""


def name_of(given: Given) -> str:
    """What a run calls it: the name of the code, or the class of a module in angle brackets."""
    return given if isinstance(given, str) else f"<{type(given).__name__}>"


def own_net(given: Given, shape: Shape, seed: int) -> OwnNet:
    """The network that is given, looked at and called with images of that shape; what it cannot be is refused."""
    name = name_of(given)
    if not isinstance(given, str | nn.Module):
        raise ConfigError(
            f"backbone = {given!r} is not allowed. Allowed: the name of a backbone, a torch.nn.Module, or the name of "
            f"a function that returns one, such as 'package.module:function'."
        )
    # code may return what it keeps: a module of its file, or the same one every time
    module = _copied(load(given, seed) if isinstance(given, str) else given, name)
    probe = Probe(module.cpu(), name, shape, seed)
    replaced = probe.without_head()
    features = probe.features()
    probe.check()
    return OwnNet(name, module, features, shape, replaced, probe.draws)


def require_user_module(recorded: str, given: Given | None, where: str) -> Given | None:
    """The network of something saved: none where it is a backbone of this library, else what the user gave again.

    Code is never taken from a name in a file, as the file may come from anyone.
    """
    if not is_own(recorded):
        if given is None:
            return None
        raise ConfigError(
            f"{where} has the backbone {recorded!r} of this library, but {name_of(given)!r} was given. Leave it out."
        )
    if given is None:
        memory = recorded.startswith("<")
        what = "a module in the memory of Python" if memory else "code of somebody's own"
        itself = ", or the module itself in Python" if memory else ""
        raise ConfigError(
            "the network of {where} is {what}, {recorded!r}, and no file is allowed to start code.",
            remedy=f"If you trust it, give it again: {{net.backbone:{{name}}}}{itself}.",
            where=where,
            what=what,
            recorded=recorded,
            name="package.module:function" if memory else recorded,
        )
    return given


def _copied(module: nn.Module, name: str) -> nn.Module:
    try:
        return deepcopy(module)
    except Exception as error:
        raise ConfigError(
            f"the network {name} cannot be copied: {message(error)}. Give a module that can be."
        ) from None
