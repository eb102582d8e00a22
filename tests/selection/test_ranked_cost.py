from copy import deepcopy
from math import sqrt

import pytest
import torch
from torch import nn

from esacl.objectives.base import Objective
from esacl.objectives.derpp import Derpp, DerppOptions
from esacl.objectives.er import Er, ErOptions
from esacl.optim.sharpness import SharpnessAware, SharpnessOptions
from esacl.options import NoOptions
from esacl.selection.ranked import Ranked, RankedOptions
from esacl.types import Batch
from tests.builders import batch, context, finish, network, same, stream, trainer, weights
from tests.reference.selection import hardest
from tests.selection.ranked_tools import gradient_rule, selector

B, K = 8, 4  # examples of a batch, and of the half of it that is kept


@pytest.mark.parametrize(
    ("rule", "ranking", "sets", "plain", "ascending"),
    [
        ("random", "stale", (True, True), 3 * K, 3 * K + 3 * K),
        ("loss", "stale", (True, True), 3 * K, 3 * K + 3 * K),
        ("loss", "pass", (True, True), B + 3 * K, B + 3 * K + 3 * K),
        ("loss", "reuse", (True, True), 3 * B, 3 * B + 3 * K),
        ("random", "stale", (True, False), 3 * B, 3 * K + 3 * B),
        ("loss", "stale", (True, False), 3 * B, 3 * K + 3 * B),
        ("loss", "reuse", (True, False), 3 * B, 3 * B + 3 * B),
        ("random", "stale", (False, True), 3 * K, 3 * B + 3 * K),
        ("loss", "stale", (False, True), 3 * K, 3 * B + 3 * K),
        ("loss", "reuse", (False, True), 3 * B, 3 * B + 3 * K),
        ("loss", "pass", (False, False), 3 * B, 3 * B + 3 * B),
        ("loss", "reuse", (False, False), 3 * B, 3 * B + 3 * B),
    ],
)
def test_a_step_costs_three_passes_of_what_it_learns_from_and_the_extra_pass_where_there_is_one(
    rule: str, ranking: str, sets: tuple[bool, bool], plain: int, ascending: int
) -> None:
    for ascends, expected in ((False, plain), (True, ascending)):
        net = network()
        part = selector(rule=rule, ranking=ranking, support=sets[0], redundant=sets[1])
        trace = gradient_rule(ascends).compute_gradients(net, Objective(NoOptions(), context()), batch(B), part)
        assert net.meter.executed_macs == {"train": expected * net.meter.dense}
        assert trace.updated == (K if sets[1] else B)


def test_between_ascents_a_step_costs_what_the_plain_rule_costs() -> None:
    net, part = network(), selector()
    rule = SharpnessAware(SharpnessOptions(0.1, every=3), context())
    costs = []
    for step in range(4):
        before = net.meter.executed_macs.get("train", 0)
        part.observe(rule.compute_gradients(net, Objective(NoOptions(), context()), batch(B, start=step), part))
        costs.append((net.meter.executed_macs["train"] - before) // net.meter.dense)
    assert costs == [6 * K, 3 * K, 3 * K, 6 * K]


@pytest.mark.parametrize("keep", [0.25, 0.5, 1.0])
def test_a_run_costs_three_passes_of_the_share_that_it_learns_from(keep: float) -> None:
    settings = {"selection": {"keep": keep}, "sparsity": {"polytope": False}}
    meter = finish(trainer("esacl", settings)).net.meter
    assert meter.executed_macs["train"] == keep * 3 * (3 * 2 * 24) * meter.dense


@pytest.mark.parametrize("ascends", [False, True])
def test_batch_statistics_see_the_rows_that_are_learnt_from_and_not_the_extra_pass(ascends: bool) -> None:
    net, twin, examples = network("cnn", 8), network("cnn", 8), batch()
    losses = Objective(NoOptions(), context()).fit_loss(deepcopy(net)(examples.x), examples)
    part = selector(rule="loss", ranking="pass")
    gradient_rule(ascends).compute_gradients(net, Objective(NoOptions(), context()), examples, part)
    twin(examples.x[hardest(losses.tolist(), 0.5)])
    assert same(weights(net), weights(twin))


@pytest.mark.parametrize("ranking", ["pass", "reuse"])
def test_with_fresh_losses_the_gradient_is_of_the_hardest_examples_of_the_batch_now(ranking: str) -> None:
    net, twin, examples = network(), network(), batch()
    objective = Objective(NoOptions(), context())
    trace = gradient_rule(False).compute_gradients(net, objective, examples, selector(rule="loss", ranking=ranking))
    losses = objective.fit_loss(twin(examples.x), examples)
    rows = torch.tensor(hardest(losses.tolist(), 0.5))
    twin.backward(losses[rows].mean())
    for name, gradient in twin.gradients().items():
        torch.testing.assert_close(net.gradients()[name], gradient, msg=name)
    torch.testing.assert_close(trace.fit, losses.detach())
    assert trace.rows is None


def test_logits_stored_but_not_learnt_from_have_the_scale_of_learnt_ones() -> None:
    net, examples = network("cnn", 8), batch(16)
    for norm in (module for module in net.model.modules() if isinstance(module, nn.BatchNorm2d)):
        norm.running_mean.add_(3)  # type: ignore[union-attr]  # statistics that lag behind, as they do in training
        norm.running_var.mul_(0.01)  # type: ignore[union-attr]
    part = selector(rule="random")
    statistics = weights(net)
    trace = gradient_rule(False).compute_gradients(net, Derpp(DerppOptions(100), context()), examples, part)
    assert trace.rows is not None
    learnt, stored = trace.rows[:8], trace.rows[8:]
    assert len(stored) == 8
    twin = network("cnn", 8)
    torch.testing.assert_close(trace.logits(learnt), twin(examples.x[learnt]).logits.detach())
    both = twin(torch.cat([examples.x[stored], examples.x[learnt]])).logits.detach()
    torch.testing.assert_close(trace.logits(stored), both[:8])
    assert 0.5 < trace.logits(stored).std() / trace.logits(learnt).std() < 2
    moved = [name for name, value in weights(net).items() if not torch.equal(value, statistics[name])]
    assert moved == [name for name in statistics if "running" in name or "tracked" in name]
    counts = [int(value) for name, value in weights(net).items() if name.endswith("num_batches_tracked")]
    assert counts == [1] * 3, "only the pass that is learnt from"


@pytest.mark.parametrize("ranking", ["pass", "stale"])
@pytest.mark.parametrize("kind", [Er, Derpp])
def test_the_memory_is_a_fair_sample_of_the_stream_whatever_is_selected(kind: type[Er], ranking: str) -> None:
    runs, examples, capacity = 300, 24, 6
    net, of, kept = network(), stream(tasks=1), torch.zeros(examples)
    numbers = torch.arange(examples)
    raw = of.tasks[0].train.x.clone()
    raw[:, 0, 0, 0] = numbers.to(torch.uint8)  # tells which example it is
    for seed in range(runs):
        known = context(of, seed=seed)
        objective = kind((DerppOptions if kind is Derpp else ErOptions)(capacity), known)
        part = Ranked(RankedOptions(0.25, "loss", ranking), known)
        part.begin_task(examples)
        part.losses = numbers.float()  # the same examples are the hardest in every run
        for rows in numbers.view(2, 12):
            y = of.tasks[0].train.y[rows]
            offered = Batch((of.inputs.plain(raw[rows]),), raw[rows], y, torch.zeros_like(y), rows)
            trace = gradient_rule(False).compute_gradients(net, objective, offered, part)
            assert trace.updated == 3
            objective.after_step(net, trace)
            part.observe(trace)
        kept[objective.memory.examples().x[:, 0, 0, 0].long()] += 1
    share = capacity / examples
    variance = runs * share * (1 - share)
    assert kept.sum() == runs * capacity
    assert (kept - runs * share).abs().max() < 5 * sqrt(variance)
    statistic = ((kept - runs * share) ** 2 / variance).sum().item()
    assert examples - 6 * sqrt(2 * examples) < statistic < examples + 6 * sqrt(2 * examples)
