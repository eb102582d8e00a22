"""What a network of the user's own is, found by calling a module; what it may not be, with the reason."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from esacl.code import message
from esacl.errors import ConfigError
from esacl.nets.backbones import Shape
from esacl.nets.layers import NORMS
from esacl.rng import generator, randomness

IMAGES = 3  # of a call: no usual size of anything else


class Probe:
    """A module and images like those of the stream."""

    def __init__(self, module: nn.Module, name: str, shape: Shape, seed: int) -> None:
        self.module, self.name = module, name
        self.draws = False  # whether it draws random numbers in training mode: dropout, stochastic depth
        self.size = "×".join(map(str, shape))
        self.x = torch.randn(IMAGES, *shape, generator=generator(0, "probe"))
        self._check_parameters()
        with randomness(seed, "lazy layers"):
            self._call(module.eval(), self.x)  # before anything else is called: lazy layers have no weights until then

    def without_head(self) -> str | None:
        """Take the last layer away where it is a linear one, called once, whose output is the network's: its head."""
        with _calls(self.module) as calls:
            out = self._call(self.module, self.x)
        layer, last = calls[-1] if calls else (None, None)
        if not isinstance(layer, nn.Linear) or last is not out or sum(each is layer for each, _ in calls) > 1:
            return None
        path = next(name for name, module in self.module.named_modules() if module is layer)
        if not path or len(list(self.module.parameters())) == len(list(layer.parameters())):
            self._refuse(
                "has nothing but its last layer, which would be replaced by a head of this library",
                "Put nn.Identity() behind it to keep it",
            )
        parent, _, own = path.rpartition(".")
        setattr(self.module.get_submodule(parent), own, nn.Identity())
        return f"{path} ({layer.in_features} → {layer.out_features})"

    def features(self) -> int:
        """Length of the vector that it makes of an image."""
        out = self._call(self.module, self.x)
        remedy = "It must map images [N, C, H, W] to features or logits [N, D]"
        if not isinstance(out, Tensor):
            self._refuse(f"returns {type(out).__name__}, not a tensor", remedy)
        if out.ndim != 2 or len(out) != IMAGES or not out.shape[1]:
            got = f"[{', '.join(map(str, out.shape))}]"
            self._refuse(f"makes {got} of {IMAGES} images of {self.size}", f"{remedy}: add pooling and nn.Flatten()")
        if out.dtype != torch.float32:
            self._refuse(f"returns {out.dtype}", "Return torch.float32")
        if not out.isfinite().all():
            self._refuse("returns numbers that are not finite", "Check its weights and its forward")
        return int(out.shape[1])

    def check(self) -> None:
        """Refuse what could not be trained, pruned and resumed to the same bits."""
        with torch.no_grad():
            whole, again = (self._call(self.module, self.x) for _ in range(2))
            alone = torch.cat([self._call(self.module, image.unsqueeze(0)) for image in self.x])
        if not torch.equal(whole, again):
            self._refuse("is not deterministic: the same images give other features", "Leave out what is random")
        if not torch.allclose(whole, alone, rtol=1e-2, atol=1e-3 * float(whole.abs().max())):
            self._refuse(
                "answers for an image by what else is in the batch, in evaluation mode too",
                "Normalise over an image (LayerNorm, GroupNorm) or with running statistics (BatchNorm)",
            )
        self._check_training()

    def _check_training(self) -> None:
        twin = deepcopy(self.module).train()
        before = {name: value.clone() for name, value in twin.named_buffers()}
        answers: list[Tensor] = []
        for _ in range(2):
            with randomness(0, "training mode"):
                state = torch.get_rng_state()
                answers.append(self._call(twin, self.x))
                self.draws = not torch.equal(state, torch.get_rng_state())
        out = answers[0]
        if not torch.equal(*answers):
            self._refuse(
                "draws random numbers in training mode that torch's generator does not decide, so no run could be "
                "resumed to the same bits",
                "Draw them with torch, as nn.Dropout does",
            )
        known = {f"{name}.{own}" for name, m in twin.named_modules() if isinstance(m, NORMS) for own in m._buffers}
        moved = [name for name, value in twin.named_buffers() if not torch.equal(value, before[name])]
        if strange := [name for name in moved if name.lstrip(".") not in {each.lstrip(".") for each in known}]:
            self._refuse(
                f"changes {strange[0]!r} when it is called in training mode",
                "Only running statistics of BatchNorm may change",
            )
        self._check_gradients(twin, out)

    def _check_gradients(self, twin: nn.Module, out: Tensor) -> None:
        trained = {name: value for name, value in twin.named_parameters() if value.requires_grad}
        names = [*trained]
        found: tuple[Tensor | None, ...] = (None,) * len(names)
        if out.requires_grad and trained:
            found = torch.autograd.grad(out.square().sum(), [*trained.values()], allow_unused=True)
        idle = [name for name, gradient in zip(names, found) if gradient is None]
        if idle:
            self._refuse(f"has parameters that its output does not depend on, such as {idle[0]!r}", "Remove them")

    def _check_parameters(self) -> None:
        seen: dict[int, str] = {}
        for name, value in self.module.named_parameters(remove_duplicate=False):
            if id(value) in seen:
                self._refuse(
                    f"has one parameter under two names, {seen[id(value)]!r} and {name!r}",
                    "Give each layer its own, as masks are by name",
                )
            seen[id(value)] = name
            if value.dtype != torch.float32:
                self._refuse(f"has the parameter {name!r} of {value.dtype}", "Convert it with .float()")
        if not seen and next(self.module.buffers(), None) is None:
            self._refuse("has no parameters", "Give a network that can learn")

    def _call(self, module: nn.Module, x: Tensor) -> Any:
        try:
            return module(x)
        except Exception as error:
            self._refuse(f"fails on {len(x)} image(s) of {self.size}: {message(error)}", "Mend its forward")

    def _refuse(self, what: str, remedy: str) -> NoReturn:
        raise ConfigError(f"the network {self.name} {what}. {remedy}.") from None


@contextmanager
def _calls(module: nn.Module) -> Iterator[list[tuple[nn.Module, Any]]]:
    """The layers without layers of their own that are called, in order, with what each returns."""
    calls: list[tuple[nn.Module, Any]] = []
    leaves = [layer for layer in module.modules() if next(layer.children(), None) is None]
    handles = [layer.register_forward_hook(lambda one, _, out: calls.append((one, out))) for layer in leaves]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()
