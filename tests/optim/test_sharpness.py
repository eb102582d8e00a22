from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
from pytorch_optimizer import SAM
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from esacl.nets import Network
from esacl.objectives.base import Objective
from esacl.objectives.derpp import Derpp, DerppOptions
from esacl.objectives.er import Er, ErOptions
from esacl.objectives.memory import Replay
from esacl.optim.gradient import GradientRule
from esacl.optim.sharpness import SharpnessAware, SharpnessOptions
from esacl.options import NoOptions
from esacl.selection.base import DataSelector
from esacl.types import Batch, Outputs, Trace
from tests.builders import batch, context, network, outputs_of, same, stream, weights
from tests.reference.sharpness import LookSam, sam

STREAM = stream(augment=True)
BOTH = torch.arange(8)
SETS = [(None, None), ([0, 3, 6], None), (None, [1, 2, 5, 7]), ([0, 3, 6], [1, 2, 5, 7])]


class Given(DataSelector):
    """Rows that were given."""

    def __init__(self, support: list[int] | None = None, update: list[int] | None = None, ranking: str = "none"):
        super().__init__(NoOptions(), context())
        self.sets = [None if rows is None else torch.tensor(rows) for rows in (support, update)]
        self.wishes = ranking

    @property
    def ranking(self) -> str:
        return self.wishes

    def support_set(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        assert fit is not None or self.wishes == "none"
        return self.sets[0]

    def update_set(self, batch: Batch, fit: Tensor | None) -> Tensor | None:
        assert fit is not None or self.wishes == "none"
        return self.sets[1]


class Noting(Er):
    """Experience replay that writes down what it replays."""

    def __init__(self, options: Any, known: Any) -> None:
        super().__init__(options, known)
        self.replayed: list[Tensor] = []

    def draw(self) -> Replay:
        replay = super().draw()
        self.replayed.append(replay.x)
        return replay


def rule(rho: float = 0.1, **options: Any) -> SharpnessAware:
    return SharpnessAware(SharpnessOptions(rho, **options), context())


def plain() -> GradientRule:
    return GradientRule(NoOptions(), context())


def nothing() -> Objective:
    return Objective(NoOptions(), context())


def replaying(kind: type[Er] = Er) -> Er:
    """An objective in its second task, whose memory is full."""
    options = DerppOptions(8, 4) if kind is Derpp else ErOptions(8, 4)
    part = kind(options, context(STREAM))
    examples = batch(12, STREAM)
    logits = torch.arange(72).view(12, 6) / 20
    part.after_step(network(), Trace(examples, outputs_of(logits), torch.zeros(12), torch.zeros(()), 12))
    part.begin_task(network(), STREAM.tasks[1])
    return part


def fit_of(net: Network, examples: Batch, rows: list[int] | None = None) -> Callable[[nn.Module], Tensor]:
    part = examples if rows is None else examples.take(torch.tensor(rows))
    return lambda model: cross_entropy(model(part.x.contiguous(memory_format=net.layout)).logits, part.y)


def flat(net: Network) -> Tensor:
    gradients = net.gradients()
    return torch.cat([gradients[name].flatten() for name in net.stored])


def assert_near(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("support", "update"), SETS)
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_the_gradient_is_that_of_a_copy_moved_up_the_support_sets_loss(
    backbone: str, support: list[int] | None, update: list[int] | None
) -> None:
    net, examples = network(backbone, 8), batch()
    ascended, descended = fit_of(net, examples, support), fit_of(net, examples, update)
    expected = sam(deepcopy(net.model), ascended, descended, 0.3)
    rule(0.3).fill(net, nothing(), examples, Given(support, update))
    assert_near(flat(net), expected)
    net.backward(descended(net.model))
    assert (flat(net) - expected).norm() > 0.01 * expected.norm(), "not the plain gradient"


@pytest.mark.parametrize(("support", "update"), SETS)
@pytest.mark.parametrize("ascent", ["fit", "total"])
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_with_retention_the_ascent_is_of_the_fit_or_of_the_total_and_the_descent_of_the_total(
    backbone: str, ascent: str, support: list[int] | None, update: list[int] | None
) -> None:
    net, examples, part = network(backbone, 8), batch(8, STREAM, task=1), replaying()
    replay = deepcopy(part.memory).draw(4)
    fits = fit_of(net, examples, support), fit_of(net, examples, update)

    def retained(model: nn.Module) -> Tensor:
        return cross_entropy(model(replay.x.contiguous(memory_format=net.layout)).logits, replay.y)

    def ascended(model: nn.Module) -> Tensor:
        return fits[0](model) + retained(model) if ascent == "total" else fits[0](model)

    expected = sam(deepcopy(net.model), ascended, lambda model: fits[1](model) + retained(model), 0.3)
    trace = rule(0.3, ascent=ascent).fill(net, part, examples, Given(support, update))
    assert_near(flat(net), expected)
    assert trace.updated == len(update or range(8))


@pytest.mark.parametrize("ranking", ["pass", "reuse"])
def test_fresh_losses_do_not_change_the_gradient_of_the_same_rows(ranking: str) -> None:
    net, twin, examples = network(), network(), batch()
    rule().fill(net, nothing(), examples, Given([0, 3, 6], [1, 2], ranking))
    rule().fill(twin, nothing(), examples, Given([0, 3, 6], [1, 2]))
    assert_near(flat(net), flat(twin))


def test_between_ascents_the_orthogonal_direction_is_used_again_as_in_the_twin() -> None:
    net, part = network(), replaying()
    mine, twin = rule(0.2, every=3, reuse=0.7), LookSam(0.2, 3, 0.7)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.05)
    renewed = []
    for step in range(8):
        examples, replay = batch(8, STREAM, task=1, start=step), deepcopy(part.memory).draw(4)

        def total(rows: list[int], of: Batch = examples, old: Replay = replay) -> Callable[[nn.Module], Tensor]:
            fit = fit_of(net, of, rows)
            return lambda model: fit(model) + cross_entropy(model(old.x).logits, old.y)

        expected = twin.gradient(deepcopy(net.model), total([0, 3, 6]), total([1, 2, 5, 7]))
        before = mine.second
        mine.fill(net, part, examples, Given([0, 3, 6], [1, 2, 5, 7]))
        assert_near(flat(net), expected)
        renewed.append(mine.second is not before)
        optimizer.step()
    assert renewed == [True, False, False, True, False, False, True, False]


def test_a_direction_does_not_outlive_its_task() -> None:
    net, mine, fresh = network(), rule(every=3), rule(every=3)
    mine.fill(net, nothing(), batch(), Given())
    assert mine.second
    mine.begin_task()
    assert mine.state_dict() == fresh.state_dict()
    mine.fill(net, nothing(), batch(task=1), Given())
    found = flat(net).clone()
    fresh.fill(net, nothing(), batch(task=1), Given())
    assert torch.equal(found, flat(net))


def test_a_rule_continues_from_a_saved_state_with_identical_gradients() -> None:
    net, mine, resumed = network(), rule(every=3), rule(every=3)
    for step in range(2):
        mine.fill(net, nothing(), batch(start=step), Given())
    resumed.fill(network(seed=1), nothing(), batch(start=5), Given())
    resumed.load_state_dict(deepcopy(mine.state_dict()))
    for step in range(2, 5):
        found = []
        for each in (mine, resumed):
            each.fill(net, nothing(), batch(start=step), Given())
            found.append(flat(net))
        assert torch.equal(*found)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_the_weights_are_the_same_bits_on_return(backbone: str, every: int) -> None:
    net, mine = network(backbone, 8), rule(5.0, every=every)
    before = {name: value.detach().clone() for name, value in net.stored.items()}
    for step in range(3):
        mine.fill(net, nothing(), batch(start=step), Given())
        assert same({name: value.detach() for name, value in net.stored.items()}, before)


def test_the_weights_are_the_same_bits_also_when_the_second_pass_fails() -> None:
    class Fails(Objective):
        def retain_loss(self, net: Network, outputs: Outputs, batch: Batch) -> Tensor:
            moved = not same({name: value.detach() for name, value in net.stored.items()}, before)
            raise ArithmeticError("at the worst point" if moved else "here")

    net = network("cnn", 8)
    before = {name: value.detach().clone() for name, value in net.stored.items()}
    with pytest.raises(ArithmeticError, match="at the worst point"):
        rule().fill(net, Fails(NoOptions(), context()), batch(), Given())
    assert same({name: value.detach() for name, value in net.stored.items()}, before)
    statistics = weights(net)
    net(batch().x)
    assert not same(weights(net), statistics), "BatchNorm goes on taking statistics"


@pytest.mark.parametrize(("ascent", "retains"), [("fit", False), ("total", False), ("total", True)])
def test_batch_statistics_see_a_single_pass_at_the_weights_and_none_at_the_worst_point(
    ascent: str, retains: bool
) -> None:
    examples = batch(8, STREAM, task=1)
    after = []
    for each in (rule(1.0, ascent=ascent), plain()):
        net = network("cnn", 8)
        each.fill(net, replaying() if retains else nothing(), examples, Given())
        after.append(weights(net))
    assert same(*after)
    counts = [int(value) for name, value in after[0].items() if name.endswith("num_batches_tracked")]
    assert counts == [2 if retains else 1] * 3


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("kind", [Er, Derpp])
def test_without_a_length_it_is_the_plain_rule_bit_for_bit(kind: type[Er], every: int) -> None:
    seen = []
    for each in (rule(0.0, ascent="total", every=every), plain()):
        net, part = network("cnn", 8), replaying(kind)
        traces = [each.fill(net, part, batch(8, STREAM, 1, step), Given([1, 2], [0, 3, 6])) for step in range(3)]
        values = [(*trace.outputs, trace.fit, trace.loss, trace.rows, flat(net)) for trace in traces]
        seen.append((values, weights(net), net.meter.state_dict(), part.memory.mark()["generator"]))
    mine, theirs = seen
    for ours, others in zip(mine[0], theirs[0]):
        assert all(torch.equal(one, other) for one, other in zip(ours, others))  # type: ignore[arg-type]
    assert same(mine[1], theirs[1])
    assert mine[2] == theirs[2]
    assert torch.equal(mine[3], theirs[3])


def test_the_total_is_of_the_same_replayed_examples_at_both_points() -> None:
    part = replaying(Noting)
    assert isinstance(part, Noting)
    for step in range(3):
        rule(ascent="total").fill(network(), part, batch(8, STREAM, 1, step), Given())
    first, again, second, second_again, *_ = part.replayed
    assert len(part.replayed) == 6
    assert torch.equal(first, again)
    assert torch.equal(second, second_again)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("ascent", ["fit", "total"])
@pytest.mark.parametrize("kind", [Er, Derpp])
def test_the_memory_stands_afterwards_where_a_single_retention_leaves_it(kind: type[Er], ascent: str) -> None:
    part, twin, net = replaying(kind), replaying(kind), network()
    examples = batch(8, STREAM, task=1)
    rule(ascent=ascent).fill(net, part, examples, Given())
    twin.retain_loss(net, net(examples.x), examples)
    assert part.memory.draws == twin.memory.draws
    assert torch.equal(part.mark()["generator"], twin.mark()["generator"])
    assert torch.equal(part.memory.draw(4).x, twin.memory.draw(4).x)


@pytest.mark.parametrize("ranking", ["none", "pass", "reuse"])
@pytest.mark.parametrize("support", [None, [2, 4, 7]])
def test_the_trace_is_what_was_seen_at_the_weights_and_its_loss_that_of_the_worst_point(
    support: list[int] | None, ranking: str
) -> None:
    net, examples = network(), batch()
    trace = rule(2.0).fill(net, nothing(), examples, Given(support, [0, 1], ranking))
    rows = torch.tensor(support) if support is not None and ranking == "none" else BOTH
    outputs = net(examples.x)
    torch.testing.assert_close(trace.logits(rows), outputs.logits[rows].detach())
    losses = cross_entropy(outputs.logits, examples.y, reduction="none").detach()
    torch.testing.assert_close(trace.fit, losses[rows])
    assert len(trace.fit) == len(trace.outputs.logits) == len(rows)
    assert trace.batch is examples
    assert trace.updated == 2
    assert abs(trace.loss.item() - losses[:2].mean().item()) > 0.1, "the loss that was minimised is another one"
    for value in (*trace.outputs, trace.fit, trace.loss):
        assert not value.requires_grad


def test_a_gradient_of_zero_has_no_direction_and_moves_nothing() -> None:
    class Flat(Objective):
        def example_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
            return 0 * outputs.logits.sum(1) + 1

    net = network()
    trace = rule(0.5, every=2).fill(net, Flat(NoOptions(), context()), batch(), Given())
    assert trace.loss.item() == 1
    assert flat(net).count_nonzero() == 0


def test_a_16_bit_gradient_that_overflows_costs_a_step_and_nothing_else() -> None:
    net, mine, examples = network(precision="16"), rule(0.1, every=2), batch()
    net.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1)
    before = weights(net)
    losses = []
    for step in range(2):
        losses.append(mine.fill(net, nothing(), examples, Given()).loss)
        assert not flat(net).isfinite().all()
        net.unscale(optimizer)
        net.step(optimizer)
        assert same(weights(net), before), step
    assert torch.stack(losses).isfinite().all()
    assert all(value.isfinite().all() for value in mine.second.values())


@pytest.mark.parametrize("rho", [0.05, 0.5])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_its_steps_are_those_of_an_independent_implementation(momentum: float, rho: float) -> None:
    net, model = network(), deepcopy(network().model)
    mine = rule(rho)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1, momentum=momentum)
    theirs = SAM(model.parameters(), torch.optim.SGD, rho=rho, lr=0.1, momentum=momentum)
    for step in range(10):
        examples = batch(start=step)
        mine.fill(net, nothing(), examples, Given())
        optimizer.step()
        cross_entropy(model(examples.x).logits, examples.y).backward()
        theirs.first_step(zero_grad=True)
        cross_entropy(model(examples.x).logits, examples.y).backward()
        theirs.second_step(zero_grad=True)
    for name, value in model.named_parameters():
        torch.testing.assert_close(net.stored[name], value, rtol=1e-4, atol=1e-5, msg=name)
    started = network()
    assert all((net.stored[name] - value).norm() > 0.01 for name, value in started.stored.items())
