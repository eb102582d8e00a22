"""The layers that come first and never move: what they answer is computed once for images that come again."""

from collections.abc import Mapping

from torch import Tensor, nn

from esacl.nets.cache import Cache, digest_of
from esacl.nets.meter import Meter
from esacl.nets.model import WHOLE, Model


class FrozenPrefix:
    """The first stages of a backbone, or all of it, in evaluation mode and without gradients."""

    def __init__(self, model: Model, layers: Mapping[str, int]) -> None:
        self.since = model.frozen_stages  # how many there are
        self._first = model.backbone if self.since == WHOLE else model.first[0]
        inside = set(self._first.modules())
        names = [name for name, module in model.named_modules() if module in inside]
        self._macs = sum(layers.get(name, 0) for name in names)  # of an example
        if self.since == WHOLE:
            self._macs = sum(macs for name, macs in layers.items() if name != "head")
        self._state = dict(self._first.state_dict(keep_vars=True))
        self._digest = ""

    def forget(self) -> None:
        """Its weights were replaced."""
        self._digest = ""

    def __call__(self, x: Tensor, cache: Cache, meter: Meter) -> Tensor:
        """What it answers to a batch; images that it has seen are not charged, as nothing runs."""
        self._digest = self._digest or digest_of(self._state)
        answered, ran = cache.answers(self._digest, x, self._first)
        meter.charge((ran - len(x)) * self._macs)  # the call is charged as a whole elsewhere
        return answered


def frozen_prefix(model: nn.Module, layers: Mapping[str, int]) -> FrozenPrefix | None:
    """That of a model, with the multiply-adds of its layers; None where the first layers move."""
    return FrozenPrefix(model, layers) if isinstance(model, Model) and model.frozen_stages else None
