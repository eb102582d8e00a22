"""What the runs of a grid will cost: FLOPs by a miniature of each, hours by the speed of real training steps."""

from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter

import numpy as np
import torch

from esacl.assembly import assemble
from esacl.budget import decides_epochs, parse_budget
from esacl.config import Config
from esacl.grid.twins import stream_facts
from esacl.machine import machine
from esacl.methods import method, resolve
from esacl.nets import build_model, resolve_backbone
from esacl.nets.macs import macs_per_example
from esacl.streams import Stream, from_arrays, open_stream
from esacl.training.events import EpochDone, StepDone, TaskDone

IMAGES = {"split-cifar10": 5000, "split-cifar100": 500, "split-tinyimagenet": 500}
"""Training images of each class, validation included."""

NARROW = 4
"""Width of a miniature: what is counted is how often the network is called, which does not depend on it."""

MEASURED = 0.1
"""Seconds of steps to time, at least: other processes can hold up every one of three short steps."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Multiply-adds of a task in units of one image's forward pass."""

    image: float  # for each image in every epoch
    epoch: float  # once in every epoch, whatever the number of images: looks at the memory
    end: float  # for each image when the task ends


def executed_flops(config: Config) -> float:
    """Executed training FLOPs of a run: its budget, if it has one; early ends of a task are not foreseen."""
    if config.train.budget is not None and decides_epochs(config.train.budget):
        budget = parse_budget(config.train.budget)
        return budget.amount * (1 if budget.unit == "flops" else step_speed(config))
    shape, classes, tasks = stream_facts(config)
    backbone, width = resolve_backbone(config.net.backbone, config.net.width, shape)
    macs = sum(macs_per_example(build_model(backbone, width, shape, classes, 0), shape).values())
    first, later, epochs, share = _calls(config, shape, classes // tasks)
    stages = 1 if _joint(config) else tasks
    images = _images(config, classes) / stages
    found = [(call.image * images * share + call.epoch) * epochs + call.end * images for call in (first, later)]
    return 2 * macs * (found[0] + (stages - 1) * found[1])


def step_speed(config: Config) -> float:
    """FLOPs a second of a run's training steps on this machine: the fastest of several, after one to warm up."""
    shape, classes, tasks = stream_facts(config)
    config = replace(config, train=replace(config.train, budget=None))
    stream = _miniature(shape, classes // tasks, config.train.batch_size, batches=4)
    stream = stream.joint() if _joint(config) else stream
    with machine(replace(config.machine, device="cpu")) as device:
        trainer = assemble(resolve(config, stream), stream, device)
        found: list[float] = []
        start = began = perf_counter()
        before = 0
        for event in trainer.run():
            now, macs = perf_counter(), trainer.net.meter.executed_macs.get("train", 0)
            if isinstance(event, StepDone):
                found.append(2 * (macs - before) / (now - began))
            if len(found) >= 4 and now - start > MEASURED:
                break
            began, before = perf_counter(), macs
    return max(found[1:])


def _joint(config: Config) -> bool:
    return method(config.method).joint


def _images(config: Config, classes: int) -> float:
    """Training images of all tasks."""
    if config.stream.name not in IMAGES:
        return sum(len(task.train) for task in open_stream(config.stream, config.seed).tasks)
    each = min(IMAGES[config.stream.name], config.stream.limit_per_class or IMAGES[config.stream.name])
    return classes * round(each * (1 - config.stream.validation))


def _calls(config: Config, shape: tuple[int, int, int], classes: int) -> tuple[Calls, Calls, int, float]:
    """Calls in the first and in a later task of a miniature; epochs of a real task, and the share of data it keeps."""
    stream = _miniature(shape, classes, config.train.batch_size, batches=3)
    stream = stream.joint() if _joint(config) else stream
    backbone = resolve_backbone(config.net.backbone, None, shape)[0]
    train = replace(config.train, budget=None)
    narrow = replace(config, net=replace(config.net, backbone=backbone, width=NARROW), train=train)
    device = torch.device("cpu")
    real = assemble(resolve(narrow, stream), stream, device).parts
    brief = replace(narrow, train=replace(train, epochs=1, scenario="both"))
    trainer = assemble(resolve(brief, stream), stream, device)
    found: list[Calls] = []
    steps: list[tuple[int, int]] = []  # images and multiply-adds
    before, epochs, dense = (0, 0), 0, trainer.net.meter.dense  # which later tasks may have less of
    for event in trainer.run():
        now = trainer.samples, trainer.net.meter.executed_macs.get("train", 0)
        if isinstance(event, StepDone):
            steps.append((now[0] - before[0], now[1] - before[1]))
            before = now
        elif isinstance(event, EpochDone):
            epochs += 1
        elif isinstance(event, TaskDone):
            images = len(stream.stages[event.task].train)
            usual = median(macs / count for count, macs in steps)
            seen = sum(count for count, _ in steps)  # with what is remembered and trained on
            once = sum(macs for _, macs in steps) - usual * seen
            end = now[1] - before[1]
            image = usual * seen / epochs / images
            found.append(Calls(image / dense, once / epochs / dense, end / images / dense))
            steps, before, epochs = [], now, 0
    share = real.selection.kept_share / trainer.parts.selection.kept_share  # what leaves the task in later epochs
    return found[0], found[-1], real.sparsity.planned_epochs(), share


def _miniature(shape: tuple[int, int, int], classes: int, batch: int, batches: int) -> Stream:
    """Two tasks of noise with at least so many batches each."""
    each = 2 + -(-batches * batch // classes)
    labels = np.repeat(np.arange(2 * classes), each)
    images = np.random.default_rng(0).integers(0, 256, (len(labels), *shape), dtype=np.uint8)
    return from_arrays(images, labels, images[::each], labels[::each], classes_per_task=classes)
