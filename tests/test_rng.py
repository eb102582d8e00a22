import ast
import random
from itertools import combinations
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import esacl
from esacl.rng import derive, generator, keyed_integers
from tests.reference.augment import keyed_integer

SOURCE = Path(esacl.__file__).parent


def chi_square(counts: torch.Tensor) -> float:
    expected = counts.sum().item() / counts.numel()
    return ((counts - expected) ** 2 / expected).sum().item()


def generous(cells: int) -> float:
    """Six standard deviations above the mean of a chi-square variable: about one false alarm in a billion."""
    return cells - 1 + 6 * sqrt(2 * (cells - 1)) + 10


def test_a_derived_seed_depends_on_the_seed_and_on_every_name_in_order() -> None:
    keys: list[tuple[int, tuple[str | int, ...]]] = [
        (0, ()),
        (1, ()),
        (0, ("a",)),
        (1, ("a",)),
        (0, ("b",)),
        (0, ("a", "b")),
        (0, ("b", "a")),
        (0, ("ab",)),
        (0, ("a", 1)),
        (0, ("a", "1")),
        (0, ("a", 1, 2)),
        (0, ("a", 12)),
        (0, (1, "a")),
        (10, ("a",)),
    ]
    for one, other in combinations(keys, 2):
        assert derive(one[0], *one[1]) != derive(other[0], *other[1]), (one, other)


def test_a_derived_seed_never_changes_between_versions() -> None:
    assert derive(0, "memory") == 6414608738821774953
    assert derive(7, "augment", 2, 3, 0) == 8496906062634416748


@given(st.integers(0, 2**53), st.lists(st.text() | st.integers(), max_size=3))
def test_a_derived_seed_fits_in_63_bits(seed: int, names: list[str | int]) -> None:
    assert 0 <= derive(seed, *names) < 2**63


def test_a_generator_gives_the_same_numbers_for_the_same_name_only() -> None:
    first = torch.rand(1000, generator=generator(0, "a"))
    assert torch.equal(first, torch.rand(1000, generator=generator(0, "a")))
    for other in (generator(0, "b"), generator(1, "a"), generator(0, "a", 0)):
        numbers = torch.rand(1000, generator=other)
        assert abs(torch.corrcoef(torch.stack([first, numbers]))[0, 1]) < 0.2


def test_drawing_from_one_generator_never_shifts_another() -> None:
    alone = torch.rand(10, generator=generator(0, "a"))
    mine, busy = generator(0, "a"), generator(0, "b")
    torch.rand(1000, generator=busy)
    half = torch.rand(5, generator=mine)
    torch.rand(1000, generator=busy)
    assert torch.equal(torch.cat([half, torch.rand(5, generator=mine)]), alone)


@given(st.integers(0, 2**63 - 1), st.lists(st.integers(0, 2**40), min_size=1, max_size=5), st.integers(1, 2000))
def test_keyed_integers_are_splitmix64(key: int, index: list[int], below: int) -> None:
    numbers = keyed_integers(key, torch.tensor(index), below).tolist()
    assert numbers == [keyed_integer(key, place, below) for place in index]
    assert all(0 <= number < below for number in numbers)


@pytest.mark.parametrize("below", [2, 9, 100])
@pytest.mark.parametrize("key", [0, 1, derive(0, "augment", 0, 0, 0)])
def test_keyed_integers_are_uniform(below: int, key: int) -> None:
    numbers = keyed_integers(key, torch.arange(20000), below)
    assert numbers.min() >= 0
    assert numbers.max() < below
    assert chi_square(torch.bincount(numbers, minlength=below)) < generous(below)


def test_keyed_integers_of_neighbouring_indices_and_of_different_keys_are_independent() -> None:
    index = torch.arange(20000)
    first = keyed_integers(5, 3 * index, 9)
    for second in (keyed_integers(5, 3 * index + 1, 9), keyed_integers(6, 3 * index, 9)):
        assert chi_square(torch.bincount(first * 9 + second, minlength=81)) < generous(81)


def test_a_keyed_integer_does_not_depend_on_what_else_is_in_the_batch() -> None:
    index = torch.arange(100)
    whole = keyed_integers(3, index, 9)
    rows = torch.tensor([77, 3, 3, 50])
    assert torch.equal(keyed_integers(3, index[rows], 9), whole[rows])
    assert torch.equal(keyed_integers(3, index.to(torch.int32), 9), whole)


def test_no_function_touches_the_global_generators() -> None:
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    torch.rand(3, generator=generator(derive(0, "a"), "b"))
    keyed_integers(1, torch.arange(10), 5)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002
    assert random.getstate() == states[2]


DRAWS = {"rand", "randn", "randint", "randperm", "normal", "multinomial", "bernoulli", "poisson"}
FILLS = {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "kaiming_normal_", "kaiming_uniform_"}
SEEDS = {"manual_seed_all", "set_rng_state", "initial_seed"}


def global_draws(source: str) -> list[str]:
    """Calls that would read or set a global generator."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(name.name == "random" for name in node.names):
            found.append("import random")
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            found.append("from random import")
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, owner = node.func.attr, ast.unparse(node.func.value)
        seeded = any(keyword.arg == "generator" for keyword in node.keywords)
        on_torch = (owner == "torch" and name in DRAWS) or name in FILLS
        if (on_torch and not seeded) or name in SEEDS or (owner == "torch" and name in {"manual_seed", "seed"}):
            found.append(f"{owner}.{name}")
        if owner in ("np.random", "numpy.random") and name != "default_rng":
            found.append(f"{owner}.{name}")
    return found


@pytest.mark.parametrize(
    "source", ["torch.rand(3)", "torch.manual_seed(0)", "w.normal_()", "import random", "np.random.rand(3)"]
)
def test_the_scan_for_global_draws_sees_one(source: str) -> None:
    assert global_draws(source)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_module_draws_from_a_global_generator(path: Path) -> None:
    assert global_draws(path.read_text()) == []
