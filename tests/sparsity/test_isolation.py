"""Finished tasks answer bitwise the same for ever, from memory and from the saved file."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor
from torch.func import functional_call

import esacl
from esacl.config import NetConfig, TrainConfig
from esacl.errors import ConfigError
from esacl.methods import METHODS, combine
from esacl.methods.catalogue import ER, EWC
from esacl.nets import Network, build_model
from esacl.sparsity import base
from esacl.sparsity.masks import unpack
from esacl.training.events import EpochDone, StepDone, TaskDone
from tests.builders import batch, config, finish, stream, trainer, weights
from tests.resuming import assert_resumes
from tests.sparsity.isolated_runs import OPTIONS, bits, images, isolated, own_logits, strategy

METHOD = pytest.mark.parametrize("method", ["packnet", "wsn"])
NETWORK = pytest.mark.parametrize(("backbone", "norms"), [("mlp", "own"), ("cnn", "own"), ("cnn", "first")])
NORMS = pytest.mark.parametrize("norms", ["own", "first"])


@METHOD
@NETWORK
def test_a_finished_task_answers_bitwise_the_same_after_every_later_step(
    method: str, backbone: str, norms: str
) -> None:
    training = isolated(method, backbone, norms=norms)
    answers: dict[int, Tensor] = {}
    steps = 0
    for event in training.run():
        for task, logits in answers.items():
            assert torch.equal(bits(own_logits(training, task)), bits(logits))
            steps += isinstance(event, StepDone)
        if isinstance(event, TaskDone):
            answers[event.task] = own_logits(training, event.task)
    assert steps >= 6 + 12
    assert not torch.equal(answers[0], answers[1])


@METHOD
@NORMS
def test_later_tasks_do_move_what_is_theirs(method: str, norms: str) -> None:
    training = isolated(method, "cnn", norms=norms)
    states = [weights(training.net) for event in training.run() if isinstance(event, TaskDone)]
    moved = {name for name in states[0] if not torch.equal(states[0][name], states[1][name])}
    assert set(training.net.partition.prunable) <= moved
    assert set(training.net.partition.head) <= moved
    rest = set(states[0]) - {*training.net.partition.prunable, *training.net.partition.head}
    assert rest <= moved if norms == "own" else not rest & moved, "biases, BatchNorm and its statistics"


@METHOD
def test_of_the_head_only_the_rows_of_the_task_move(method: str) -> None:
    training = isolated(method, columns="all")
    before = weights(training.net)
    for event in training.run():
        if isinstance(event, TaskDone):
            now, own = weights(training.net), list(training.stream.tasks[event.task].classes)
            others = [row for row in range(6) if row not in own]
            for name in training.net.partition.head:
                assert torch.equal(now[name][others], before[name][others])
                assert not torch.equal(now[name][own], before[name][own])
            before = now


@METHOD
def test_a_head_of_its_own_leaves_other_columns_out_of_the_loss(method: str) -> None:
    training = isolated(method)
    next(event for event in training.run() if isinstance(event, StepDone))
    examples = batch(8, training.stream)
    training.parts.objective.fit_loss(training.net(examples.x), examples).sum().backward()
    gradient = training.net.stored["head.weight"].grad
    assert gradient is not None
    assert bool((gradient[2:] == 0).all())
    assert bool((gradient[:2] != 0).any())


@METHOD
def test_a_call_in_training_mode_leaves_the_statistics_of_a_finished_task_alone(method: str) -> None:
    training = finish(isolated(method, "cnn"))
    before = own_logits(training, 0)
    training.net.model.train()
    training.net(images(training, 1), 0)
    assert torch.equal(own_logits(training, 0), before)


@METHOD
def test_it_answers_for_every_task_before_during_and_after_training(method: str) -> None:
    training = isolated(method, "cnn")
    for _ in training.run():
        for task in range(3):
            assert bool(own_logits(training, task).isfinite().all())
    assert training.untrained is not None
    assert len(training.untrained.task_il) == 3


@METHOD
def test_between_tasks_whoever_names_none_is_answered_by_the_last(method: str) -> None:
    training = isolated(method, "cnn")
    for event in training.run():
        if isinstance(event, TaskDone):
            x = images(training, 0)
            with training.net.inference():
                assert torch.equal(training.net(x).logits, training.net(x, event.task).logits)


@METHOD
@NETWORK
def test_the_saved_file_answers_for_the_first_task_as_the_network_did(
    tmp_path: Path, method: str, backbone: str, norms: str
) -> None:
    of = stream()
    settings = config(
        method,
        {**OPTIONS[method], "sparsity": {"norms": norms}},
        net=NetConfig(backbone, 8),
        train=TrainConfig(epochs=2, batch_size=8),
    )
    results = esacl.run(settings, tmp_path / "run", stream=of)
    again = trainer(method, settings.options, of, net=settings.net, train=settings.train)
    next(event for event in again.run() if isinstance(event, TaskDone))
    expected = own_logits(again, 0)
    path = tmp_path / "run" / "model.safetensors"
    assert torch.equal(from_file(path, 0, images(again, 0))[:, :2], expected)
    assert results.class_il is None
    assert results.matrix["class_il"] is None
    assert results.forgetting["task_il"] == 0
    assert results.capacity == pytest.approx(results.density + 0.25 * 3 / 32)


def from_file(path: Path, task: int, x: Tensor) -> Tensor:
    """Logits of a task by nothing but the file."""
    saved = load_file(path)
    with safe_open(path, framework="pt") as file:
        about = json.loads(file.metadata()["esacl"])
    net = about["config"]["net"]
    model = build_model(net["backbone"], net["width"], tuple(about["shape"]), len(about["classes"]), seed=9)
    own = {name: value for name, value in saved.items() if not name.startswith("sparsity.")}
    model.load_state_dict(own)
    layout = Network(model, tuple(about["shape"]), torch.device("cpu")).layout  # rounding depends on the layout
    for name in own:
        if (owner := saved.get(f"sparsity.owner.{name}")) is not None:
            own[name] = torch.where((owner > 0) & (owner <= task + 1), own[name], 0.0)
        if (packed := saved.get(f"sparsity.mask.{task}.{name}")) is not None:
            own[name] = torch.where(unpack(packed, own[name].shape), own[name], 0.0)
        own[name] = saved.get(f"sparsity.norms.{task}.{name}", own[name])
    model.load_state_dict(own)
    with torch.no_grad():
        answered: Tensor = functional_call(model.eval(), {}, (x.contiguous(memory_format=layout),)).logits
    return answered


@METHOD
@pytest.mark.parametrize("backbone", ["cnn"])
def test_it_resumes_in_the_middle_of_every_phase(method: str, backbone: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"expand": "kaiming"} if method == "packnet" else {"scores": "restart"}
    used = finish(isolated(method, backbone, epochs=1, **options))
    passed = assert_resumes(lambda: isolated(method, backbone, epochs=4, **options), used, tmp_path)
    phases = {"packnet": {"fit": 4, "retrain": 2}, "wsn": {"fit": 4}}[method]
    expected = [(task, name, epoch) for task in range(3) for name, count in phases.items() for epoch in range(count)]
    assert [(event.task, event.phase, event.epoch) for event in passed if isinstance(event, EpochDone)] == expected


@METHOD
def test_class_il_is_refused_and_not_reported(method: str) -> None:
    with pytest.raises(ConfigError, match=f"{method} answers with the weights of the task that it is told"):
        trainer(method, train=TrainConfig(epochs=1, batch_size=8, scenario="class-il"))
    assert [row.class_il for row in finish(isolated(method, epochs=1)).rows] == [None] * 3


@METHOD
def test_rehearsal_with_a_head_of_its_own_is_refused(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "both", combine("both", METHODS[method], ER))
    memory = {"objective": {"buffer": 20}}
    with pytest.raises(ConfigError, match=r"train\.columns = 'task'.*Use train\.columns = 'all'"):
        trainer("both", memory, train=TrainConfig(epochs=2, batch_size=8, columns="task"))
    with pytest.raises(ConfigError, match=r"train\.columns = 'task'.*Use train\.columns = 'all'"):
        trainer("both", {**memory, "sparsity": {"head": "own"}})
    assert trainer("both", memory, train=TrainConfig(epochs=2, batch_size=8, columns="seen")).config.columns == "seen"
    training = trainer("both", {**OPTIONS[method], **memory})
    assert training.config.columns == "all"
    answers = [own_logits(training, 0) for event in training.run() if isinstance(event, TaskDone)]
    assert torch.equal(answers[0], answers[2])


@METHOD
def test_the_earlier_name_of_the_training_columns_still_works(method: str) -> None:
    assert isolated(method, head="shared").config.columns == "all"
    assert isolated(method, head="own").config.columns == isolated(method).config.columns == "task"
    with pytest.raises(ConfigError, match=r"sparsity\.head = 'shared' and train\.columns = 'seen' contradict"):
        isolated(method, columns="seen", head="shared")


@METHOD
def test_it_composes_with_importances_of_single_examples(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "both", combine("both", METHODS[method], EWC))
    training = trainer("both", OPTIONS[method])
    answers = [own_logits(training, 0) for event in training.run() if isinstance(event, TaskDone)]
    assert torch.equal(answers[0], answers[2])


@METHOD
def test_density_is_what_any_task_uses_and_there_is_a_mask_for_each(method: str) -> None:
    training = isolated(method, level=0.7)
    for event in training.run():
        if isinstance(event, TaskDone):
            masks = strategy(training).masks(training.net)
            assert len(masks) == event.task + 1
            for name, share in strategy(training).density(training.net).items():
                union = torch.stack([mask[name] for mask in masks]).any(0)
                assert share == union.sum().item() / union.numel()


@METHOD
@NORMS
def test_statistics_are_taken_from_the_task_alone_and_only_where_it_has_its_own(
    method: str, norms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Tensor] = []

    def note(net: Network, batches: Iterable[Tensor]) -> None:
        seen.append(torch.cat(list(batches)))

    monkeypatch.setattr(base, "recalibrate", note)
    monkeypatch.setitem(METHODS, "both", combine("both", METHODS[method], ER))  # with a memory of other tasks
    sparsity = {"norms": norms, "recalibrate": "task"}
    options = {**OPTIONS[method], "objective": {"buffer": 20}, "sparsity": sparsity}
    training = finish(trainer("both", options, train=TrainConfig(epochs=2, batch_size=8, columns="all")))
    tasks = training.stream.tasks if norms == "own" else training.stream.tasks[:1]
    for task, looked in zip(tasks, seen, strict=True):
        expected = training.stream.inputs.plain(task.train.x)
        assert sorted(looked.flatten(1).tolist()) == sorted(expected.flatten(1).tolist())
    assert training.net.frozen_statistics == (norms == "first")
