"""The readout slot: how the network answers."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from esacl.nets.network import Network
from esacl.part import Part
from esacl.problem import Problem
from esacl.streams.base import Examples, Task
from esacl.types import Params


class Readout(Part):
    """The network's own head; other readouts are fitted at the end of a task."""

    answers_unseen: ClassVar[bool] = True  # whether a class can be answered before its task was trained

    @classmethod
    def misfit(cls, parts: Mapping[str, type[Part]]) -> Problem | str | None:
        """A head that nobody trains."""
        if cls.fit is not Readout.fit or getattr(parts["objective"], "trains_head", True):
            return None
        return Problem(
            "{objective} learns features only, so the network's head would answer at random.",
            remedy="Use {parts.readout:linear-probe} or {parts.readout:nearest-mean}.",
            objective=parts["objective"].__name__,
        )

    def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
        """Fit on what may be seen at the end of a task: its own examples and the remembered ones."""

    def logits(self, net: Network, x: Tensor, task: int | None) -> Tensor:
        """One score per class; `task` is given only to methods that need to know it."""
        return net(x, task).logits

    def folded(self, state: Params) -> Params:
        """The model's state with a head that gives the same answers: what is saved for use without this library."""
        return state


def one_for_all_tasks(name: str, parts: Mapping[str, type[Part]]) -> Problem | None:
    """Why a readout that is fitted once for all tasks cannot answer for weights that change with the task."""
    sparsity = parts["sparsity"]
    if not getattr(sparsity, "needs_task_id", False):
        return None
    return Problem(
        "the {readout} is fitted with the weights of the last task, but {sparsity} answers every task with weights of "
        "its own.",
        remedy="Use {parts.readout:head} where the objective trains it, or another sparsity, such as esacl.",
        readout=name,
        sparsity=sparsity.__name__,
    )


def one_normalisation(name: str, options: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The same for normalisation that changes with the task."""
    norms = options["constraint"].get("norms", "first")
    if norms == "first":
        return None
    return (
        f"the {name} is fitted with the normalisation of the last task, but constraint.norms = {norms!r} answers every "
        f"task with its own. Use constraint.norms = 'first', or --readout head where the objective trains it."
    )
