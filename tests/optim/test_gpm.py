from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from esacl.config import NetConfig, TrainConfig
from esacl.errors import ConfigError
from esacl.methods import METHODS, combine, resolve
from esacl.methods.catalogue import ER, GPM
from esacl.nets import Network
from esacl.optim import gpm
from esacl.optim.gpm import Gpm, GpmOptions, extended, input_rows
from esacl.training.events import TaskDone
from esacl.training.parts import Parts
from esacl.training.step import train_step
from esacl.training.trainer import Trainer
from tests.builders import batch, config, context, finish, network, parts, same, stream, trainer, weights
from tests.reference.gpm import columns, discarded, extend, layer_inputs

STREAM = stream()
FIRST = STREAM.inputs.plain(STREAM.tasks[0].train.x)
OPTIMIZERS: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    "momentum and decay": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
}


def part(net: Network, seed: int = 0, **options: Any) -> Gpm:
    made = Gpm(GpmOptions(**options), context(STREAM, seed=seed))
    made.attach(net)
    return made


def learn(net: Network, composed: Parts, optimizer: torch.optim.Optimizer, task: int, steps: int = 12) -> None:
    net.train_mode()
    for step in range(steps):
        train_step(net, composed, optimizer, batch(8, STREAM, task, start=3 * step))


def after_first(backbone: str, width: int, kind: str = "momentum and decay", **options: Any) -> tuple[Network, Parts]:
    """A network that has learnt the first task, and its parts."""
    net, composed = network(backbone, width), parts("gpm", {"constraint": options}, context(STREAM))
    composed.attach(net)
    learn(net, composed, OPTIMIZERS[kind](list(net.stored.values())), 0)
    composed.constraint.end_task(net, STREAM.tasks[0])
    return net, composed


def random_moment(size: int, rank: int, seed: int) -> Tensor:
    rows = torch.randn(rank, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return rows.T @ (rows * torch.linspace(1, 5, rank, dtype=torch.float64).unsqueeze(1))


def ends_of_tasks(training: Trainer) -> list[dict[str, Tensor]]:
    """The weights after each of three tasks."""
    ends = [weights(training.net) for event in training.run() if isinstance(event, TaskDone)]
    assert len(ends) == 3
    return ends


def logits(net: Network, x: Tensor) -> Tensor:
    with net.inference():
        return net(x).logits


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 1, 1), (2, 0, 1), (2, 1, 2), ((1, 2), (0, 2), (2, 1))])
def test_rows_of_a_convolution_are_the_patches_that_its_kernel_meets(stride: Any, padding: Any, dilation: Any) -> None:
    layer = nn.Conv2d(2, 5, (3, 2), stride, padding, dilation, bias=False)
    x = torch.randn(3, 2, 7, 8, generator=torch.Generator().manual_seed(0))
    rows = input_rows(layer, x)
    np.testing.assert_allclose(rows.numpy().T, columns(layer, x), atol=1e-12)
    answer = (rows @ layer.weight.detach().double().flatten(1).T).float()
    torch.testing.assert_close(answer, layer(x).detach().permute(0, 2, 3, 1).flatten(0, 2))


@pytest.mark.parametrize(("backbone", "width"), [("mlp", 32), ("cnn", 4)])
def test_bases_are_those_of_decomposing_all_inputs_at_once_in_every_task(backbone: str, width: int) -> None:
    net, composed = network(backbone, width), parts("gpm", of=context(STREAM))
    composed.attach(net)
    assert isinstance(composed.constraint, Gpm)
    naive: dict[str, np.ndarray[Any, Any]] = {}
    optimizer = OPTIMIZERS["adam"](list(net.stored.values()))
    for task in STREAM.tasks:
        learn(net, composed, optimizer, task.index)
        read = layer_inputs(net, STREAM.inputs.plain(task.train.x))
        composed.constraint.end_task(net, task)
        assert composed.constraint.bases.keys() == read.keys()
        for name, matrix in read.items():
            before, share = naive.get(name, np.zeros((len(matrix), 0))), 0.97 + 0.003 * task.index
            naive[name] = extend(before, matrix, share)
            basis = composed.constraint.bases[name].numpy()
            assert basis.shape == naive[name].shape
            np.testing.assert_allclose(basis @ basis.T, naive[name] @ naive[name].T, atol=2e-5)
            energies = ((basis.T @ matrix) ** 2).sum(1)
            assert energies.sum() >= (share - 1e-6) * (matrix**2).sum()
            if basis.shape[1] > before.shape[1]:
                assert energies[:-1].sum() < share * (matrix**2).sum(), "the last direction was needed"


def test_a_basis_stays_orthonormal_and_holds_the_one_before() -> None:
    basis = torch.empty(40, 0)
    for task in range(8):
        longer = extended(basis, random_moment(40, 9, task), 0.999).float()
        assert longer.shape[1] > basis.shape[1] or basis.shape[1] == 40
        torch.testing.assert_close(longer.T @ longer, torch.eye(longer.shape[1]), atol=1e-6, rtol=0)
        torch.testing.assert_close(longer @ (longer.T @ basis), basis, atol=1e-6, rtol=0)
        assert torch.all((basis.T @ longer[:, basis.shape[1] :]).abs() < 1e-6)
        basis = longer
    assert basis.shape[1] == 40, "8 tasks of 9 directions fill 40 inputs"
    assert extended(basis, random_moment(40, 9, 9), 0.999).shape == (40, 40)


@pytest.mark.parametrize("share", [0.5, 0.97, 1.0])
def test_a_layer_that_reads_nothing_keeps_nothing_and_one_that_reads_little_keeps_no_more(share: float) -> None:
    assert extended(torch.empty(6, 0), torch.zeros(6, 6, dtype=torch.float64), share).shape == (6, 0)
    assert extended(torch.empty(30, 0), random_moment(30, 4, 0), share).shape[1] <= 4
    known = extended(torch.empty(30, 0), random_moment(30, 4, 0), 1.0)
    assert known.shape[1] == 4
    assert extended(known, random_moment(30, 4, 0), share).shape[1] == 4


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(("backbone", "width"), [("mlp", 32), ("cnn", 8)])
def test_later_steps_change_what_a_layer_makes_of_old_inputs_by_no_more_than_was_discarded(
    backbone: str, width: int, kind: str
) -> None:
    net, composed = after_first(backbone, width, kind, share=0.97)
    free = deepcopy(net)
    read, before = layer_inputs(net, FIRST), weights(net)
    assert isinstance(composed.constraint, Gpm)
    for each, rules in ((net, composed), (free, parts("finetune"))):
        learn(each, rules, OPTIMIZERS[kind](list(each.stored.values())), 1)
    for name, matrix in read.items():
        basis = composed.constraint.bases[name]
        left = discarded(matrix, basis.shape[1])
        assert left <= 0.03 * (matrix**2).sum()
        step, unbound = (
            (each.stored[name].detach() - before[name]).flatten(1).double().numpy() for each in (net, free)
        )
        rounding = 1e-5 * np.linalg.norm(matrix)
        assert np.linalg.norm(step @ matrix) <= np.linalg.norm(step, 2) * np.sqrt(left) + rounding
        assert np.linalg.norm(unbound @ matrix) > np.linalg.norm(unbound, 2) * np.sqrt(left) + rounding
        assert np.linalg.norm(step) > 1e-3 or basis.shape[1] == len(basis)


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize(("backbone", "width"), [("mlp", 64), ("cnn", 16)])
def test_with_all_directions_kept_old_answers_stay_while_the_new_task_is_learnt(
    backbone: str, width: int, kind: str
) -> None:
    net, composed = after_first(backbone, width, kind, share=1.0)
    new = batch(24, STREAM, task=1)
    answers, loss = logits(net, FIRST), cross_entropy(logits(net, new.x), new.y)
    learn(net, composed, OPTIMIZERS[kind](list(net.stored.values())), 1, steps=30)
    torch.testing.assert_close(logits(net, FIRST), answers, atol=2e-4 * answers.abs().max().item(), rtol=0)
    assert cross_entropy(logits(net, new.x), new.y) < 0.8 * loss


def test_a_layer_whose_basis_is_full_is_frozen() -> None:
    name = "backbone.layers.0.weight"
    net, composed = after_first("cnn", 8, share=1.0)
    assert isinstance(composed.constraint, Gpm)
    assert composed.constraint.bases[name].shape == (9, 9)
    before = net.stored[name].detach()
    after = composed.constraint.constrain(name, before, before + 1)
    torch.testing.assert_close(after, before, atol=1e-5, rtol=0)


def test_biases_and_batchnorm_stay_as_the_first_task_left_them() -> None:
    training = trainer("gpm", net=NetConfig("cnn", 8), train=TrainConfig(epochs=2, batch_size=8, columns="all"))
    start, ends = weights(training.net), ends_of_tasks(training)
    still = [name for name in start if name not in training.parts.constraint.state_dict()["bases"]]
    assert {"head.bias", "backbone.layers.1.weight", "backbone.layers.1.running_mean"} <= set(still)
    for name in still:
        assert not torch.equal(ends[0][name], start[name])
        assert torch.equal(ends[2][name], ends[0][name])
    assert not torch.equal(ends[2]["backbone.layers.8.weight"], ends[0]["backbone.layers.8.weight"])


@pytest.mark.parametrize(("head", "columns"), [(None, None), (None, "task"), ("separate", "all")])
def test_separate_heads_hold_earlier_columns_and_leave_later_ones_free(head: Any, columns: Any) -> None:
    settings = TrainConfig(epochs=2, batch_size=8, columns=columns)
    training = trainer("gpm", {"constraint": {"head": head}}, train=settings)
    ends = ends_of_tasks(training)
    assert not [name for name in training.parts.constraint.state_dict()["bases"] if name.startswith("head")]
    for name in ("head.weight", "head.bias"):
        for earlier, later, old in ((0, 1, 2), (1, 2, 4)):
            assert torch.equal(ends[later][name][:old], ends[earlier][name][:old])
            assert not torch.equal(ends[later][name][old : old + 2], ends[earlier][name][old : old + 2])


@pytest.mark.parametrize(
    ("head", "columns", "separate", "rule"),
    [
        (None, None, True, "task"),
        (None, "all", False, "all"),
        (None, "seen", False, "seen"),
        ("projected", None, False, "all"),
        ("projected", "task", False, "task"),
        ("separate", "all", True, "all"),
    ],
)
def test_a_task_alone_has_its_own_head_and_tasks_that_compete_share_one(
    head: Any, columns: Any, separate: bool, rule: str
) -> None:
    training = trainer(
        "gpm", {"constraint": {"head": head}}, train=TrainConfig(epochs=1, batch_size=8, columns=columns)
    )
    finish(training)
    assert ("head.weight" not in training.parts.constraint.state_dict()["bases"]) == separate
    assert training.config.columns == rule


def test_the_share_grows_with_every_task_up_to_a_ceiling(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def note(basis: Tensor, moment: Tensor, share: float) -> Tensor:
        asked.append(share)
        return extended(basis, moment, 0.5)

    monkeypatch.setattr(gpm, "extended", note)
    for options, expected in (
        ({"share": 0.9, "growth": 0.04}, [0.9, 0.94, 0.98, 0.999, 0.999]),
        ({"share": 1.0, "growth": 0.04}, [1.0] * 5),
        ({"share": 0.97, "growth": 0.0}, [0.97] * 5),
    ):
        net = network()
        made = part(net, **options)
        asked.clear()
        for _ in range(5):
            made.end_task(net, STREAM.tasks[0])
        assert asked[:: len(made.bases)] == pytest.approx(expected)


def test_only_some_examples_are_looked_at_and_the_seed_chooses_them() -> None:
    net = network(width=32)
    made = {seed: part(net, seed, examples=5) for seed in (0, 1)}
    for each in made.values():
        each.end_task(net, STREAM.tasks[0])
    first, other = (each.bases["backbone.first.weight"] for each in made.values())
    assert 2 <= first.shape[1] <= 5
    assert not torch.allclose(first @ first.T, other @ other.T, atol=0.01)


def test_looking_and_projecting_are_charged_to_training() -> None:
    net = network(width=16)
    made = part(net, examples=20)
    made.end_task(net, STREAM.tasks[0])
    sizes = {"backbone.first.weight": 64, "backbone.second.weight": 16, "head.weight": 16}
    spent = 20 * net.meter.dense + sum(20 * size * size for size in sizes.values())
    assert net.meter.executed_macs == {"train": spent}
    value = net.stored["backbone.first.weight"].detach()
    made.constrain("backbone.first.weight", value, value + 1)
    directions = made.bases["backbone.first.weight"].shape[1]
    assert net.meter.executed_macs == {"train": spent + 2 * 16 * 64 * directions}


def test_a_part_continues_from_a_saved_state() -> None:
    net, composed = after_first("cnn", 8)
    assert isinstance(composed.constraint, Gpm)
    assert set(composed.constraint.constrained()) == set(net.stored)
    fresh = part(net)
    assert not fresh.constrained()
    empty = fresh.state_dict()
    fresh.load_state_dict(deepcopy(composed.constraint.state_dict()))
    assert set(fresh.constrained()) == set(net.stored)
    for name, value in net.stored.items():
        step = (name, value.detach(), value.detach().cos())
        assert torch.equal(fresh.constrain(*step), composed.constraint.constrain(*step))
    for each in (fresh, composed.constraint):
        each.end_task(net, STREAM.tasks[1])
    assert fresh.tasks == composed.constraint.tasks == 2
    assert same(fresh.bases, composed.constraint.bases)
    fresh.load_state_dict(empty)
    assert not fresh.constrained()
    assert not fresh.bases


def test_statistics_that_are_taken_anew_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"sparsity\.recalibrate = 'mixed'.*Use sparsity\.recalibrate = 'no'"):
        resolve(config("gpm", {"sparsity": {"recalibrate": "mixed"}}), STREAM)


@pytest.mark.parametrize("composed", [GPM, combine("both", GPM, ER)], ids=["alone", "with er"])
def test_the_first_task_is_still_known_after_the_last(composed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "composed", composed)
    settings = {"net": NetConfig("mlp", 64), "train": TrainConfig(epochs=8, batch_size=8, columns="all")}
    kept, lost = (finish(trainer(name, of=STREAM, **settings)).rows for name in ("composed", "finetune"))
    assert lost[-1].class_il[0] <= 0.2
    assert kept[-1].class_il[0] >= 0.8
    assert min(kept[-1].task_il) >= 0.9
