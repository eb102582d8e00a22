"""A composition that is ready to learn, and one that has learnt."""

from functools import cache
from typing import Any

from esacl.config import NetConfig, TrainConfig
from esacl.training.trainer import Trainer
from tests.builders import finish, stream, trainer
from tests.conformance.toys import COMPOSITIONS, SETTINGS


def build(method: str, seed: int = 0, epochs: int = 2, augment: bool = True, **train: Any) -> Trainer:
    """A trainer of a small stream."""
    of = stream(augment=augment)
    if COMPOSITIONS[method].part("objective").joint:
        of = of.joint()
    options = dict(SETTINGS.get(method, {}))
    net = options.pop("net", NetConfig("mlp", 16))
    if "buffer" in COMPOSITIONS[method].options("objective"):
        options["objective"] = {**options.get("objective", {}), "buffer": 20}
    settings = TrainConfig(epochs=epochs, batch_size=8, **train)
    return trainer(method, options=options, of=of, seed=seed, train=settings, net=net)


@cache
def trained(method: str) -> Trainer:
    """The same after all tasks: for looking at, not for changing."""
    return finish(build(method))
