import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from esacl.sparsity.masks import SYMBOL, decode, encode, pack, unpack
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


@settings(deadline=None)
@given(MASKS)
def test_decoding_gives_the_mask_back(entries: list[bool]) -> None:
    assert decode(encode(torch.tensor(entries, dtype=torch.bool)), [len(entries)]).tolist() == entries


@pytest.mark.parametrize("density", [0.0, 0.02, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(64, 3, 3, 3), (7, 1), (1, 5)])
def test_masks_of_any_shape_and_density_come_back(shape: tuple[int, ...], density: float) -> None:
    mask = sparse(density, torch.Size(shape).numel()).view(shape)
    assert torch.equal(decode(encode(mask), shape), mask)
    assert torch.equal(unpack(pack(mask), shape), mask)


@settings(deadline=None)
@given(MASKS)
def test_the_code_is_as_short_as_that_of_the_textbook(entries: list[bool]) -> None:
    assert len(encode(torch.tensor(entries, dtype=torch.bool)).bits) == huffman.coded_length(entries, SYMBOL)


def test_a_sparse_mask_takes_fewer_bits_than_weights_and_a_random_half_saves_nothing() -> None:
    size = 100_000
    tenth, half = encode(sparse(0.1, size)).size, encode(sparse(0.5, size)).size
    entropy = -(0.1 * torch.log2(torch.tensor(0.1)) + 0.9 * torch.log2(torch.tensor(0.9)))
    assert entropy * size < tenth < 1.05 * entropy * size
    assert half > size


def test_the_size_counts_the_table_of_the_code() -> None:
    coded = encode(sparse(0.3, 700))
    assert coded.size == len(coded.bits) + 8 * 128
