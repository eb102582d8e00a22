from typing import Any

import pytest
import torch

from esacl.nets import Network
from esacl.optim.gradient import GradientRule
from esacl.options import NoOptions
from esacl.training.step import train_step
from esacl.types import Trace
from tests.builders import batch, context, finish, network, parts, same, trainer, weights


class Glancing(GradientRule):
    """Steps on each batch several times, and notes what was computed."""

    def __init__(self, times: int) -> None:
        super().__init__(NoOptions(), context())
        self.times = times
        self.traces: list[Trace] = []

    @property
    def glances(self) -> int:
        return self.times

    def compute_gradients(self, *args: Any) -> Trace:
        self.traces.append(super().compute_gradients(*args))
        return self.traces[-1]


def steps(net: Network, times: int, calls: int = 1) -> tuple[Glancing, list[str]]:
    """Steps on one batch, and what happened besides."""
    rule, happened = Glancing(times), []
    composed = parts("er", {"objective": {"buffer": 50}}, replacing={"gradient": rule})
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1, momentum=0.9)
    step, after, observe = optimizer.step, composed.objective.after_step, composed.selection.observe
    optimizer.step = lambda *args: (happened.append("step"), step(*args))[1]  # type: ignore[method-assign]
    composed.objective.after_step = lambda *args: (happened.append("after"), after(*args))[1]
    composed.selection.observe = lambda *args: (happened.append("observe"), observe(*args))[1]
    for _ in range(calls):
        returned = train_step(net, composed, optimizer, batch())
        assert returned is rule.traces[-1], "the trace is that of the last glance"
    assert composed.objective.memory.seen == 8 * calls
    return rule, happened


def test_a_batch_is_stepped_on_at_every_glance_and_remembered_once() -> None:
    rule, happened = steps(network(), 3)
    assert happened == ["step", "step", "step", "after", "observe"]
    losses = [trace.loss.item() for trace in rule.traces]
    assert losses[0] > losses[1] > losses[2], "each glance starts where the last one led"


@pytest.mark.parametrize("times", [1, 3])
def test_glances_move_the_weights_as_so_many_steps_do(times: int) -> None:
    glanced, stepped = network(), network()
    steps(glanced, times)
    steps(stepped, 1, calls=times)
    assert same(weights(glanced), weights(stepped))
    assert glanced.meter.executed_macs == stepped.meter.executed_macs == {"train": times * 3 * 8 * glanced.meter.dense}


def test_one_glance_is_the_rule() -> None:
    assert GradientRule(NoOptions(), context()).glances == 1


@pytest.mark.parametrize(
    ("method", "options"),
    [("finetune", {}), ("er", {}), ("icarl", {"objective": {"buffer": 20}}), ("co2l", {"objective": {"buffer": 20}})],
)
def test_the_papers_cost_counts_examples_of_the_stream_and_not_what_is_rehearsed(method: str, options: Any) -> None:
    training = finish(trainer(method, options))
    assert training.paper_macs == 3 * (3 * 2 * 24) * training.net.meter.dense


def test_the_papers_cost_counts_every_glance() -> None:
    once, thrice = (finish(trainer("la-maml", {"gradient": {"glances": times}})) for times in (1, 3))
    assert thrice.paper_macs == 3 * once.paper_macs
