"""Normalisation of each task's own: what a finished task was normalised by answers for it ever after."""

from collections.abc import Iterable

import torch

from esacl.nets.network import Network
from esacl.types import Params


class TaskNorms:
    """Copies of some parameters and of BatchNorm's statistics, one for each finished task."""

    def __init__(self) -> None:
        self.kept: list[Params] = []

    def keep(self, net: Network, names: Iterable[str]) -> None:
        """A task has ended: its parameters of these names, and the statistics, as they are."""
        now = {**{name: net.stored[name] for name in names}, **dict(net.model.named_buffers())}
        self.kept.append({name: value.detach().clone() for name, value in now.items()})

    def keep_nothing(self) -> None:
        """A task has ended that shares the network's own with others."""
        self.kept.append({})

    def of(self, task: int) -> Params:
        """What a finished task keeps; copies, as a call in training mode moves the statistics that it is given."""
        return {name: value.clone() for name, value in self.kept[task].items()}

    def task_state(self) -> Params:
        """All of it by name, to be saved beside the weights."""
        return {f"norms.{task}.{name}": value for task, own in enumerate(self.kept) for name, value in own.items()}

    def state_dict(self) -> list[Params]:
        """What each finished task keeps."""
        return [dict(own) for own in self.kept]

    def load_state_dict(self, state: list[Params], device: torch.device) -> None:
        """Continue from a state of before."""
        self.kept = [{name: value.to(device, copy=True) for name, value in own.items()} for own in state]
