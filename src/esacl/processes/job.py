"""What the first process tells the others: settings, data and how far the run is; and whether all are still alike."""

import json
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, distributed

from esacl.config import Config
from esacl.errors import ConfigError, RunError
from esacl.nets.data_parallel import Unreachable
from esacl.streams.base import Examples, Stream, Task
from esacl.streams.inputs import ImageInputs
from esacl.training.checkpoint import fingerprint, from_tree, to_tree
from esacl.training.trainer import Trainer
from esacl.types import State


def send(state: State) -> None:
    """Tell all others a state; called by the first process."""
    tensors: dict[str, Tensor] = {}
    tree = to_tree(state, tensors, "")
    kinds = [[name, str(value.dtype).removeprefix("torch."), list(value.shape)] for name, value in tensors.items()]
    head = torch.frombuffer(bytearray(json.dumps([tree, kinds]).encode()), dtype=torch.uint8)
    _broadcast(torch.tensor([len(head)]))
    _broadcast(head)
    for value in tensors.values():
        _broadcast(value.reshape(-1).view(torch.uint8))


def receive() -> State:
    """What the first process tells; called by every other."""
    length = torch.zeros(1, dtype=torch.int64)
    _broadcast(length)
    head = torch.empty(int(length), dtype=torch.uint8)
    _broadcast(head)
    tree, kinds = json.loads(head.numpy().tobytes())
    tensors = {name: torch.empty(shape, dtype=getattr(torch, kind)) for name, kind, shape in kinds}
    for value in tensors.values():
        _broadcast(value.view(-1).view(torch.uint8))
    state: State = from_tree(tree, tensors)
    return state


def agree(trainer: Trainer) -> None:
    """Refuse to go on where the processes do not hold the same weights, masks, memories and counters any more."""
    if trainer.net.shares is None:
        return
    state = {"model": trainer.net.model.state_dict(), "parts": trainer.parts.state_dict()}
    number = int(fingerprint(state)[:15], 16)
    extremes = torch.tensor([number, -number])
    try:
        distributed.all_reduce(extremes, op=distributed.ReduceOp.MAX)
    except RuntimeError as error:
        raise Unreachable(str(error)) from None
    if extremes.sum() != 0:
        raise RunError(
            "the processes have come apart: they do not hold the same weights, masks and memories any more.",
            remedy="Use machines (or GPUs) of one kind with the same versions, then resume, with {machine.processes:1} "
            "where that fails.",
        )


def job(trainer: Trainer, config: Config) -> State:
    """All that another process needs to be at the same place of the same run."""
    begun = trainer.untrained is not None
    stream = stream_state(trainer.stream)
    return {"config": config.to_mapping(), "stream": stream, "trainer": trainer.state_dict() if begun else None}


def stream_state(stream: Stream) -> State:
    """A stream as plain values and tensors."""
    own = [id(stage) for stage in stream.stages] == [id(task) for task in stream.tasks]  # tensors have no ==
    return {
        "name": stream.name,
        "class_names": stream.class_names,
        "tasks": [_task_state(task) for task in stream.tasks],
        "stages": None if own else [_task_state(stage) for stage in stream.stages],
        "inputs": asdict(stream.inputs),
    }


def stream_of(state: State) -> Stream:
    """The stream that `stream_state` described."""
    tasks = tuple(map(_task_of, state["tasks"]))
    stages = tasks if state["stages"] is None else tuple(map(_task_of, state["stages"]))
    return Stream(state["name"], state["class_names"], tasks, stages, ImageInputs(**state["inputs"]))


def _task_state(task: Task) -> State:
    splits = {name: [task.split(name).x, task.split(name).y] for name in ("train", "validation", "test")}
    if not all(isinstance(x, Tensor) for x, _ in splits.values()):
        raise ConfigError(
            "several processes train on images that are all in memory, but these are read when they are needed.",
            remedy="Use {stream.cache:ram}, a smaller {stream.image_size}, or {machine.processes:1}.",
        )
    return {"index": task.index, "classes": task.classes, **splits}


def _task_of(state: State) -> Task:
    splits: Any = {name: Examples(*state[name]) for name in ("train", "validation", "test")}
    return Task(state["index"], state["classes"], **splits)


def _broadcast(tensor: Tensor) -> None:
    """From the first process to all."""
    try:
        if tensor.numel():
            distributed.broadcast(tensor, 0)
    except RuntimeError as error:
        raise Unreachable(str(error)) from None
