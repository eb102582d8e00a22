from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from esacl.rng import derive
from esacl.streams.loading import Loader, cuts
from tests.builders import CPU, stream
from tests.reference.augment import crop_and_flip

STREAM = stream(augment=True)
TASK = STREAM.tasks[1]


def loader(batch_size: int = 5, seed: int = 0, stage: int = 1, views: int = 1) -> Loader:
    return Loader(STREAM, stage, TASK.train, batch_size, seed, CPU, views)


@given(st.integers(1, 200), st.integers(1, 50))
def test_an_epoch_is_cut_into_full_batches_and_never_ends_with_a_single_example(examples: int, size: int) -> None:
    places = [0, *cuts(examples, size), examples]
    sizes = [after - before for before, after in pairwise(places)]
    assert sum(sizes) == examples
    assert all(s == size for s in sizes[:-1])
    assert 1 <= sizes[-1] <= size + 1
    if examples > 1:
        assert sizes[-1] > 1 or (size == 1 and len(sizes) == 1)


def test_an_epoch_gives_every_example_once_with_its_image_label_and_task() -> None:
    batches = list(loader().epoch(0))
    index = torch.cat([b.index for b in batches])
    assert sorted(index.tolist()) == list(range(len(TASK.train)))
    assert len(batches) == loader().steps()
    for b in batches:
        assert torch.equal(b.raw, TASK.train.x[b.index])
        assert torch.equal(b.y, TASK.train.y[b.index])
        assert (b.task == 1).all()
        assert b.raw.dtype == torch.uint8


@pytest.mark.parametrize("size", [1, 2, 13, 24])
def test_a_subset_gives_its_examples_only(size: int) -> None:
    subset = torch.randperm(24, generator=torch.Generator().manual_seed(0))[:size]
    batches = list(loader().epoch(3, subset))
    assert sorted(torch.cat([b.index for b in batches]).tolist()) == sorted(subset.tolist())
    assert len(batches) == loader().steps(size)


def test_the_order_depends_on_seed_stage_and_epoch_and_on_nothing_else() -> None:
    def order(of: Loader, epoch: int) -> list[int]:
        return torch.cat([b.index for b in of.epoch(epoch)]).tolist()

    first = order(loader(), 0)
    again = loader()
    order(again, 5)
    torch.manual_seed(123)
    assert order(again, 0) == first
    assert order(loader(batch_size=7), 0) == first
    for other in (order(loader(), 1), order(loader(seed=1), 0), order(loader(stage=2), 0)):
        assert other != first


def test_an_example_is_augmented_the_same_whatever_batch_it_is_in() -> None:
    def images(of: Loader, epoch: int, subset: torch.Tensor | None = None) -> dict[int, torch.Tensor]:
        return {int(k): x for b in of.epoch(epoch, subset) for k, x in zip(b.index, b.x)}

    whole, other, part = images(loader(), 0), images(loader(7), 0), images(loader(), 0, torch.arange(9))
    assert all(torch.equal(whole[k], other[k]) for k in whole)
    assert all(torch.equal(whole[k], part[k]) for k in part)
    later = images(loader(), 1)
    assert sum(not torch.equal(whole[k], later[k]) for k in whole) > 12


def test_augmented_copies_return_in_turn_in_orders_of_their_own() -> None:
    def images(epoch: int) -> tuple[list[int], dict[int, torch.Tensor]]:
        batches = [*Loader(STREAM, 1, STREAM.stages[1].train, 8, 0, torch.device("cpu"), copies=2).epoch(epoch)]
        return torch.cat([b.index for b in batches]).tolist(), {
            int(k): x for b in batches for k, x in zip(b.index, b.x)
        }

    epochs = [images(number) for number in range(4)]
    for one, other, equal in ((0, 2, True), (1, 3, True), (0, 1, False)):
        assert all(torch.equal(epochs[one][1][k], epochs[other][1][k]) for k in epochs[one][1]) is equal
        assert epochs[one][0] != epochs[other][0]
    plain = {int(k): x for b in loader().epoch(1) for k, x in zip(b.index, b.x)}
    assert all(torch.equal(plain[k], x) for k, x in epochs[1][1].items())


def test_each_view_is_the_naive_crop_of_its_own_key() -> None:
    inputs = STREAM.inputs
    for b in loader(views=2).epoch(4):
        assert len(b.views) == 2
        for number, view in enumerate(b.views):
            key = derive(0, "augment", 1, 4, number)
            assert torch.equal(view, inputs.plain(crop_and_flip(b.raw, key, b.index, inputs.padding, inputs.flip)))


def test_taking_rows_of_a_batch_takes_all_of_their_fields() -> None:
    b = next(loader(views=2).epoch(0))
    rows = torch.tensor([3, 0])
    taken = b.take(rows)
    assert len(taken) == 2
    assert torch.equal(taken.x, b.views[0][rows])
    assert torch.equal(taken.views[1], b.views[1][rows])
    for name in ("raw", "y", "task", "index"):
        assert torch.equal(getattr(taken, name), getattr(b, name)[rows])
