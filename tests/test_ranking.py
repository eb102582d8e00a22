import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from esacl.ranking import largest, largest_of_all

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8]
FEW = st.lists(st.integers(0, 4), min_size=1, max_size=25)  # so few different values that most are ties


def first_of_sorted(values: list[float], k: int) -> list[bool]:
    """The k largest by sorting all of them; of equal ones, the first."""
    order = sorted(range(len(values)), key=lambda place: (-values[place], place))
    return [place in order[: max(k, 0)] for place in range(len(values))]


@settings(deadline=None)
@given(FEW, st.integers(-2, 27), st.sampled_from(DTYPES))
def test_the_largest_are_those_of_sorting_also_with_ties(values: list[int], k: int, dtype: torch.dtype) -> None:
    mask = largest(torch.tensor(values, dtype=dtype), k)
    assert mask.dtype == torch.bool
    assert mask.tolist() == first_of_sorted([float(value) for value in values], k)


@settings(deadline=None)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=25), st.integers(1, 25))
def test_the_largest_of_any_numbers_are_those_of_sorting(values: list[float], k: int) -> None:
    for dtype in (torch.float32, torch.float64):
        assert largest(torch.tensor(values, dtype=dtype), k).tolist() == first_of_sorted(values, k)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("kind", ["normal", "ties", "ascending", "only the sample small", "only the sample large"])
@pytest.mark.parametrize("k", [1, 40, 700, 4000, 4999])
def test_the_largest_of_a_long_vector_are_those_of_sorting(k: int, kind: str, dtype: torch.dtype) -> None:
    values = torch.randn(5000, generator=torch.Generator().manual_seed(k)).to(dtype)
    if kind == "ties":
        values = values.round()
    elif kind == "ascending":
        values = values.sort().values
    elif kind.startswith("only"):  # what is looked at first tells nothing about the others
        values[::16] += 9.0 if kind.endswith("large") else -9.0
    assert largest(values, k).tolist() == first_of_sorted(values.tolist(), k)


@pytest.mark.parametrize("place", [0, 1, 4999])
@pytest.mark.parametrize("k", [1, 40, 4999])
def test_what_is_not_a_number_ranks_first_wherever_it_stands(place: int, k: int) -> None:
    values = torch.randn(5000, generator=torch.Generator().manual_seed(k))
    values[place] = float("nan")
    assert largest(values, k)[place]
    assert int(largest(values, k).sum()) == k


@pytest.mark.parametrize("dtype", DTYPES)
def test_none_at_all_and_all_of_them_can_be_asked_for(dtype: torch.dtype) -> None:
    values = torch.tensor([[3, 1], [2, 2]], dtype=dtype)
    for k in (-1, 0):
        assert torch.equal(largest(values, k), torch.zeros(2, 2, dtype=torch.bool))
    for k in (4, 5):
        assert torch.equal(largest(values, k), torch.ones(2, 2, dtype=torch.bool))


@pytest.mark.parametrize("k", [1, 7, 35, 71])
def test_the_first_of_equal_values_are_chosen_in_any_memory_layout(k: int) -> None:
    values = torch.randint(0, 3, (2, 4, 3, 3), generator=torch.Generator().manual_seed(k)).float()
    strided = values.contiguous(memory_format=torch.channels_last)
    assert largest(values, k).flatten().tolist() == first_of_sorted(values.flatten().tolist(), k)
    assert torch.equal(largest(strided, k), largest(values, k))
    assert torch.equal(largest(values.permute(3, 2, 1, 0), k).flatten().sum(), torch.tensor(k))


def test_infinite_values_and_equal_values_everywhere_are_ranked_too() -> None:
    infinite = torch.tensor([1.0, float("inf"), float("inf"), float("-inf")])
    assert largest(infinite, 1).tolist() == [False, True, False, False]
    assert largest(infinite, 3).tolist() == [True, True, True, False]
    assert largest(torch.zeros(5), 3).tolist() == [True, True, True, False, False]


def test_ranking_leaves_the_values_and_their_gradients_alone() -> None:
    values = torch.tensor([2.0, 1.0, 3.0], requires_grad=True)
    before = values.detach().clone()
    mask = largest(values, 2)
    assert not mask.requires_grad
    assert torch.equal(values.detach(), before)


@settings(deadline=None)
@given(st.lists(FEW, min_size=1, max_size=4), st.integers(-1, 60))
def test_blocks_compete_with_each_other_as_if_they_were_one(blocks: list[list[int]], k: int) -> None:
    masks = largest_of_all([torch.tensor(block, dtype=torch.float32) for block in blocks], k)
    together = [float(value) for block in blocks for value in block]
    assert [mask.shape for mask in masks] == [(len(block),) for block in blocks]
    assert torch.cat(masks).tolist() == first_of_sorted(together, k)


def test_masks_have_the_shapes_of_their_blocks() -> None:
    conv = torch.arange(16.0).view(2, 2, 2, 2).contiguous(memory_format=torch.channels_last)
    blocks: list[Tensor] = [conv, torch.tensor([[20.0, -1.0]])]
    masks = largest_of_all(blocks, 3)
    assert [mask.shape for mask in masks] == [(2, 2, 2, 2), (1, 2)]
    assert masks[0].flatten().nonzero().flatten().tolist() == [14, 15]
    assert masks[1].tolist() == [[True, False]]
