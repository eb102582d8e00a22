"""The trunk's answers are kept: cheaper where images come again, and nothing else depends on it."""

from dataclasses import replace

import pytest
import torch

from esacl.config import Config, MachineConfig, NetConfig, TrainConfig
from esacl.training.trainer import Trainer
from tests.builders import finish, same, stream, trainer, weights
from tests.resuming import assert_resumes

ANSWER = 4 * 8 * 4 * 4  # bytes that the trunk of the small network answers to an image


def growing(method="grow", cache=1 << 20, copies=2, epochs=4, augment=True, seed=0) -> Trainer:
    options = {"update": {"lr": 0.01}, **({} if method == "grow" else {"objective": {"buffer": 20}})}
    train = TrainConfig(epochs=epochs, batch_size=8, augment_copies=copies)
    made = trainer(method, options, stream(augment=augment), net=NetConfig("cnn", 8), train=train, seed=seed)
    made.net.cache.size = cache
    return made


@pytest.mark.parametrize("method", ["grow", "grow-er", "grow-der++"])
def test_a_run_has_the_same_bits_whatever_is_kept(method):
    whole, small, none = (finish(growing(method, cache)) for cache in (1 << 20, 30 * ANSWER, 0))
    assert same(weights(whole.net), weights(none.net))
    assert same(weights(small.net), weights(none.net))
    assert whole.rows == small.rows == none.rows
    spent = [each.net.meter.executed_macs["train"] for each in (whole, small, none)]
    assert spent[0] < spent[1] < spent[2]


@pytest.mark.parametrize("method", ["grow", "grow-er"])
def test_a_killed_run_loses_its_answers_and_nothing_else(method, tmp_path):
    used = finish(growing(method, seed=1))
    assert_resumes(lambda: growing(method, 40 * ANSWER), used, tmp_path)


def test_with_copies_only_the_first_epochs_of_a_task_run_the_trunk():
    few, many = (finish(growing(epochs=epochs)) for epochs in (2, 6))
    trunk = few.parts.sparsity.branches._costs[-1][0]  # type: ignore[attr-defined]
    images = 24
    for done, epochs in ((few, 2), (many, 6)):
        later = done.net.meter.executed_macs["train"] - first_task(epochs)
        own = sum(sum(backward_of(done, task)) for task in (1, 2))
        assert later == images * (epochs * own + 2 * 2 * trunk)


def backward_of(done: Trainer, task: int) -> tuple[int, int]:
    """Multiply-adds of a branch in its own task, there and back."""
    branches = done.parts.sparsity.branches  # type: ignore[attr-defined]
    branches.learnt = frozenset({task})
    there, back = branches._cost(task)
    return there, back


def first_task(epochs: int) -> int:
    """Multiply-adds of the first task of such a run."""
    training = growing(epochs=epochs)
    for event in training.run():
        if type(event).__name__ == "TaskDone":
            break
    return training.net.meter.executed_macs["train"]


def test_the_cache_is_on_by_default_where_images_come_again_and_cost_something(tmp_path):
    from esacl.assembly import assemble

    config = Config(
        "grow", net=NetConfig("resnet10", 8), train=TrainConfig(columns="task"), machine=MachineConfig(device="cpu")
    )
    big, device = (3, 32, 32), torch.device("cpu")

    def size(augment, **changes):
        settings = replace(config, **changes)
        return assemble(settings, stream(shape=big, augment=augment), device).net.cache.size

    assert size(False) == size(True, train=replace(config.train, augment_copies=3)) == 512 << 20
    assert size(True) == 0
    assert size(False, net=NetConfig("mlp", 16)) == 0, "looking up costs more"
    assert size(True, machine=MachineConfig(feature_cache=3)) == 3 << 20
