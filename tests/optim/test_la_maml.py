from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import BatchNorm2d

from esacl.nets import Network
from esacl.objectives.base import Objective
from esacl.objectives.er import Er, ErOptions
from esacl.optim.la_maml import LearnedRates, Lookahead, LookaheadOptions, RateOptions, clipped
from esacl.options import NoOptions
from esacl.selection.base import DataSelector, KeepAll
from esacl.types import Batch, Outputs, Params, Replay
from tests.builders import batch, context, network, same, stream, weights
from tests.reference.la_maml import meta_gradients, unroll

STREAM = stream(augment=True)


class Noting(Er):
    """Experience replay that writes down what it replays, and how many examples each fit loss is of."""

    def __init__(self, options: Any, known: Any) -> None:
        super().__init__(options, known)
        self.replayed: list[Tensor] = []
        self.sizes: list[int] = []

    def draw(self) -> Replay:
        replay = super().draw()
        self.replayed.append(replay.x)
        return replay

    def example_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
        self.sizes.append(len(batch))
        return super().example_loss(outputs, batch)


class Given(DataSelector):
    """An update set that was given."""

    def __init__(self, rows: list[int], ranking: str) -> None:
        super().__init__(NoOptions(), context())
        self.rows, self.wishes = torch.tensor(rows), ranking

    @property
    def ranking(self) -> str:
        return self.wishes

    def update_set(self, batch: Batch, fit: Tensor | None) -> Tensor:
        assert (fit is None) == (self.wishes == "none")
        return self.rows


def rule(**options: Any) -> Lookahead:
    return Lookahead(LookaheadOptions(**options), context())


def learner(backbone: str = "mlp") -> tuple[Network, LearnedRates]:
    """A small network and its rates: 0.1, but those of three units are different, one of them negative."""
    net, update = network(backbone, 8), LearnedRates(RateOptions(lr=0.1), context())
    update.attach(net)
    net.extra = {f"update.{name}": value for name, value in update.extra_parameters().items()}
    with torch.no_grad():
        for rate in update.learned.values():
            rate[0], rate[1], rate[2] = 0.5, -0.2, 0.02
    return net, update


def replaying(kind: type[Er] = Er) -> Er:
    """An objective in its second task, whose memory is full."""
    part = kind(ErOptions(8, 4), context(STREAM))
    part.memory.add(batch(12, STREAM).raw, batch(12, STREAM).y)
    part.begin_task(network(), STREAM.tasks[1])
    return part


def keep() -> KeepAll:
    return KeepAll(NoOptions(), context())


def masked(params: Params, task: int | None) -> Params:
    """Half of each weight matrix is never seen."""
    return {n: v * (torch.arange(v.numel()).view(v.shape) % 2) if v.ndim > 1 else v for n, v in params.items()}


def detached(values: Params) -> Params:
    return {name: value.detach().clone() for name, value in values.items()}


def pairs(examples: Batch, count: int) -> list[tuple[Tensor, Tensor]]:
    return list(zip(examples.x.tensor_split(count), examples.y.tensor_split(count)))


@pytest.mark.parametrize("view", [None, masked])
@pytest.mark.parametrize(("clip", "by"), [(1e6, "value"), (0.05, "value"), (0.5, "norm")])
@pytest.mark.parametrize("second_order", [False, True])
def test_the_gradients_are_those_of_the_unrolled_inner_steps(
    second_order: bool, clip: float, by: str, view: Any
) -> None:
    net, update = learner()
    net.view, examples, drawn = view, batch(8, STREAM, 1), replaying().draw()
    model, seen = deepcopy(net.model), view or (lambda params, task: params)

    def answer(fast: Params, x: Tensor) -> Tensor:
        return functional_call(model, seen(fast, None), (x,)).logits  # type: ignore[no-any-return]

    expected = meta_gradients(
        answer,
        detached(net.stored),
        detached(update.learned),
        pairs(examples, 4),
        [(examples.x, examples.y), (drawn.x, drawn.y)],
        clip,
        second_order,
        by,
    )
    rule(clip=clip, clip_by=by, second_order=second_order).compute_gradients(net, replaying(), examples, keep())
    for found, twins in zip((net.stored, update.learned), expected):
        for name, value in found.items():
            torch.testing.assert_close(value.grad, twins[name], rtol=1e-3, atol=1e-5, msg=name)
    stopped = [rate.grad[1] for rate in update.learned.values() if rate.grad is not None]
    assert len(stopped) == 6
    assert all((gradient == 0).all() for gradient in stopped), "relu lets nothing through to a negative rate"


def test_the_orders_and_the_clipping_of_the_inner_steps_make_a_difference() -> None:
    found = []
    forms = [{"clip": 0.05}, {"clip_by": "norm"}, {"clip": 0.5, "clip_by": "norm"}]
    for options in ({}, {"second_order": True}, *forms, {"slices": 2}):
        net, _ = learner()
        rule(**options).compute_gradients(net, replaying(), batch(8, STREAM, 1), keep())
        found.append(torch.cat([value.flatten() for value in net.gradients().values()]))
    assert all((one - found[0]).norm() > 0.01 * found[0].norm() for one in found[1:])


def test_the_sum_of_the_meta_losses_is_the_mean_times_the_inner_steps() -> None:
    traces, found = [], []
    for meta in ("mean", "sum"):
        net, _ = learner()
        traces.append(rule(meta=meta).compute_gradients(net, replaying(), batch(8, STREAM, 1), keep()))
        found.append({name: value.grad for name, value in {**net.stored, **net.extra}.items()})
    torch.testing.assert_close(4 * traces[0].loss, traces[1].loss)
    for name, gradient in found[0].items():
        torch.testing.assert_close(4 * gradient, found[1][name], msg=name)  # type: ignore[operator]


def test_inner_gradients_are_limited_entry_by_entry_as_in_the_authors_code() -> None:
    given = [torch.tensor([3.0, -0.5, -7.0]), torch.tensor([[0.0, 2.5]])]
    found = clipped(given, 2.0, LookaheadOptions().clip_by)
    assert [each.tolist() for each in found] == [[2.0, -0.5, -2.0], [[0.0, 2.0]]]
    short = clipped(given, 2.0, "norm")
    assert torch.cat([each.flatten() for each in short]).norm() == pytest.approx(2.0)


@pytest.mark.parametrize("second_order", [False, True])
def test_an_inner_gradient_of_zero_leaves_finite_gradients(second_order: bool) -> None:
    class Flat(Objective):
        def example_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
            return 0 * outputs.logits.sum(1) + 1

    net, update = learner()
    rule(second_order=second_order).compute_gradients(net, Flat(NoOptions(), context()), batch(), keep())
    for value in (*net.stored.values(), *update.learned.values()):
        assert value.grad is not None
        assert value.grad.isfinite().all()
        assert value.grad.count_nonzero() == 0


def test_looking_ahead_changes_neither_weights_nor_rates_nor_the_view() -> None:
    net, update = learner()
    before, rates = weights(net), detached(update.learned)
    net.view = masked
    rule().compute_gradients(net, replaying(), batch(8, STREAM, 1), keep())
    assert same(weights(net), before)
    assert same(detached(update.learned), rates)
    assert net.view is masked


def test_all_meta_losses_replay_the_same_examples_and_the_draws_stand_as_after_one() -> None:
    part, twin = replaying(Noting), replaying()
    assert isinstance(part, Noting)
    rule().compute_gradients(learner()[0], part, batch(8, STREAM, 1), keep())
    drawn = twin.draw()
    assert len(part.replayed) == 1
    assert torch.equal(part.replayed[0], drawn.x)
    assert torch.equal(part.draw().x, twin.draw().x)


@pytest.mark.parametrize(
    ("examples", "slices", "sizes"),
    [(8, 4, [2, 2, 2, 2]), (8, 3, [3, 3, 2]), (7, 4, [3, 2, 2]), (8, 100, [2] * 4), (3, 4, [3]), (1, 4, [1])],
)
def test_slices_share_the_batch_evenly_and_have_two_examples_at_least(
    examples: int, slices: int, sizes: list[int]
) -> None:
    part = replaying(Noting)
    assert isinstance(part, Noting)
    rule(slices=slices).compute_gradients(learner()[0], part, batch(examples, STREAM, 1), keep())
    assert part.sizes == sizes + [examples] * len(sizes)


@pytest.mark.parametrize("ranking", ["none", "pass", "reuse"])
def test_only_the_update_set_counts_and_the_trace_is_of_what_was_seen_at_the_weights(ranking: str) -> None:
    examples, rows = batch(8, STREAM, 1), [6, 1, 3, 0, 2]
    (net, _), (twin, _) = learner(), learner()
    trace = rule().compute_gradients(net, replaying(), examples, Given(rows, ranking))
    alone = rule().compute_gradients(twin, replaying(), examples.take(torch.tensor(rows)), keep())
    for name, gradient in twin.gradients().items():
        torch.testing.assert_close(net.gradients()[name], gradient, msg=name)
    torch.testing.assert_close(trace.loss, alone.loss)
    assert trace.updated == 5
    assert trace.batch is examples
    first = torch.tensor(rows[:3])
    torch.testing.assert_close(trace.logits(first), net(examples.x).logits[first].detach())
    seen = examples.y if trace.rows is None else examples.y[trace.rows]
    assert len(trace.fit) == len(trace.outputs.logits) == len(seen)
    assert trace.rows is None or trace.rows.tolist() == rows[:3]


@pytest.mark.parametrize("second_order", [False, True])
def test_batch_statistics_see_the_last_meta_loss_alone(second_order: bool) -> None:
    net, update = learner("cnn")
    examples, drawn, scratch, fresh = batch(8, STREAM, 1), replaying().draw(), deepcopy(net.model), deepcopy(net.model)
    for module in scratch.modules():
        if isinstance(module, BatchNorm2d):
            module.track_running_stats = False  # torch.func differentiates no function that changes statistics
    path = unroll(
        lambda fast, x: functional_call(scratch, fast, (x,)).logits,
        detached(net.stored),
        detached(update.learned),
        pairs(examples, 4),
        2.0,
        second_order,
    )
    functional_call(fresh, path[-1], (torch.cat([examples.x, drawn.x]),))
    rule(clip=2.0, second_order=second_order).compute_gradients(net, replaying(), examples, keep())
    for name, value in fresh.named_buffers():
        torch.testing.assert_close(net.model.state_dict()[name], value, rtol=1e-3, atol=1e-4, msg=name)
        assert name.endswith("tracked") is (value.ndim == 0)
        assert value.ndim or value.item() == 1


@pytest.mark.parametrize("second_order", [False, True])
def test_every_pass_is_charged_and_activations_are_held_until_the_meta_losses_are_differentiated(
    second_order: bool,
) -> None:
    net, _ = learner()
    rule(second_order=second_order).compute_gradients(net, replaying(), batch(8, STREAM, 1), keep())
    inner, meta = 8, 4 * (8 + 4)
    passes = 3 * (inner + meta) + (6 * inner if second_order else 0)
    assert net.meter.executed_macs == {"train": passes * net.meter.dense}
    assert net.meter.largest_step == meta + (inner if second_order else 0)
