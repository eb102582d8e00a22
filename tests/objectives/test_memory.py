from copy import deepcopy
from math import sqrt

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from esacl.errors import CheckpointError
from esacl.objectives.memory import Reservoir
from esacl.rng import derive, generator
from esacl.streams.inputs import ImageInputs
from tests.builders import context, stream
from tests.reference.reservoir import NaiveReservoir


def numbered(start: int, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Examples that tell which one they are: image, label and logits all say so."""
    y = torch.arange(start, start + count)
    raw = (y % 256).to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 8, 8).clone()
    return raw, y, y[:, None] + torch.arange(6) / 8


def offer(sizes: list[int], *memories: Reservoir | NaiveReservoir) -> None:
    start = 0
    for size in sizes:
        for memory in memories:
            memory.add(*numbered(start, size))
        start += size


def assert_equal(memory: Reservoir, naive: NaiveReservoir) -> None:
    x, y = memory.examples().x, memory.examples().y
    assert len(memory) == len(naive.kept) == len(y)
    assert memory.seen == naive.seen
    assert y.tolist() == [int(label) for _, label, _ in naive.kept]
    for row, (raw, _, logits) in enumerate(naive.kept):
        assert torch.equal(x[row], raw)
        assert torch.equal(memory.state_dict()["store"]["logits"][row], logits)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(1, 20), st.integers(0, 5))
def test_the_memory_holds_what_a_naive_sequential_reservoir_holds(sizes: list[int], capacity: int, seed: int) -> None:
    memory = Reservoir(capacity, context(seed=seed), keep_logits=True)
    naive = NaiveReservoir(capacity, generator(seed, "memory"))
    offer(sizes, memory, naive)
    assert_equal(memory, naive)


def test_of_two_examples_of_a_batch_that_hit_the_same_slot_the_later_stays() -> None:
    memory, naive = Reservoir(3, context(), keep_logits=True), NaiveReservoir(3, generator(0, "memory"))
    offer([30, 20, 50], memory, naive)
    assert naive.collisions > 3
    assert_equal(memory, naive)


def test_every_example_is_kept_with_the_same_probability() -> None:
    runs, examples, capacity = 400, 60, 12
    kept = torch.zeros(examples)
    for seed in range(runs):
        memory = Reservoir(capacity, context(seed=seed), keep_logits=True)
        offer([7, 5, 20, 1, 27], memory)
        kept[memory.examples().y] += 1
    share = capacity / examples
    spread = sqrt(runs * share * (1 - share))
    assert kept.sum() == runs * capacity
    assert (kept - runs * share).abs().max() < 5 * spread
    statistic = ((kept - runs * share) ** 2 / (runs * share * (1 - share))).sum().item()
    assert examples - 6 * sqrt(2 * examples) < statistic < examples + 6 * sqrt(2 * examples)


def test_a_memory_that_is_not_full_holds_everything_in_order() -> None:
    memory = Reservoir(10, context())
    memory.add(*numbered(0, 4)[:2])
    assert len(memory) == 4
    assert memory.examples().y.tolist() == [0, 1, 2, 3]
    assert memory.examples().x[:, 0, 0, 0].tolist() == [0, 1, 2, 3]


def test_a_memory_without_logits_stores_none() -> None:
    memory = Reservoir(4, context())
    memory.add(*numbered(0, 4))
    assert set(memory.state_dict()["store"]) == {"x", "y"}
    assert memory.draw(2).logits is None


def test_to_plan_and_then_to_store_is_to_add() -> None:
    one, other = (Reservoir(7, context(), keep_logits=True) for _ in range(2))
    for start in (0, 5, 10, 15):
        raw, y, logits = numbered(start, 5)
        one.add(raw, y, logits)
        plan = other.plan(5)
        assert len(plan.rows) == len(plan.places) == len(set(plan.places.tolist()))
        other.store(plan, raw, y, logits[plan.rows])
    assert one.seen == other.seen == 20
    assert torch.equal(one.examples().y, other.examples().y)
    assert torch.equal(one.state_dict()["store"]["logits"], other.state_dict()["store"]["logits"])
    assert one.examples().y.tolist() != list(range(7)), "something was displaced"


def test_what_is_stored_does_not_change_when_the_batch_does() -> None:
    memory = Reservoir(4, context(), keep_logits=True)
    raw, y, logits = numbered(0, 4)
    memory.add(raw, y, logits)
    raw.zero_()
    logits.zero_()
    assert memory.examples().x[:, 0, 0, 0].tolist() == [0, 1, 2, 3]
    assert memory.state_dict()["store"]["logits"][3, 0] == 3


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 20))
@settings(max_examples=40)
def test_a_draw_has_no_repetition_and_is_everything_where_there_is_less_than_asked(
    offered: int, capacity: int, count: int
) -> None:
    memory = Reservoir(capacity, context(), keep_logits=True)
    offer([offered], memory)
    held = memory.examples().y.tolist()
    drawn = memory.draw(count)
    assert len(drawn.y) == len(set(drawn.y.tolist())) == min(count, offered, capacity)
    assert set(drawn.y.tolist()) <= set(held)
    assert drawn.logits is not None
    assert drawn.logits[:, 0].tolist() == drawn.y.tolist()
    assert torch.equal(drawn.x, context().inputs.plain(numbered(0, 20)[0][drawn.y]))


def test_every_stored_example_is_drawn_as_often_as_any_other() -> None:
    memory = Reservoir(10, context())
    memory.add(*numbered(0, 10)[:2])
    counts = torch.zeros(10)
    for _ in range(1000):
        counts[memory.draw(3).y] += 1
    assert counts.sum() == 3000
    assert (counts - 300).abs().max() < 5 * sqrt(1000 * 0.3 * 0.7)


def test_each_drawn_example_is_augmented_afresh_by_its_own_number() -> None:
    of = stream(augment=True)
    memory, naive = Reservoir(6, context(of)), NaiveReservoir(6, generator(0, "memory"))
    examples = of.tasks[0].train
    for m in (memory, naive):
        m.add(examples.x, examples.y)
    key, number = derive(0, "augment replay"), 0
    for count in (4, 6, 9):
        drawn = memory.draw(count)
        raw = torch.stack([x for x, _, _ in naive.draw(count)])
        expected = of.inputs.augmented(raw, key, torch.arange(number, number + len(raw)))
        assert torch.equal(drawn.x, expected)
        number += len(raw)
    assert memory.draws["replay"] == number == 16


def test_a_memory_that_was_used_otherwise_continues_from_a_saved_state_with_identical_draws() -> None:
    of = stream(augment=True)
    memory = Reservoir(9, context(of, classes=1000), keep_logits=True)
    offer([20, 5], memory)
    memory.draw(4)
    resumed = Reservoir(9, context(of, classes=1000), keep_logits=True)
    offer([3], resumed)
    resumed.draw(2)
    resumed.load_state_dict(deepcopy(memory.state_dict()))
    for _ in range(3):
        for m in (memory, resumed):
            m.add(*numbered(100, 15))
        mine, theirs = memory.draw(5), resumed.draw(5)
        assert torch.equal(mine.x, theirs.x)
        assert torch.equal(mine.y, theirs.y)
        assert mine.logits is not None
        assert theirs.logits is not None
        assert torch.equal(mine.logits, theirs.logits)
    assert (memory.seen, memory.draws) == (resumed.seen, resumed.draws) == (70, {"replay": 19, "watch": 0})


def test_the_state_of_an_empty_memory_can_be_restored() -> None:
    resumed = Reservoir(3, context())
    resumed.add(*numbered(0, 5)[:2])
    resumed.load_state_dict(deepcopy(Reservoir(3, context()).state_dict()))
    assert len(resumed) == 0
    fresh = Reservoir(3, context())
    for m in (resumed, fresh):
        m.add(*numbered(0, 9)[:2])
    assert torch.equal(resumed.examples().y, fresh.examples().y)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_examples_are_stored_as_they_came(dtype: torch.dtype) -> None:
    memory = Reservoir(4, context())
    raw = torch.arange(4).to(dtype).view(4, 1, 1, 1)
    memory.add(raw, torch.arange(4))
    assert memory.examples().x.dtype == dtype
    assert torch.equal(memory.examples().x, raw)


@pytest.mark.parametrize("other", [torch.zeros(3, 1, 1, 1).half(), torch.zeros(3, 2, 2, dtype=torch.uint8)])
def test_a_restored_memory_of_other_images_is_refused(other: torch.Tensor) -> None:
    memory = Reservoir(3, context())
    memory.add(torch.zeros(3, 1, 1, 1, dtype=torch.uint8), torch.arange(3))
    state = memory.state_dict()
    memory.load_state_dict({**state, "store": {**state["store"], "x": other}})
    with pytest.raises(CheckpointError, match=r"holds x of torch\.(float16|uint8).*but the stream has torch\.uint8"):
        memory.add(torch.zeros(3, 1, 1, 1, dtype=torch.uint8), torch.arange(3))


def test_remembered_examples_are_drawn_in_so_many_augmented_copies():
    known = context(copies=3, inputs=ImageInputs((0.5,), (0.25,), padding=4, flip=True))
    memory = Reservoir(2, known)
    raw = torch.randint(0, 256, (2, 1, 8, 8), generator=generator(0, "raw")).to(torch.uint8)
    memory.add(raw, torch.tensor([0, 1]))
    seen: dict[int, set[bytes]] = {0: set(), 1: set()}
    for _ in range(40):
        drawn = memory.draw(2)
        for image, label in zip(drawn.x, drawn.y.tolist()):
            seen[label].add(image.numpy().tobytes())
    assert [len(copies) for copies in seen.values()] == [3, 3]
