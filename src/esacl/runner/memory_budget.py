"""The buffer that a budget of megabytes pays for: network, memory and whatever else a method keeps."""

from dataclasses import replace
from math import ceil

import torch

from esacl.assembly import assemble
from esacl.budget import MEGABYTE, parse_budget
from esacl.config import Config
from esacl.errors import ConfigError
from esacl.methods import Method
from esacl.metrics.memory import kept_bytes
from esacl.nets import OwnNet
from esacl.streams.base import Examples, Stream, Task

FEW = 4
"""Images of a class that a trial learns: enough to fill two small buffers."""


def fitted(
    config: Config, stream: Stream, chosen: bool, own: OwnNet | None = None, method: Method | None = None
) -> Config:
    """The same resolved run with the largest buffer that its budget pays for; a buffer that was `chosen` must fit.

    What a method keeps is measured: by short trials with two small buffers, on few images of every task.
    """
    if config.train.budget is None or (budget := parse_budget(config.train.budget)).unit != "MB":
        return config
    classes, limit = len(stream.class_names), budget.amount * MEGABYTE
    if "buffer" not in config.options.get("objective", {}):
        _check(config, limit, _kept(config, stream, own, method))
        return config
    small, large = (_kept(_with_buffer(config, times * classes), stream, own, method) for times in (1, 2))
    each = (large - small) / classes
    beside = small - each * classes
    if chosen:
        _check(config, limit, beside + each * config.options["objective"]["buffer"])
        return config
    _check(config, limit, small)  # an image of each class
    images = sum(len(task.train) for task in stream.tasks)
    return _with_buffer(config, min(images, int((limit - beside) / each)))


def _check(config: Config, limit: float, least: float) -> None:
    """Refuse a budget that is too small."""
    if least > limit:
        raise ConfigError(
            "{given} is too small: {method} keeps at least {least} MB here, the network among it.",
            "train.budget",
            config.train.budget,
            remedy="Use {train.budget} of {least}MB or more, a smaller network or a smaller {objective.buffer}.",
            method=config.composition,
            least=ceil(least / 1000) / 1000,
        )


def _with_buffer(config: Config, buffer: int) -> Config:
    return config.with_options(objective={"buffer": buffer})


def _kept(config: Config, stream: Stream, own: OwnNet | None, method: Method | None) -> int:
    """Bytes that a run keeps at its end, by a short one."""
    train = replace(config.train, budget=None, epochs=1, batch_size=min(config.train.batch_size, 8))
    trainer = assemble(replace(config, train=train), _short(stream), torch.device("cpu"), own=own, method=method)
    for _ in trainer.run():
        pass
    return kept_bytes(trainer.net, trainer.parts)


def _short(stream: Stream) -> Stream:
    """The same stream with few images of each class."""
    short = {id(task): _few(task) for task in (*stream.tasks, *stream.stages)}
    tasks, stages = (tuple(short[id(task)] for task in each) for each in (stream.tasks, stream.stages))
    return replace(stream, tasks=tasks, stages=stages)


def _few(task: Task) -> Task:
    return replace(task, train=_first(task.train), validation=_first(task.validation), test=_first(task.test))


def _first(examples: Examples) -> Examples:
    """The first images of each class."""
    rows = [(examples.y == column).nonzero().squeeze(1)[:FEW] for column in {*examples.y.tolist()}]
    chosen = torch.cat(rows).sort().values if rows else torch.zeros(0, dtype=torch.int64)
    return Examples(examples.x[chosen], examples.y[chosen])
