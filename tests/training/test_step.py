from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from esacl.nets import Network
from esacl.objectives.finetune import Finetune
from esacl.optim.constraint import StepConstraint
from esacl.options import NoOptions
from esacl.part import Part
from esacl.sparsity.base import DenseOptions, SparsityStrategy
from esacl.training import step as module
from esacl.training.events import StepDone
from esacl.training.parts import Parts
from esacl.training.step import memory_gradients, snapshot_constrained, train_step
from esacl.types import Batch, Outputs, Params, Replay
from tests.builders import batch, context, finish, network, parts, same, stream, trainer, weights
from tests.training.step_tools import (
    BLOCK,
    FROZEN,
    FreezingConstraint,
    FreezingStrategy,
    Watching,
    compose,
    optimizer_of,
    take_steps,
)


@pytest.mark.parametrize(
    ("slot", "kind"),
    [("constraint", FreezingConstraint), ("sparsity", FreezingStrategy)],
    ids=["constraint", "sparsity"],
)
def test_frozen_weights_stay_bitwise_constant_under_momentum_and_weight_decay(slot: str, kind: type[Part]) -> None:
    net, free = network(), network()
    before = weights(net)
    take_steps(net, compose(slot, kind))
    take_steps(free, parts())
    after, moved = weights(net), weights(free)
    assert torch.equal(after[FROZEN][BLOCK], before[FROZEN][BLOCK])
    assert torch.equal(after["backbone.second.bias"], before["backbone.second.bias"])
    assert not torch.equal(moved[FROZEN][BLOCK], before[FROZEN][BLOCK])
    assert not torch.equal(moved["backbone.second.bias"], before["backbone.second.bias"])
    changed = after[FROZEN] != before[FROZEN]
    changed[BLOCK] = True
    assert changed.all()
    assert not torch.equal(after["backbone.second.weight"], before["backbone.second.weight"])


def test_the_constraint_goes_before_the_sparsity_strategy_and_each_sees_only_what_it_names() -> None:
    calls: list[tuple[str, str, float, float]] = []

    class First(StepConstraint):
        def constrained(self) -> Collection[str]:
            return ("head.bias", "backbone.first.bias")

        def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
            calls.append(("constraint", name, before[0].item(), after[0].item()))
            return torch.full_like(after, 7.0)

    class Second(SparsityStrategy):
        def constrained(self) -> Collection[str]:
            return ("head.bias",)

        def constrain(self, name: str, before: Tensor, after: Tensor) -> Tensor:
            calls.append(("sparsity", name, before[0].item(), after[0].item()))
            return after + 1

    net, known = network(), context()
    composed = parts(replacing={"constraint": First(NoOptions(), known), "sparsity": Second(NoOptions(), known)})
    train_step(net, composed, optimizer_of(net), batch())
    assert (net.stored["backbone.first.bias"] == 7).all()
    assert (net.stored["head.bias"] == 8).all()
    assert len(calls) == 3
    head = [call for call in calls if call[1] == "head.bias"]
    assert [call[0] for call in head] == ["constraint", "sparsity"]
    assert head[0][2] == head[1][2] == 0.0  # both see the value of before the step
    assert head[0][3] != 0.0
    assert head[1][3] == 7.0


def test_nothing_is_copied_when_no_constraint_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing is constrained")

    net, composed = network(), parts()
    assert snapshot_constrained(net, composed) == {}
    monkeypatch.setattr(module, "apply_constraints", refuse)
    cloned: list[torch.Size] = []
    true_clone = Tensor.clone

    def clone(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        cloned.append(self.shape)
        return true_clone(self, *args, **kwargs)

    optimizer, examples = torch.optim.SGD(net.model.parameters(), lr=0.1), batch()
    monkeypatch.setattr(Tensor, "clone", clone)
    train_step(net, composed, optimizer, examples)
    assert cloned == []


def test_only_the_watched_parameters_are_remembered() -> None:
    net = network()
    remembered = snapshot_constrained(net, compose("constraint", FreezingConstraint))
    assert set(remembered) == {FROZEN, "backbone.second.bias"}
    for name, value in remembered.items():
        assert torch.equal(value, net.stored[name])
        assert value.data_ptr() != net.stored[name].data_ptr()


@pytest.mark.parametrize("polytope", [True, False])
def test_what_the_optimiser_leaves_alone_by_itself_is_remembered_only_where_something_else_may_move_it(
    polytope: bool,
) -> None:
    training = trainer("esacl", {"sparsity": {"polytope": polytope}})
    net, composed = training.net, training.parts
    next(event for event in training.run() if isinstance(event, StepDone) and event.task == 1)
    frozen = composed.sparsity.frozen().keys()
    assert len(frozen) == 2
    assert snapshot_constrained(net, composed).keys() == (set() if polytope else frozen)
    projecting = replace(composed, constraint=FreezingConstraint(NoOptions(), context()))
    assert snapshot_constrained(net, projecting).keys() == {*frozen, FROZEN, "backbone.second.bias"}


def test_a_step_is_gradient_then_update_then_constraint_then_what_others_remember() -> None:
    calls: list[str] = []

    def record(part: Part, *names: str) -> Part:
        for name in names:
            true = getattr(part, name)

            def call(*args: Any, _name: str = name, _true: Callable[..., Any] = true, **kwargs: Any) -> Any:
                calls.append(_name)
                return _true(*args, **kwargs)

            setattr(part, name, call)
        return part

    net, composed, known = network(), parts(), context()
    record(composed.gradient, "compute_gradients")
    record(composed.objective, "fit_loss", "retain_loss", "after_step")
    record(composed.selection, "update_set", "observe")
    watcher = record(Watching(NoOptions(), known), "observe_gradients")
    constraint = record(FreezingConstraint(NoOptions(), known), "constrain")
    optimizer = optimizer_of(net)
    true_step = optimizer.step
    optimizer.step = lambda *args: (calls.append("step"), true_step(*args))[1]  # type: ignore[method-assign]
    made = {"sparsity": watcher, "constraint": constraint}
    composed = Parts(**{**{name: getattr(composed, name) for name in Parts.__slots__}, **made})
    train_step(net, composed, optimizer, batch())
    assert calls == [
        "compute_gradients",
        "update_set",
        "fit_loss",
        "retain_loss",
        "observe_gradients",
        "step",
        "constrain",
        "constrain",
        "after_step",
        "observe",
    ]


def test_memory_gradients_leave_the_batch_statistics_alone() -> None:
    net = network("cnn", 4)
    composed = parts("er")
    composed.objective.begin_task(net, stream().tasks[1])
    source = batch()
    composed.objective.memory.add(source.raw, source.y)
    net.model.train()
    before = weights(net)
    assert memory_gradients(net, composed, 6)
    assert same(before, weights(net))
    net(source.x)
    assert not same(before, weights(net)), "an ordinary pass in training mode moves them"


def test_gradients_of_the_parts_own_parameters_do_not_add_up_over_steps() -> None:
    scale = torch.ones((), requires_grad=True)
    seen = []

    class Scaled(Finetune):
        def extra_parameters(self) -> Params:
            return {"scale": scale}

        def retain_loss(self, net: Network, outputs: Outputs, batch: Batch, replay: Replay | None = None) -> Tensor:
            return 3 * scale

    known = context()
    composed = parts("finetune", of=known, replacing={"objective": Scaled(NoOptions(), known)})
    net = network()
    composed.attach(net)
    optimizer = composed.update.build(net, {}, 1)
    for _ in range(3):
        train_step(net, composed, optimizer, batch())
        seen.append(scale.grad.item())  # type: ignore[union-attr]
    assert seen == [3.0, 3.0, 3.0]


def test_watching_the_memory_does_not_change_what_is_replayed() -> None:
    runs = []
    for watches in (False, True):

        class Watching(SparsityStrategy):
            observes_gradients = watches

            def observe_gradients(self, gradients: Params, memory: Callable[[], Params]) -> None:
                memory()

        training = trainer("er", replacing={"sparsity": lambda known: Watching(DenseOptions(), known)})
        runs.append(weights(finish(training).net))
    assert same(*runs)
