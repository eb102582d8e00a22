from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from esacl.errors import ConfigError
from esacl.processes.job import stream_state
from esacl.streams import Stream
from esacl.streams.base import Examples
from esacl.streams.rows import OnDemand, identity, in_turn, joined, portions, taken
from tests import builders
from tests.resuming import everything


@dataclass(frozen=True)
class Read(OnDemand):
    """Images on demand out of a tensor; it refuses to be read all at once."""

    values: Tensor
    most: int = 1000

    @property
    def shape(self) -> torch.Size:  # type: ignore[override]
        return self.values.shape

    def read(self, rows: Tensor) -> Tensor:
        assert len(rows) <= self.most, "too many at once"
        return self.values[rows]

    def identity(self, rows: Tensor) -> str:
        return repr(rows.tolist())


IMAGES = torch.arange(7 * 3 * 2 * 2, dtype=torch.uint8).view(7, 3, 2, 2)


@pytest.mark.parametrize(
    "rows", [3, -1, slice(1, 5), slice(None, None, 2), torch.tensor([5, 0, 0]), torch.arange(7) > 3, []]
)
def test_images_on_demand_are_indexed_as_a_tensor_is(rows: Any) -> None:
    assert torch.equal(Read(IMAGES)[rows], IMAGES[rows])


def test_parts_and_joined_sets_hold_what_they_would_in_memory() -> None:
    rows = torch.tensor([6, 1, 1, 4])
    part = taken(Read(IMAGES), rows)
    assert isinstance(part, OnDemand)
    assert (part.shape, len(part)) == ((4, 3, 2, 2), 4)
    assert torch.equal(part[:], IMAGES[rows])
    both = joined([part, IMAGES, taken(part, torch.tensor([True, False, False, True]))])
    expected = torch.cat([IMAGES[rows], IMAGES, IMAGES[[6, 4]]])
    assert isinstance(both, OnDemand)
    assert (both.shape, both.dtype) == (expected.shape, torch.uint8)
    order = torch.tensor([12, 0, 5, 3, 11, 0])
    assert torch.equal(both[order], expected[order])
    assert isinstance(joined([IMAGES, IMAGES]), Tensor)


def test_an_identity_tells_rows_apart() -> None:
    first, second = (taken(Read(IMAGES), torch.tensor(rows)) for rows in ([0, 1], [1, 0]))
    assert identity(first) == identity(taken(Read(IMAGES), torch.tensor([0, 1]))) != identity(second)
    assert identity(joined([first, second])) != identity(joined([second, first]))


@pytest.mark.parametrize("images", [IMAGES, Read(IMAGES, 3)])
def test_groups_come_in_their_order(images: Any) -> None:
    groups = [torch.tensor(rows) for rows in ([4, 2], [0], [1, 1, 6])]
    assert all(torch.equal(own, IMAGES[rows]) for own, rows in zip(in_turn(images, groups), groups, strict=True))
    assert torch.equal(torch.cat(list(portions(images, 3))), IMAGES)


def test_what_goes_wrong_while_reading_ahead_is_told() -> None:
    with pytest.raises(AssertionError, match="too many"):
        list(in_turn(Read(IMAGES, 1), [torch.tensor([0]), torch.tensor([0, 1])]))


def on_demand(stream: Stream, most: int) -> Stream:
    def part(examples: Examples) -> Examples:
        return Examples(Read(examples.x[:], most), examples.y)

    tasks = tuple(
        replace(task, train=part(task.train), validation=part(task.validation), test=part(task.test))
        for task in stream.tasks
    )
    return replace(stream, tasks=tasks, stages=tasks)


@pytest.mark.parametrize("method", ["er", "icarl", "co2l", "ewc", "gpm", "nispa", "mtl", "esacl-er", "sparcl-der++"])
def test_methods_learn_the_same_bits_from_images_on_demand(method: str) -> None:
    stream = builders.stream(per_class=20)
    whole = stream if method != "mtl" else stream.joint()
    few = on_demand(stream, 256)
    few = few if method != "mtl" else few.joint()
    found = []
    for each in (whole, few):
        training = builders.trainer(method, of=each)
        for _ in training.run():
            pass
        found.append(everything(training))
    assert found[0] == found[1]


def test_several_processes_refuse_images_on_demand() -> None:
    with pytest.raises(ConfigError, match=r"stream\.cache"):
        stream_state(on_demand(builders.stream(), 10))
