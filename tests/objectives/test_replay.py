from copy import deepcopy
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from esacl.nets import Network
from esacl.objectives.derpp import Derpp, DerppOptions
from esacl.objectives.er import Er, ErOptions
from esacl.optim.gradient import call
from esacl.training.step import train_step
from esacl.types import Batch, Context, Outputs, Trace
from tests.builders import batch, context, network, parts, same, stream, weights
from tests.reference.replay import cross_entropy, derpp

STREAM = stream(augment=True)
RANKINGS = ("stale", "pass", "reuse")


def remember(part: Er, net: Network) -> None:
    """Fill the memory from the first task, with logits of the network as it is, and begin the second."""
    examples = batch(12, STREAM)
    with torch.no_grad():
        outputs = net(examples.x)
    part.after_step(net, Trace(examples, outputs, torch.zeros(12), torch.zeros(()), 12))
    part.begin_task(net, STREAM.tasks[1])


def known(batch_size: int = 5) -> Context:
    return context(STREAM, batch_size=batch_size)


def disturb(net: Network) -> None:
    with torch.no_grad():
        for value in net.stored.values():
            value.mul_(1.1)


def answer(net: Network, x: Tensor) -> Outputs:
    with torch.no_grad():
        return net(x)


def retention(part: Er, net: Network, examples: Batch) -> Tensor | None:
    """The retention term of a step, with what is drawn for it."""
    outputs, replay = call(net, examples, part.rehearse())
    return part.retain_loss(net, outputs, examples, replay)


@pytest.mark.parametrize("replay_batch", [None, 3, 50])
def test_er_retains_the_cross_entropy_of_a_drawn_batch(replay_batch: int | None) -> None:
    part, net = Er(ErOptions(8, replay_batch), known()), network()
    remember(part, net)
    memory = deepcopy(part.memory)
    examples = batch(6, STREAM, task=1)
    loss = retention(part, net, examples)
    drawn = memory.draw(replay_batch or 5)
    assert len(drawn.y) == min(replay_batch or 5, 8)
    assert loss is not None
    assert loss.item() == pytest.approx(cross_entropy(answer(net, drawn.x).logits, drawn.y), rel=1e-5)
    assert part.memory.draws == memory.draws


@pytest.mark.parametrize("one_batch", [False, True])
@pytest.mark.parametrize(("alpha", "beta"), [(0.1, 0.5), (2.0, 0.0), (0.0, 3.0)])
def test_derpp_retains_stored_logits_and_the_labels_of_another_or_the_same_batch(
    alpha: float, beta: float, one_batch: bool
) -> None:
    part, net = Derpp(DerppOptions(8, 4, alpha=alpha, beta=beta, one_batch=one_batch), known()), network()
    remember(part, net)
    disturb(net)
    memory = deepcopy(part.memory)
    loss = retention(part, net, batch(6, STREAM, task=1))
    dark = memory.draw(4)
    labelled = dark if one_batch else memory.draw(4)
    assert loss is not None
    assert dark.logits is not None
    now, then = answer(net, dark.x).logits, dark.logits
    expected = derpp(alpha, beta, (now, then), (answer(net, labelled.x).logits, labelled.y))
    assert expected > 0.01
    assert loss.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", [Er, Derpp])
def test_retention_has_a_gradient_and_its_calls_are_metered(kind: type[Er]) -> None:
    part, net = kind(kind.Options(8, 4), known()), network()
    remember(part, net)
    examples = batch(6, STREAM, task=1)
    before = net.meter.executed_macs["train"]
    loss = retention(part, net, examples)
    assert loss is not None
    replayed = 4 * (2 if kind is Derpp else 1)
    assert net.meter.executed_macs["train"] - before == 3 * (6 + replayed) * net.meter.dense
    loss.backward()
    assert all(p.grad is not None and p.grad.count_nonzero() for p in net.stored.values())


def test_derpp_stores_the_logits_of_before_the_step() -> None:
    net, composed = network(), parts("der++", {"objective": {"buffer": 20}})
    examples = batch(8)
    before = answer(net, examples.x).logits
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1)
    train_step(net, composed, optimizer, examples)
    stored = composed.objective.state_dict()["memory"]["store"]
    assert torch.equal(stored["logits"][:8], before)
    assert torch.equal(stored["x"][:8], examples.raw)
    assert torch.equal(stored["y"][:8], examples.y)
    assert not torch.allclose(answer(net, examples.x).logits, before)


@pytest.mark.parametrize("rho", [0.0, 1.0])
@pytest.mark.parametrize(
    "selection",
    [
        {"keep": 1.0},
        {"keep": 0.25},
        *({"keep": 0.25, "rule": "loss", "ranking": r} for r in ("stale", "pass", "reuse")),
    ],
    ids=["all", "random", "stale", "pass", "reuse"],
)
def test_derpp_stores_logits_at_the_weights_of_before_the_step_with_any_selection_and_any_ascent(
    selection: dict[str, Any], rho: float
) -> None:
    switched = {"gradient": {"rho": rho}, "selection": selection, "sparsity": {"polytope": False}}
    net, composed = network(), parts("esacl-der++", {**switched, "objective": {"buffer": 10}})
    composed.attach(net)
    composed.selection.begin_task(24)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.05)
    memory, dense = composed.objective.memory, net.meter.dense
    sparing = composed.selection.ranking == "none" and selection["keep"] < 1
    spared = 0
    for step in range(6):
        examples = batch(8, start=3 * step)
        before = deepcopy(net)(examples.x).logits.detach()
        plan, charged = deepcopy(memory).plan(8), net.meter.executed_macs.get("train", 0)
        chosen = composed.selection.update_set(examples, None) if sparing else None
        trace = train_step(net, composed, optimizer, examples)
        stored = memory.state_dict()["store"]
        torch.testing.assert_close(stored["logits"][plan.places], before[plan.rows])
        assert torch.equal(stored["x"][plan.places], examples.raw[plan.rows])
        assert torch.equal(stored["y"][plan.places], examples.y[plan.rows])
        assert memory.seen == 8 * (step + 1)
        assert not torch.allclose(deepcopy(net)(examples.x).logits, before, atol=1e-3), "the step moved them"
        if chosen is not None:
            seen = {*chosen.tolist(), *plan.rows.tolist()}
            assert trace.rows is not None
            assert set(trace.rows.tolist()) == seen
            calls = 3 * len(chosen) + (len(seen) - len(chosen)) + (3 * len(chosen) if rho else 0)
            assert net.meter.executed_macs["train"] - charged == calls * dense
            spared += 8 - len(seen)
    assert (spared > 0) == sparing


@pytest.mark.parametrize("kind", [Er, Derpp])
def test_only_logits_that_will_be_stored_are_wanted_and_asking_decides_what_is_stored(kind: type[Er]) -> None:
    part, twin = (kind(kind.Options(6), known()) for _ in range(2))
    net = network()
    remember(part, net)
    remember(twin, net)
    examples = batch(8, STREAM, task=1)
    trace = Trace(examples, answer(net, examples.x), torch.zeros(8), torch.zeros(()), 8)
    wanted = part.rows_to_store(examples)
    part.after_step(net, trace)
    twin.after_step(net, trace)
    assert part.memory.seen == twin.memory.seen == 20
    assert torch.equal(part.memory.examples().x, twin.memory.examples().x)
    later = deepcopy(part), deepcopy(twin)
    for each in later:
        each.after_step(net, trace)  # nobody asked before this step: it is decided anew
    assert later[0].memory.seen == later[1].memory.seen == 28
    assert torch.equal(later[0].memory.examples().x, later[1].memory.examples().x)
    if kind is Er:
        assert wanted is None
        return
    assert wanted is not None
    assert 0 < len(wanted) < 8
    held = part.memory.examples().x
    assert [bool((held == raw).flatten(1).all(1).any()) for raw in examples.raw] == [
        row in wanted.tolist() for row in range(8)
    ]


@pytest.mark.parametrize("kind", [Er, Derpp])
def test_what_is_rehearsed_is_drawn_anew_each_time_and_nothing_in_the_first_task(kind: type[Er]) -> None:
    part, net = kind(kind.Options(12, 4), known()), network()
    assert part.rehearse() is None
    remember(part, net)
    first, other = part.rehearse(), part.rehearse()
    assert first is not None
    assert other is not None
    assert not torch.equal(first.x, other.x)


@pytest.mark.parametrize("how", ["joint", "apart"])
@pytest.mark.parametrize("kind", [Er, Derpp])
def test_batch_and_replay_are_normalised_as_one_batch_or_as_two(kind: type[Er], how: Literal["joint", "apart"]) -> None:
    part, net, twin = kind(kind.Options(8, 4, how), known()), network("cnn", 4), network("cnn", 4)
    remember(part, network())
    examples, replay = batch(6, STREAM, task=1), deepcopy(part).rehearse()
    assert replay is not None
    outputs, answered = call(net, examples, part.rehearse())
    assert answered is not None
    assert answered.outputs is not None
    groups = [torch.cat([examples.x, replay.x])] if how == "joint" else [examples.x, replay.x]
    expected = torch.cat([twin(x).logits for x in groups])
    assert torch.equal(torch.cat([outputs.logits, answered.outputs.logits]), expected)
    assert same(weights(net), weights(twin)), "the same statistics"
    assert net.meter.largest_step == twin.meter.largest_step


@pytest.mark.parametrize("method", ["er", "der++"])
def test_the_whole_batch_is_offered_to_the_memory_whatever_the_step_trained_on(method: str) -> None:
    part = parts(method).objective
    assert isinstance(part, Er)
    examples = batch(8)
    outputs = Outputs(torch.zeros(8, 1), torch.zeros(8, 6))
    part.after_step(network(), Trace(examples, outputs, torch.zeros(8), torch.zeros(()), updated=2))
    assert part.memory.seen == 8


@pytest.mark.parametrize("kind", [Er, Derpp])
def test_remembered_examples_are_handed_out_from_the_second_task_on(kind: type[Er]) -> None:
    part, net = kind(kind.Options(8), known()), network()
    assert part.memory_batch(3) is None
    remember(part, net)
    memory = deepcopy(part.memory)
    given, drawn = part.memory_batch(3), memory.draw(3, "watch")
    assert given is not None
    assert torch.equal(given[0], drawn.x)
    assert torch.equal(given[1], drawn.y)


@pytest.mark.parametrize("kind", [Er, Derpp])
def test_an_objective_continues_from_a_saved_state_with_identical_losses(kind: type[Er]) -> None:
    part, net = kind(kind.Options(8), known()), network()
    remember(part, net)
    resumed = kind(kind.Options(8), known())
    resumed.load_state_dict(deepcopy(part.state_dict()))
    assert resumed.task == 1
    examples = batch(6, STREAM, task=1)
    for _ in range(3):
        mine, theirs = (retention(each, net, examples) for each in (part, resumed))
        assert mine is not None
        assert theirs is not None
        assert torch.equal(mine, theirs)
