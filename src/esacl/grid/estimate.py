"""What the runs of a grid will cost: FLOPs by a miniature of each, hours by the speed of one real training step."""

from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
import torch

from esacl.assembly import assemble
from esacl.config import Config
from esacl.grid.twins import stream_facts
from esacl.methods import method, resolve
from esacl.nets import build_model, resolve_backbone
from esacl.nets.macs import macs_per_example
from esacl.streams import Stream, from_arrays, open_stream
from esacl.training.events import EpochDone, TaskDone

IMAGES = {"split-cifar10": 5000, "split-cifar100": 500, "split-tinyimagenet": 500}
"""Training images of each class, validation included."""

NARROW = 4
"""Width of a miniature: what is counted is how often the network is called, which does not depend on it."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Multiply-adds in units of one image's forward pass, for each image of a task."""

    epoch: float  # in every epoch
    end: float  # when the task ends


def executed_flops(config: Config) -> float:
    """Executed training FLOPs of a run; data removal and early ends of a task are not foreseen."""
    shape, classes, tasks = stream_facts(config)
    backbone, width = resolve_backbone(config.net.backbone, config.net.width, shape)
    macs = sum(macs_per_example(build_model(backbone, width, shape, classes, 0), shape).values())
    first, later, epochs = _calls(config, shape, classes // tasks)
    stages = 1 if _joint(config) else tasks
    images = _images(config, classes) / stages
    total = first.epoch * epochs + first.end + (stages - 1) * (later.epoch * epochs + later.end)
    return 2 * macs * images * total


def step_speed(config: Config) -> float:
    """FLOPs a second of one training step on this machine, after one to warm up."""
    shape, classes, _ = stream_facts(config)
    backbone, width = resolve_backbone(config.net.backbone, config.net.width, shape)
    model = build_model(backbone, width, shape, classes, 0)
    batch = torch.zeros(config.train.batch_size, *shape)
    for _ in range(2):
        began = perf_counter()
        model(batch).logits.sum().backward()
        seconds = perf_counter() - began
    return 6 * len(batch) * sum(macs_per_example(model, shape).values()) / seconds


def _joint(config: Config) -> bool:
    return method(config.method).joint


def _images(config: Config, classes: int) -> float:
    """Training images of all tasks."""
    if config.stream.name not in IMAGES:
        return sum(len(task.train) for task in open_stream(config.stream, config.seed).tasks)
    each = min(IMAGES[config.stream.name], config.stream.limit_per_class or IMAGES[config.stream.name])
    return classes * round(each * (1 - config.stream.validation))


def _calls(config: Config, shape: tuple[int, int, int], classes: int) -> tuple[Calls, Calls, int]:
    """Calls in the first and in a later task of a miniature, and epochs of a real task."""
    stream = _miniature(shape, classes, config.train.batch_size)
    stream = stream.joint() if _joint(config) else stream
    backbone = resolve_backbone(config.net.backbone, None, shape)[0]
    narrow = replace(config, net=replace(config.net, backbone=backbone, width=NARROW))
    device = torch.device("cpu")
    planned = assemble(resolve(narrow, stream), stream, device).parts.sparsity.planned_epochs()
    brief = replace(narrow, train=replace(config.train, epochs=1, scenario="both"))
    trainer = assemble(resolve(brief, stream), stream, device)
    found, before, at_end, epochs = [], 0, 0, 0
    for event in trainer.run():
        now = trainer.net.meter.executed_macs.get("train", 0)
        if isinstance(event, EpochDone):
            at_end, epochs = now, epochs + 1
        elif isinstance(event, TaskDone):
            images = len(stream.stages[event.task].train) * trainer.net.meter.dense
            found.append(Calls((at_end - before) / epochs / images, (now - at_end) / images))
            before, epochs = now, 0
    return found[0], found[-1], planned


def _miniature(shape: tuple[int, int, int], classes: int, batch: int) -> Stream:
    """Two tasks of noise with at least two batches each."""
    each = 2 + -(-2 * batch // classes)
    labels = np.repeat(np.arange(2 * classes), each)
    images = np.random.default_rng(0).integers(0, 256, (len(labels), *shape), dtype=np.uint8)
    return from_arrays(images, labels, images[::each], labels[::each], classes_per_task=classes)
