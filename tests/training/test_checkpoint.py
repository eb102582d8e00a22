from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from esacl.training.checkpoint import pack
from tests.builders import finish, trainer
from tests.training.checkpoint_tools import identical, round_trip


def test_the_comparison_used_here_tells_states_apart() -> None:
    assert identical({1: [torch.ones(2)]}, {1: [torch.ones(2)]})
    for one, other in [(1, True), (1, 1.0), ((1,), [1]), ({1: 0}, {"1": 0}), (torch.ones(1), torch.ones(1).double())]:
        assert not identical({"x": one}, {"x": other})


TENSORS = st.sampled_from([torch.ones(2), torch.tensor(7), torch.zeros(0, 3), torch.tensor([True, False])])


LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | TENSORS


TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.text(max_size=4) | st.integers(), TREES, max_size=4))
def test_any_tree_of_plain_values_and_tensors_comes_back_as_it_was(tmp_path: Path, state: dict[str, Any]) -> None:
    assert identical(round_trip(tmp_path, state), state)


@pytest.mark.parametrize(
    "value",
    [
        {0: "a", 1: {2: 3}, "0": "b", -7: None},
        (1, (2, [3, ()]), []),
        10**60,
        -(10**60),
        inf,
        -inf,
        nan,
        -0.0,
        5e-324,
        "ünï\x00\n\U0001f600",
        [None, True, False, 0, 1, 0.0, ""],
        {},
    ],
)
def test_plain_values_come_back_as_they_were(tmp_path: Path, value: Any) -> None:
    assert identical(round_trip(tmp_path, {"v": value}), {"v": value})


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5),
        torch.tensor(True),
        torch.zeros(0),
        torch.zeros(3, 0, 2, dtype=torch.int64),
        torch.randn(4, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16),
        torch.tensor([inf, -inf, 0.0, -0.0], dtype=torch.float16),
        torch.arange(256).to(torch.uint8),
        torch.tensor([2**63 - 1, -(2**63)]),
        torch.arange(120.0).view(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.arange(12.0).view(3, 4).t(),
        torch.arange(12.0)[::3],
        torch.ones(1).expand(5),
        torch.ones(3, requires_grad=True),
        torch.Generator().manual_seed(3).get_state(),
    ],
    ids=lambda tensor: f"{tensor.dtype}-{tuple(tensor.shape)}",
)
def test_tensors_come_back_as_they_were(tmp_path: Path, tensor: Tensor) -> None:
    back = round_trip(tmp_path, {"t": tensor})["t"]
    assert identical(back, tensor.detach())
    assert back.is_contiguous()
    assert not back.requires_grad


def test_tensors_that_share_memory_come_back_apart(tmp_path: Path) -> None:
    one = torch.arange(4.0)
    back = round_trip(tmp_path, {"a": one, "b": one, "c": one[1:]})
    back["a"].zero_()
    assert back["b"].tolist() == [0, 1, 2, 3]
    assert back["c"].tolist() == [1, 2, 3]


def test_keys_that_look_alike_are_different_places(tmp_path: Path) -> None:
    state = {"a/b": torch.tensor(1), "a": {"b": torch.tensor(2), 1: torch.tensor(3), "1": torch.tensor(4)}}
    assert identical(round_trip(tmp_path, state), state)


def test_the_state_of_a_trained_run_comes_back_as_it_was(tmp_path: Path) -> None:
    state = finish(trainer("der++")).state_dict()
    state["net"]["model"] = dict(state["net"]["model"])  # torch's is an OrderedDict
    assert identical(round_trip(tmp_path, state), state)


def test_packing_leaves_the_state_as_it_was() -> None:
    tensor = torch.ones(2, requires_grad=True)
    state = {"t": tensor}
    pack(state)
    assert state["t"] is tensor
    assert tensor.requires_grad
