import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from esacl.sparsity.masks import SYMBOL, coded_bits, pack, unpack
from tests.reference import huffman

MASKS = st.lists(st.booleans(), max_size=300)


def sparse(density: float, size: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(size, generator=torch.Generator().manual_seed(seed)) < density


@settings(deadline=None)
@given(MASKS)
def test_packing_and_unpacking_gives_the_mask_back(entries: list[bool]) -> None:
    packed = pack(torch.tensor(entries, dtype=torch.bool))
    assert packed.dtype == torch.uint8
    assert len(packed) == -(-len(entries) // 8)
    assert unpack(packed, [len(entries)]).tolist() == entries


@pytest.mark.parametrize("density", [0.0, 0.02, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(64, 3, 3, 3), (7, 1), (1, 5)])
def test_masks_of_any_shape_and_density_come_back(shape: tuple[int, ...], density: float) -> None:
    mask = sparse(density, torch.Size(shape).numel()).view(shape)
    assert torch.equal(unpack(pack(mask), shape), mask)


@settings(deadline=None)
@given(MASKS)
def test_a_coded_mask_is_as_short_as_that_of_the_textbook_and_its_table(entries: list[bool]) -> None:
    table = 8 * 2**SYMBOL
    assert coded_bits(torch.tensor(entries, dtype=torch.bool)) == huffman.coded_length(entries, SYMBOL) + table


def test_a_sparse_mask_codes_near_its_entropy_and_a_random_half_does_not() -> None:
    size = 100_000
    tenth, half = coded_bits(sparse(0.1, size)), coded_bits(sparse(0.5, size))
    entropy = -(0.1 * torch.log2(torch.tensor(0.1)) + 0.9 * torch.log2(torch.tensor(0.9)))
    assert entropy * size < tenth < 1.05 * entropy * size
    assert half > size
