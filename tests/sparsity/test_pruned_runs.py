"""Pruning within whole runs: what is kept stays, what is pruned is gone, and everyone sees the same network."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import esacl
from esacl.config import NetConfig, TrainConfig
from esacl.nets import Network, build_model
from esacl.optim.update import SgdOptions
from esacl.options import NoOptions
from esacl.readouts.base import Readout
from esacl.sparsity.esacl import Esacl, EsaclOptions
from esacl.streams.base import Examples, Task
from esacl.training.events import StepDone, TaskDone
from tests.builders import config, finish, same, stream, trainer
from tests.conformance.toys import Adam
from tests.reference.evaluate import accuracies
from tests.sparsity.strategies import count, prunable

GENTLE = {"update": {"reach": 0.2, "k": 0.2}}  # a task has six steps: a longer reach would end in a vertex
ASKING = TrainConfig(epochs=2, batch_size=8, unpruned=True)
UPDATES: dict[str, dict[str, Any]] = {
    "sgd": {"sparsity": {"polytope": False}, "update": {"lr": 0.05, "weight_decay": 0.01}},
    "frank-wolfe by layer": {"update": {**GENTLE["update"], "scope": "layer"}},
    "frank-wolfe of all": {"update": {**GENTLE["update"], "scope": "global"}},
    "frank-wolfe of everything": {"update": {**GENTLE["update"], "holds": "all", "momentum_mode": "accumulate"}},
    "adam": {"sparsity": {"polytope": False}},
}
GRADIENTS: dict[str, dict[str, Any]] = {
    "plain": {"sparsity": {"sharpness": False}},
    "sharpness of the fit": {"gradient": {"rho": 0.1, "ascent": "fit"}},
    "sharpness of the total": {"gradient": {"rho": 0.1, "ascent": "total"}},
    "sharpness every other step": {"gradient": {"rho": 0.1, "every": 2}},
}


def together(*tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Options of several slots, merged."""
    slots = {slot for table in tables for slot in table}
    return {slot: {key: v for table in tables for key, v in table.get(slot, {}).items()} for slot in slots}


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("update", UPDATES)
def test_kept_weights_stay_bit_for_bit_for_the_rest_of_the_run(update: str, gradient: str) -> None:
    options = together(UPDATES[update], GRADIENTS[gradient], {"sparsity": {"level": 0.6}, "selection": {"keep": 0.5}})
    replacing = {"update": lambda known: Adam(SgdOptions(lr=0.01), known)} if update == "adam" else {}
    training = trainer("esacl-er", options, replacing=replacing)
    net, sparsity = training.net, training.parts.sparsity
    assert isinstance(sparsity, Esacl)
    masks: dict[str, Tensor] = {}
    values: dict[str, Tensor] = {}
    before = prunable(net)
    checked = 0
    for event in training.run():
        now = prunable(net)
        for name, mask in masks.items():
            assert torch.equal(now[name][mask], values[name][mask])
            if isinstance(event, StepDone):
                assert not torch.equal(now[name][~mask], before[name][~mask]), "what is free learns"
                checked += 1
        before = now
        if isinstance(event, TaskDone):
            masks = {name: mask.clone() for name, mask in sparsity.kept.items()}
            values = now
    assert checked == 2 * 2 * 2 * 3  # tasks, epochs, layers, steps
    assert count(masks) == round(0.4 * sum(mask.numel() for mask in masks.values()))


def test_the_network_is_read_out_and_judged_unpruned_then_pruned_read_out_and_judged_again() -> None:
    log: list[str] = []

    class Noted(Esacl):
        def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
            assert remembered is not None, "the memory is there, with examples of this task"
            log.append("prune")
            super().end_task(net, task, remembered)

    class Judging(Readout):
        def fit(self, net: Network, task: Task, remembered: Examples | None) -> None:
            log.append("fit readout")

        def logits(self, net: Network, x: Tensor, task: int | None) -> Tensor:
            dense = all(bool((net.stored[name] != 0).all()) for name in net.partition.prunable)
            log.append("judge dense" if dense else "judge pruned")
            return super().logits(net, x, task)

    replacing = {
        "sparsity": lambda known: Noted(EsaclOptions(), known),
        "readout": lambda known: Judging(NoOptions(), known),
    }
    finish(trainer("esacl-er", GENTLE, stream(tasks=2), replacing, train=ASKING))
    stage = ["fit readout", "judge dense", "judge dense", "prune", "fit readout", "judge pruned", "judge pruned"]
    assert log == ["judge dense", "judge dense", *stage, *stage]


def test_accuracies_before_and_after_pruning_are_those_of_the_two_networks() -> None:
    seen: list[tuple[float, ...]] = []
    of = stream()

    class Noted(Esacl):
        def end_task(self, net: Network, task: Task, remembered: Examples | None) -> None:
            seen.append(tuple(accuracies(net.model, of, "test")[0]))
            super().end_task(net, task, remembered)
            seen.append(tuple(accuracies(net.model, of, "test")[0]))

    replacing = {"sparsity": lambda known: Noted(EsaclOptions(level=0.9), known)}
    training = finish(trainer("esacl-er", GENTLE, of, replacing, train=replace(ASKING, epochs=6)))
    assert [row.task_il for row in training.unpruned] == seen[::2]
    assert [row.task_il for row in training.rows] == seen[1::2]
    assert training.unpruned != training.rows


def test_a_method_that_does_not_prune_is_judged_once() -> None:
    assert finish(trainer("er", train=ASKING)).unpruned == []


@pytest.mark.parametrize(("backbone", "width"), [("mlp", 16), ("cnn", 4)])
def test_what_is_evaluated_saved_and_reported_is_the_pruned_network(tmp_path: Path, backbone: str, width: int) -> None:
    of = stream()
    options = {**GENTLE, "sparsity": {"level": 0.7, "form": "freeze"}, "objective": {"buffer": 20}}
    settings = config("esacl-der++", options, net=NetConfig(backbone, width), train=TrainConfig(epochs=2, batch_size=8))
    results = esacl.run(settings, tmp_path / "run", stream=of)
    saved = load_file(tmp_path / "run" / "model.safetensors")
    model = build_model(backbone, width, of.shape, 6, seed=5)
    model.load_state_dict(saved)
    names = Network(model, of.shape, torch.device("cpu")).partition.prunable
    size = sum(saved[name].numel() for name in names)
    kept = sum(int((saved[name] != 0).sum()) for name in names)
    assert kept == round(0.3 * size)
    assert results.density == results.capacity == pytest.approx(kept / size, abs=1e-12)
    assert results.sparsity == 0.7
    document = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (document["density"], document["capacity"], document["sparsity"]) == (results.density, results.capacity, 0.7)
    task_il, class_il = accuracies(model, of, "test")
    assert results.matrix["task_il"] is not None
    assert results.matrix["class_il"] is not None
    assert results.matrix["task_il"][-1] == pytest.approx(task_il)
    assert results.matrix["class_il"][-1] == pytest.approx(class_il)


def test_training_is_credited_for_the_zeros_that_pruning_leaves_in_the_last_state() -> None:
    training = finish(trainer("esacl-er", {**GENTLE, "sparsity": {"level": 0.8}}))
    meter, shares = training.net.meter, training.parts.sparsity.density(training.net)
    kept = {f"{name}.weight": macs for name, macs in meter.layers.items()}
    assert meter.sparse == pytest.approx(sum(macs * shares.get(name, 1.0) for name, macs in kept.items()))
    assert meter.sparse < 0.5 * meter.dense


def test_a_run_that_expands_with_zeros_is_as_repeatable_as_any() -> None:
    runs = [finish(trainer("esacl-er", {**GENTLE, "sparsity": {"expand": "zero"}})) for _ in range(2)]
    assert same(prunable(runs[0].net), prunable(runs[1].net))
    density = runs[0].parts.sparsity.density(runs[0].net)
    assert 0 < max(density.values()) <= 1
    total = sum(value.numel() for value in prunable(runs[0].net).values())
    assert sum(int((value != 0).sum()) for value in prunable(runs[0].net).values()) <= round(0.2 * total)
