import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from esacl.sparsity.rewiring import even_counts, fittest, grown, moment
from tests.reference import sparcl as naive

LAYERS = st.integers(1, 40).flatmap(
    lambda size: st.tuples(
        st.lists(st.booleans(), min_size=size, max_size=size),
        st.lists(st.integers(0, 5), min_size=size, max_size=size),  # few: with ties
    )
)


def places(mask: torch.Tensor) -> set[int]:
    return set(mask.nonzero().squeeze(1).tolist())


@given(LAYERS, st.floats(0, 1), st.floats(0, 1))
def test_what_stays_and_what_comes_to_life_agrees_with_the_naive_twin(
    layer: tuple[list[bool], list[int]], stays: float, grows: float
) -> None:
    live, scores = torch.tensor(layer[0]), torch.tensor(layer[1]).float()
    few = round(stays * int(live.sum()))
    kept = fittest(live, scores, few)
    assert places(kept) == naive.fittest(places(live), scores.tolist(), few)
    many = few + round(grows * (len(live) - few))
    after = grown(kept, scores, many)
    assert places(after) == naive.grown(places(kept), scores.tolist(), many)
    assert int(after.sum()) == many
    assert places(kept) <= places(after)


def test_no_more_stay_than_are_live() -> None:
    live = torch.tensor([False, True, False])
    assert places(fittest(live, torch.ones(3), 2)) == {1}


@given(st.lists(st.integers(1, 500), min_size=1, max_size=8), st.floats(0, 1))
def test_every_layer_has_the_same_share_and_all_together_have_it_exactly(sizes: list[int], share: float) -> None:
    counts = even_counts({str(place): size for place, size in enumerate(sizes)}, share)
    assert sum(counts.values()) == round(share * sum(sizes))
    for size, count in zip(sizes, counts.values()):
        assert 0 <= count <= size
        assert abs(count - share * size) <= 1


def test_fifty_epochs_have_the_schedule_of_the_published_script() -> None:
    found = {epoch: moment(epoch, 50, 0.1) for epoch in range(50)}
    assert [epoch for epoch, now in found.items() if now == "expand"] == [0]
    assert [epoch for epoch, now in found.items() if now == "adjust"] == [5, 10, 15, 20, 25, 30, 35, 40]
    assert [epoch for epoch, now in found.items() if now == "shrink"] == [45, 46, 47, 48, 49]


@pytest.mark.parametrize(
    ("epochs", "interval", "expected"),
    [
        (1, 0.1, ["expand"]),
        (2, 0.1, ["expand", "adjust"]),
        (5, 0.1, ["expand", "adjust", "adjust", "adjust", "adjust"]),
        (10, 0.1, ["expand", *["adjust"] * 8, "shrink"]),
        (10, 0.3, ["expand", None, None, "adjust", None, None, "adjust", None, None, "shrink"]),
        (4, 1.0, ["expand", None, None, None]),
    ],
)
def test_shorter_tasks_have_the_same_schedule_in_shares_of_their_epochs(
    epochs: int, interval: float, expected: list[str | None]
) -> None:
    assert [moment(epoch, epochs, interval) for epoch in range(epochs)] == expected
