from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from esacl.config import Config, NetConfig, TrainConfig
from esacl.methods import resolve
from esacl.nets import Network
from esacl.sparsity import base
from esacl.sparsity.base import Dense, DenseOptions, SparsityStrategy
from esacl.sparsity.esacl import Esacl
from esacl.streams.base import Examples, Task
from tests.builders import context, finish, network, same, stream, trainer
from tests.sparsity.strategies import images, task


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """What statistics would be taken from, instead of taking them."""
    seen: list[Tensor] = []

    def note(net: Network, given: Iterable[Tensor]) -> None:
        seen.extend(given)

    monkeypatch.setattr(base, "recalibrate", note)
    return seen


def made(kind: type[SparsityStrategy], net: Network, seed: int = 0, **options: Any) -> SparsityStrategy:
    """A strategy attached to a network."""
    strategy = kind(kind.Options(**options), context(seed=seed))
    strategy.attach(net)
    return strategy


def pixels(seen: list[Tensor]) -> list[int]:
    """The stored values of images of one pixel, in the order in which they were looked at."""
    return [round(255 * (0.25 * float(value) + 0.5)) for value in torch.cat(seen).flatten()]


def learnt(*values: int) -> Task:
    """A task with these images of one pixel."""
    return replace(task(0), train=images(*values))


@pytest.mark.parametrize("kind", [Dense, Esacl])
@pytest.mark.parametrize(
    ("how", "memory", "expected"),
    [
        ("mixed", (7, 8), [1, 2, 3, 7, 8]),
        ("mixed", None, [1, 2, 3]),
        ("memory", (7, 8), [7, 8]),
        ("memory", None, [1, 2, 3]),
        ("no", (7, 8), []),
        ("no", None, []),
    ],
)
def test_statistics_are_taken_from_the_images_asked_for(
    kind: type[SparsityStrategy], how: str, memory: tuple[int, ...] | None, expected: list[int], batches: list[Tensor]
) -> None:
    net = network()
    remembered: Examples | None = None if memory is None else images(*memory)
    made(kind, net, recalibrate=how).end_task(net, learnt(1, 2, 3), remembered)
    assert (sorted(pixels(batches)) if batches else []) == expected


@pytest.mark.parametrize("kind", [Dense, Esacl])
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([2, 2, 3, 3], (2, 2)),
        ([2, 2, 2, 3], (2, 2)),
        ([2, 3, 4, 5], (1, 1)),
        ([2, 2, 2, 2], (3, 2)),  # the task has no more
        ([2, 3, 0, 1], (0, 0)),  # the task is in the memory already
        ([2, 3, 3, 1], (0, 0)),
    ],
)
def test_where_the_memory_lacks_the_task_as_many_of_its_images_join_as_the_memory_has_of_a_class(
    kind: type[SparsityStrategy], labels: list[int], expected: tuple[int, int], batches: list[Tensor]
) -> None:
    net = network()
    train = Examples(images(1, 2, 3, 4, 5).x, torch.tensor([0, 0, 0, 1, 1]))
    memory = Examples(images(10, 11, 12, 13).x, torch.tensor(labels))
    made(kind, net, recalibrate="memory").end_task(net, replace(task(0), train=train), memory)
    seen = sorted(pixels(batches))
    assert len(seen) == len(set(seen))
    assert {10, 11, 12, 13} <= set(seen), "the whole memory"
    assert (sum(pixel <= 3 for pixel in seen), sum(3 < pixel <= 5 for pixel in seen)) == expected


def test_images_are_mixed_by_the_seed_and_the_task_alone(batches: list[Tensor]) -> None:
    orders = []
    for seed, index, poison in ((0, 0, 1), (0, 0, 2), (1, 0, 1), (0, 1, 1)):
        torch.manual_seed(poison)
        batches.clear()
        net = network()
        strategy = made(Dense, net, seed, recalibrate="mixed")
        strategy.end_task(net, replace(learnt(*range(50)), index=index), images(*range(50, 100)))
        orders.append(pixels(batches))
    plain, again, other_seed, other_task = orders
    assert plain == again
    assert plain != sorted(plain)
    assert plain not in (other_seed, other_task)
    assert min(plain[:50]) < 50 <= max(plain[:50]), "the task and the memory are in every batch"


@pytest.mark.parametrize("number", [1, 255, 256, 511, 513, 769, 65_793])
def test_batches_are_of_about_the_same_size(number: int, batches: list[Tensor]) -> None:
    net = network()
    many = replace(task(0), train=Examples(torch.zeros(number, 1, 1, 1, dtype=torch.uint8), torch.zeros(number).long()))
    made(Dense, net, recalibrate="mixed").end_task(net, many, None)
    sizes = [len(batch) for batch in batches]
    assert sum(sizes) == number
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) < 2 * 256


def test_without_recalibration_statistics_stay() -> None:
    for kind, how, moves in (
        (Esacl, "no", False),
        (Dense, "no", False),
        (Esacl, "mixed", True),
        (Dense, "mixed", True),
    ):
        net = network("cnn", 4)
        before = {name: value.clone() for name, value in net.model.named_buffers()}
        made(kind, net, recalibrate=how).end_task(net, task(0), None)
        assert same(dict(net.model.named_buffers()), before) is not moves


@pytest.mark.parametrize(("form", "takes"), [("freeze", "mixed"), ("cycle", "no")])
def test_only_the_form_that_freezes_takes_new_statistics_by_default(form: str, takes: str) -> None:
    assert DenseOptions().recalibrate == "no"
    run = resolve(Config("esacl-er", options={"sparsity": {"form": form}}), stream())
    assert run.options["sparsity"]["recalibrate"] == takes


def test_statistics_are_those_of_the_pruned_network() -> None:
    net, twin = network("cnn", 4), network("cnn", 4)
    made(Esacl, net, recalibrate="mixed").end_task(net, task(0), None)
    pruned = {name: net.stored[name].detach().clone() for name in net.partition.prunable}
    with torch.no_grad():
        for name, value in pruned.items():
            twin.stored[name].copy_(value)
    made(Dense, twin, recalibrate="mixed").end_task(twin, task(0), None)
    assert same(dict(net.model.named_buffers()), dict(twin.model.named_buffers()))


@pytest.mark.parametrize("seed", [0, 1])
def test_a_pruned_network_with_new_statistics_is_far_better_than_one_with_the_old(seed: int) -> None:
    of = stream(tasks=1, classes_per_task=10, seed=seed)
    after = {}
    for how in ("no", "mixed"):
        options = {"sparsity": {"level": 0.8, "recalibrate": how, "polytope": False}}
        train = TrainConfig(epochs=10, batch_size=8, unpruned=True)
        training = trainer("esacl-er", options, of, net=NetConfig("cnn", 8), train=train, seed=seed)
        finish(training)
        assert training.unpruned[0].task_il[0] > 0.9
        after[how] = training.rows[0].task_il[0]
    assert after["mixed"] > after["no"] + 0.25
