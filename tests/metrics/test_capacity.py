import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from esacl.metrics.capacity import capacity, measured_capacity
from esacl.metrics.cost import Flops, flops
from esacl.nets.partition import overall_density
from esacl.sparsity.masks import coded_bits


@given(st.dictionaries(st.integers(), st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1))
def test_overall_density_is_the_share_of_non_zero_weights_counted_together(layers: dict[int, tuple[int, int]]) -> None:
    counted = {f"layer {number}": (min(kept, size), size) for number, (kept, size) in layers.items()}
    found = overall_density(
        {name: kept / size for name, (kept, size) in counted.items()}, {n: s for n, (_, s) in counted.items()}
    )
    expected = sum(kept for kept, _ in counted.values()) / sum(size for _, size in counted.values())
    assert found == pytest.approx(expected)


def test_a_network_without_prunable_weights_is_dense() -> None:
    assert overall_density({}, {}) == 1.0
    assert overall_density({}, {"head.weight": 5}) == 1.0


def test_capacity_charges_masks_only_to_methods_that_store_them() -> None:
    assert capacity(0.1, 20, stores_masks=False) == 0.1
    assert capacity(0.1, 20, stores_masks=True) == pytest.approx(0.1 + 0.25 * 20 / 32)
    assert capacity(1.0, 1, stores_masks=True) > 1


def test_a_multiply_add_is_two_operations_and_the_three_figures_stay_apart() -> None:
    assert flops(1.5, 20, 300) == Flops(paper=3.0, sparse=40, executed=600)
    assert flops(1.5, 20, 300, 4) == Flops(paper=3.0, sparse=40, executed=600, credited=8)


def test_measured_capacity_is_values_at_their_density_and_coded_masks_over_all_weights() -> None:
    mask = {"a": torch.rand(70, 20, generator=torch.Generator().manual_seed(0)) < 0.2, "b": torch.zeros(7).bool()}
    sizes = {name: entries.numel() for name, entries in mask.items()}
    density = sum(int(entries.sum()) for entries in mask.values()) / 1407
    code = coded_bits(torch.cat([entries.flatten() for entries in mask.values()]))
    assert measured_capacity(density, sizes, [mask]) == pytest.approx(density + code / (32 * 1407))
    assert measured_capacity(density, sizes, [mask, mask]) == pytest.approx(density + 2 * code / (32 * 1407))
    beside = {"norms.0.bias": torch.zeros(14), "owners": torch.zeros(5, dtype=torch.uint8)}
    assert measured_capacity(0.5, sizes, [], beside) == pytest.approx(0.5 + 14 / 1407)
    assert measured_capacity(1.0, sizes, []) == 1.0
    assert measured_capacity(1.0, {}, []) == 1.0
