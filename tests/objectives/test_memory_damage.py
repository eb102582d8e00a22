"""A memory from a file: whole, but not one of this run."""

import pytest
import torch

from esacl.objectives.memory import Reservoir
from tests.builders import batch, context


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("x", lambda value: value[:3]),
        ("y", lambda value: value[:3]),
        ("y", lambda value: value - 1),
        ("y", lambda v: v + 99),
    ],
)
def test_a_memory_of_another_size_or_with_other_labels_is_refused(name, change):
    memory = Reservoir(8, context())
    given = batch(8)
    memory.add(given.raw, given.y)
    state = memory.state_dict()
    state["store"][name] = change(state["store"][name])
    with pytest.raises(ValueError, match="the memory"):
        Reservoir(8, context()).load_state_dict(state)


def test_a_memory_of_this_run_is_taken():
    memory, other = Reservoir(8, context()), Reservoir(8, context())
    given = batch(5)
    memory.add(given.raw, given.y)
    other.load_state_dict(memory.state_dict())
    assert torch.equal(other.examples().x, memory.examples().x)
