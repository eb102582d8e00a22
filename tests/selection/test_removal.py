from copy import deepcopy
from math import inf, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor

from esacl.config import NetConfig, TrainConfig
from esacl.errors import ConfigError
from esacl.methods import resolve
from esacl.rng import generator
from esacl.selection.base import KeepAll
from esacl.selection.removal import LossRemoval, Removal, RemovalOptions
from esacl.training.events import EpochDone
from esacl.types import Batch, Outputs, Trace
from tests.builders import config, context, finish, outputs_of, same, stream, trainer, weights
from tests.reference.sparcl import Answers, removed_by

N = 40


def selector(removed: float = 0.3, epochs: int = 10, tasks: int = 1, **known: Any) -> Removal:
    """In its last task of so many, of N examples."""
    part = Removal(RemovalOptions(removed), context(epochs=epochs, **known))
    for _ in range(tasks):
        part.begin_task(N)
    return part


def of(index: Tensor, task: int = 0) -> Batch:
    """Examples of class 0 (those of even number) and 1 that only tell which ones they are."""
    nothing = torch.zeros(len(index), 1, 1, 1)
    return Batch((nothing,), nothing, index % 2, torch.full_like(index, task), index)


def answered(examples: Batch, right: Tensor) -> Trace:
    """A step in which these were answered right."""
    given = torch.where(right, examples.y, 1 - examples.y)
    logits = torch.nn.functional.one_hot(given, 6).float()
    return Trace(examples, outputs_of(logits), torch.zeros(len(right)), torch.zeros(()), len(right))


def present(part: Removal, subset: Tensor | None, epoch: int, chance: Tensor, task: int = 0) -> dict[int, bool]:
    """One epoch in batches of eight; each example is answered right with its own chance."""
    pool = torch.arange(N) if subset is None else subset
    draw = generator(epoch, "answers")
    order = pool[torch.randperm(len(pool), generator=draw)]
    right = torch.rand(N, generator=draw) < chance
    for rows in order.split(8):
        part.observe(answered(of(rows, task), right[rows]))
    return {int(example): bool(right[example]) for example in order}


@pytest.mark.parametrize("epochs", [5, 10, 20, 50])
def test_what_is_removed_was_forgotten_least_often_as_the_naive_twin_counts(epochs: int) -> None:
    part, twin = selector(0.5, epochs), Answers()
    chance = torch.rand(N, generator=generator(1, "chance"))
    kept = set(range(N))
    for epoch in range(epochs):
        subset = part.epoch_subset(N, epoch)
        left = kept if subset is None else set(subset.tolist())
        if left != kept:
            gone = kept - left
            scores = {example: twin.score(example) for example in kept}
            assert left < kept
            assert sorted(scores[example] for example in gone) == sorted(scores.values())[: len(gone)]
            twin.removed()
            kept = left
        assert len(kept) == N - removed_by(epoch, epochs, N, 0.5)
        twin.see(present(part, subset, epoch, chance))
    assert len(kept) == N / 2


def test_fifty_epochs_remove_as_the_published_script_does() -> None:
    part, sizes = selector(0.3, 50), []
    for epoch in range(50):
        subset = part.epoch_subset(N, epoch)
        sizes.append(N if subset is None else len(subset))
        present(part, subset, epoch, torch.full((N,), 0.5))
    assert sizes == [40] * 5 + [37] * 5 + [34] * 5 + [31] * 5 + [28] * 30


@pytest.mark.parametrize(("epochs", "sizes"), [(1, [40]), (2, [40, 28]), (3, [40, 31, 28]), (5, [40, 34, 28, 28, 28])])
def test_short_tasks_remove_what_is_due_once_every_example_was_seen(epochs: int, sizes: list[int]) -> None:
    part, found = selector(0.3, epochs), []
    for epoch in range(epochs):
        subset = part.epoch_subset(N, epoch)
        found.append(N if subset is None else len(subset))
        present(part, subset, epoch, torch.ones(N))
    assert found == sizes


def test_what_was_never_learnt_stays_and_what_was_forgotten_since_the_last_removal_stays_longer() -> None:
    part = selector(0.4, 10)
    numbers = torch.arange(N)
    part.observe(answered(of(numbers), numbers < 20))
    first = part.epoch_subset(N, 1)
    assert first is not None
    assert set(first.tolist()) >= set(range(20, N)), "never right"
    assert len(first) == 36
    part.observe(answered(of(first), (first < 20) & (first % 2 == 0)))
    second = part.epoch_subset(N, 2)
    assert second is not None
    assert set(second.tolist()) >= {example for example in first.tolist() if example % 2 or example >= 20}


def test_among_equals_chance_decides_and_not_their_order() -> None:
    gone = torch.zeros(N)
    for seed in range(200):
        part = selector(0.25, 1, seed=seed)
        present(part, None, 0, torch.ones(N))
        subset = part.epoch_subset(N, 1)
        assert subset is not None
        gone += 1
        gone[subset] -= 1
    assert gone.sum() == 200 * 10
    assert (gone - 50).abs().max() < 5 * sqrt(200 * 0.25 * 0.75)


def test_an_epoch_counts_once_however_often_it_is_asked_for_and_a_new_task_starts_afresh() -> None:
    part = selector()
    present(part, None, 0, torch.ones(N))
    first = part.epoch_subset(N, 1)
    again = part.epoch_subset(N, 1)
    assert first is not None
    assert again is not None
    assert torch.equal(first, again)
    part.begin_task(7)
    assert part.epoch_subset(7, 0) is None
    assert part.lapses.tolist() == [0] * 7


def test_what_is_remembered_of_earlier_tasks_is_never_removed() -> None:
    part = selector(0.5, 10, tasks=3)
    old, new = torch.arange(30, N), torch.arange(30)
    for epoch in range(10):
        part.epoch_subset(N, epoch)
        part.observe(answered(of(new, 2), torch.ones(30, dtype=torch.bool)))
        part.observe(answered(of(old, 1), torch.ones(10, dtype=torch.bool)))
    subset = part.epoch_subset(N, 9)
    assert subset is not None
    assert set(subset.tolist()) >= set(old.tolist())
    assert len(subset) == N - 15


def test_of_several_views_the_first_counts_and_of_some_rows_those_that_were_seen() -> None:
    part, examples = selector(), of(torch.tensor([4, 9, 2]))
    right = torch.nn.functional.one_hot(examples.y, 6).float()
    both = Trace(examples, outputs_of(torch.cat([right, -right])), torch.zeros(3), torch.zeros(()), 3)
    part.observe(both)
    assert part.right.nonzero().squeeze(1).tolist() == [2, 4, 9]
    rows = torch.tensor([2, 0])
    some = Trace(examples, Outputs(right[rows], -right[rows]), torch.zeros(2), torch.zeros(()), 2, rows)
    part.observe(some)
    assert part.right.nonzero().squeeze(1).tolist() == [9]
    assert part.lapses[[2, 4, 9]].tolist() == [1, 1, 0]


def test_with_ace_only_the_columns_of_the_batch_compete() -> None:
    examples = of(torch.tensor([0, 1]))
    logits = torch.tensor([[1.0, 0, 5, 0, 0, 0], [0.0, 1, 5, 0, 0, 0]])
    seen = Trace(examples, outputs_of(logits), torch.zeros(2), torch.zeros(()), 2)
    for mask, right in (("ce", 0), ("ace", 2)):
        part = selector(fit_loss=mask)
        part.observe(seen)
        assert int(part.right.sum()) == right


def test_by_losses_the_smallest_of_all_epochs_since_the_last_removal_go() -> None:
    part = LossRemoval(RemovalOptions(0.4), context(epochs=10))
    part.begin_task(N)
    numbers = torch.arange(N)
    totals = torch.zeros(N)
    draw = generator(0, "losses")
    for epoch in range(1, 4):
        losses = torch.rand(N, generator=draw)
        examples = of(numbers)
        part.observe(Trace(examples, outputs_of(torch.zeros(N, 6)), losses, torch.zeros(()), N))
        totals = torch.where(part.kept, totals + losses, inf)
        before = part.kept.clone()
        part.epoch_subset(N, epoch)
        gone = (before & ~part.kept).nonzero().squeeze(1)
        assert set(gone.tolist()) == set(totals.argsort()[:4].tolist())
        totals.zero_()


def test_it_continues_from_a_saved_state_with_the_same_choices() -> None:
    part, resumed = selector(0.6, 10, tasks=2), selector(0.6, 10, tasks=5)
    chance = torch.full((N,), 0.7)
    present(resumed, None, 0, chance)
    for epoch in range(2):
        present(part, part.epoch_subset(N, epoch), epoch, chance, 1)
    state = deepcopy(part.state_dict())
    resumed.load_state_dict(state)
    for epoch in range(2, 6):
        subsets = [each.epoch_subset(N, epoch) for each in (part, resumed)]
        assert subsets[0] is not None
        assert subsets[1] is not None
        assert torch.equal(subsets[0], subsets[1])
        for each in (part, resumed):
            present(each, subsets[0], epoch, chance, 1)
    assert torch.equal(state["kept"], part.kept) is False, "the saved state is a copy"


def test_a_run_trains_on_ever_fewer_examples_of_each_task() -> None:
    training = trainer("sparcl-er", train=TrainConfig(epochs=10, batch_size=8))
    sizes = [event.samples for event in training.run() if isinstance(event, EpochDone)]
    assert sizes == [24 - removed_by(epoch, 10, 24, 0.3) for _ in range(3) for epoch in range(10)]


def test_removing_nothing_is_the_same_as_no_removal() -> None:
    options: list[dict[str, Any]] = [{"selection": {"removed": 0}}, {"sparsity": {"ddr": False}}]
    runs = [finish(trainer("sparcl-er", each)) for each in options]
    assert type(runs[1].parts.selection) is KeepAll
    assert same(weights(runs[0].net), weights(runs[1].net))
    assert runs[0].net.meter.state_dict() == runs[1].net.meter.state_dict()


def test_features_that_are_learnt_by_comparison_are_removed_by_their_losses() -> None:
    training = trainer("sparcl-co2l", {"objective": {"buffer": 12}}, stream(augment=True), net=NetConfig("cnn", 8))
    assert type(training.parts.selection) is LossRemoval
    sizes = [event.samples for event in training.run() if isinstance(event, EpochDone)]
    assert sizes == [24, 17, 36, 29, 36, 29], "what is removed is of the task, and not of the twelve remembered"


@pytest.mark.parametrize("kind", ["sparcl-er", "sparcl-der++"])
def test_the_memory_is_a_fair_sample_of_what_is_presented(kind: str) -> None:
    """Each task has the share of the memory that it has of all presentations, and removed examples are in it too."""
    kept, removed_ones, runs = torch.zeros(3), 0, 30
    for seed in range(runs):
        options = {"objective": {"buffer": 18}, "selection": {"removed": 0.5}, "sparsity": {"level": 0.2}}
        training = trainer(kind, options, seed=seed, train=TrainConfig(epochs=2, batch_size=12))
        finish(training)
        remembered = training.parts.objective.buffer_examples()
        assert remembered is not None
        kept += torch.bincount(remembered.y // 2, minlength=3)
        selection = training.parts.selection
        assert isinstance(selection, Removal)
        gone = training.stream.tasks[2].train.x[~selection.kept].flatten(1)
        removed_ones += sum(bool((gone == image.flatten()).all(1).any()) for image in remembered.x)
    assert kept.sum() == 18 * runs
    assert (kept - 6 * runs).abs().max() < 5 * sqrt(18 * runs / 3 * 2 / 3)
    share = 6 * 12 / 36  # twelve of the last task's 36 presentations were of examples that were removed later
    assert abs(removed_ones - share * runs) < 5 * sqrt(share * runs)


@pytest.mark.parametrize("value", [-0.1, 0.95, "some", True])
def test_a_share_that_leaves_too_little_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"selection\.removed = .* is not allowed\. Allowed: a number from 0 to 0\.9"):
        resolve(config("sparcl-er", {"selection": {"removed": value}}), stream())
