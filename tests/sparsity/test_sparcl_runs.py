"""SparCL within whole runs: zeros stay zero, few weights move, and each of its parts can be left out."""

from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from esacl.config import NetConfig, PartsConfig, TrainConfig
from esacl.optim.update import SgdOptions
from esacl.runner.results import figures
from esacl.selection.base import KeepAll
from esacl.selection.removal import Removal
from esacl.sparsity.sparcl import Sparcl, SparclOptions
from esacl.training.events import EpochDone, StepDone, TaskDone
from esacl.training.trainer import Trainer
from esacl.types import Params
from tests.builders import config, context, finish, network, same, stream, trainer
from tests.conformance.toys import Adam
from tests.reference.sparcl import masked_step
from tests.resuming import assert_resumes
from tests.sparsity.strategies import count, prunable

ROWS = ["sparcl", "sparcl-ewc", "sparcl-er", "sparcl-der++", "sparcl-co2l"]
HEAVY = {"update": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.05}}


def strategy_of(training: Trainer) -> Sparcl:
    assert isinstance(training.parts.sparsity, Sparcl)
    return training.parts.sparsity


@pytest.mark.parametrize("rule", ["paper", "code"])
@pytest.mark.parametrize("row", ROWS)
def test_weights_outside_the_mask_are_0_after_every_step_with_momentum_and_weight_decay(row: str, rule: str) -> None:
    options: dict[str, dict[str, Any]] = {**HEAVY, "sparsity": {"rule": rule, "level": 0.7, "adjust": 0.05}}
    training = trainer(row, options, net=NetConfig("cnn", 4), train=TrainConfig(epochs=3, batch_size=8))
    strategy, steps = strategy_of(training), 0
    for event in training.run():
        steps += isinstance(event, StepDone)
        for name, live in strategy.live.items():
            weight = training.net.stored[name]
            assert (weight[~live] == 0).all()
            assert (weight[live] != 0).any()
    assert steps > 20


def test_weights_outside_the_mask_are_0_after_every_step_of_adam() -> None:
    training = trainer("sparcl-er", replacing={"update": lambda known: Adam(SgdOptions(lr=0.01), known)})
    for _ in training.run():
        for name, live in strategy_of(training).live.items():
            assert (training.net.stored[name][~live] == 0).all()


@pytest.mark.parametrize("net", [NetConfig("mlp", 16), NetConfig("cnn", 4)])
@pytest.mark.parametrize("epochs", [1, 2, 7])
@pytest.mark.parametrize("level", [0.5, 0.83])
@pytest.mark.parametrize("rule", ["paper", "code"])
def test_the_density_is_the_target_exactly_at_the_end_of_every_task(
    rule: str, level: float, epochs: int, net: NetConfig
) -> None:
    options = {"sparsity": {"rule": rule, "level": level, "adjust": 0.07}}
    training = trainer("sparcl-er", options, net=net, train=TrainConfig(epochs=epochs, batch_size=8))
    strategy, seen = strategy_of(training), set()
    size = sum(live.numel() for live in strategy.live.values())
    ends = 0
    for event in training.run():
        if isinstance(event, TaskDone):
            ends += 1
            assert count(strategy.live) == round((1 - level) * size)
            shares = strategy.density(training.net)
            assert sum(shares[name] * live.numel() for name, live in strategy.live.items()) == pytest.approx(
                count(strategy.live)
            )
        seen.add(count(strategy.live))
    assert ends == 3
    assert max(seen) > round((1 - level) * size), "it had more room while it learnt"


@pytest.mark.parametrize("rule", ["paper", "code"])
def test_blocks_have_the_target_and_stem_and_shortcuts_are_dense(rule: str) -> None:
    options = {"sparsity": {"rule": rule, "level": 0.9}}
    of = stream(tasks=2, shape=(3, 16, 16))
    training = finish(trainer("sparcl-er", options, of, net=NetConfig("resnet10", 4)))
    strategy, net = strategy_of(training), training.net
    masks = {name: strategy.masks(net)[0][name] for name in strategy.constrained()}
    sizes = {name: net.stored[name].numel() for name in net.partition.prunable}
    masked = sum(mask.numel() for mask in masks.values())
    assert count(masks) == round(0.1 * masked)
    dense = sizes.keys() - masks.keys()
    assert {"backbone.stem.weight"} < dense, "stem and shortcuts"
    assert all((net.stored[name] != 0).all() for name in dense)

    found = figures(training, config("sparcl-er", options), seconds=1.0, peak_memory=1)
    whole = sum(sizes.values())
    assert found.sparsity == 0.9, "of the masked layers"
    assert found.density == pytest.approx((whole - masked + count(masks)) / whole)
    assert found.capacity == found.density > 0.1


@pytest.mark.parametrize("refresh", [1, 2, 5])
def test_only_weights_with_large_gradients_move_until_they_are_chosen_anew(refresh: int) -> None:
    """The displacement is constrained: momentum and weight decay would move the others as well."""
    chosen: list[Params] = []

    class Noted(Sparcl):
        def observe_gradients(self, gradients: Params, memory: Any) -> None:
            super().observe_gradients(gradients, memory)
            chosen.append({name: mask.clone() for name, mask in self.moving.items()})
            if (self._step - 1) % refresh == 0:
                for name, moving in self.moving.items():
                    live, sizes = self.live[name], gradients[name].abs()
                    assert int(moving.sum()) == max(1, round(0.3 * int(live.sum())))
                    assert not (moving & ~live).any()
                    held = live & ~moving
                    assert sizes[moving].min() >= sizes[held].max()

    settings = SparclOptions(level=0.5, share=0.3, refresh=refresh, tdm=False)
    training = trainer("sparcl-er", HEAVY, replacing={"sparsity": lambda known: Noted(settings, known)})
    before, steps = prunable(training.net), 0
    for event in training.run():
        now = prunable(training.net)
        if isinstance(event, StepDone):
            for name, moving in chosen[-1].items():
                assert torch.equal(now[name][~moving], before[name][~moving])
                assert not torch.equal(now[name][moving], before[name][moving])
            steps += 1
        before = now
    first = [same(one, other) for one, other in pairwise(chosen)][:2]  # within the first epoch of three steps
    assert first == {1: [False, False], 2: [True, False], 5: [True, True]}[refresh]
    assert steps == len(chosen)


def test_under_plain_sgd_masked_steps_are_steps_along_masked_gradients() -> None:
    """Without momentum and weight decay it is the same whether DGM masks gradients, as its authors do, or steps."""
    seen: list[Params] = []

    class Noted(Sparcl):
        def observe_gradients(self, gradients: Params, memory: Any) -> None:
            super().observe_gradients(gradients, memory)
            seen.append({name: gradients[name].clone() for name in self.constrained()})

    settings = SparclOptions(level=0.5, share=0.3, refresh=2, tdm=False)
    plain = {"update": {"lr": 0.125, "momentum": 0.0, "weight_decay": 0.0, "schedule": "constant"}}
    training = trainer("sparcl-er", plain, replacing={"sparsity": lambda known: Noted(settings, known)})
    strategy, before = strategy_of(training), prunable(training.net)
    for event in training.run():
        now = prunable(training.net)
        if isinstance(event, StepDone):
            for name, gradient in seen[-1].items():
                live, moving = strategy.live[name].flatten().tolist(), strategy.moving[name].flatten().tolist()
                expected = masked_step(
                    before[name].flatten().tolist(), gradient.flatten().tolist(), live, moving, 0.125
                )
                assert torch.allclose(now[name].flatten(), torch.tensor(expected), rtol=0, atol=1e-7)
        before = now
    assert len(seen) > 10


def test_without_a_gradient_all_live_weights_of_a_layer_may_move() -> None:
    net = network()
    strategy = Sparcl(SparclOptions(level=0.5, share=0.1), context())
    strategy.attach(net)
    strategy.begin_epoch(net, 0)
    name, other = net.partition.prunable
    strategy.observe_gradients({other: torch.ones_like(net.stored[other])}, dict)
    assert torch.equal(strategy.moving[name], strategy.live[name])
    assert int(strategy.moving[other].sum()) == round(0.1 * int(strategy.live[other].sum()))


def observed(**switches: bool) -> tuple[bool, bool, bool, Trainer]:
    """Whether the mask changed, some live weights were held, and some data were removed, in a run."""
    options, settings = {"sparsity": {"level": 0.5, **switches}}, TrainConfig(epochs=4, batch_size=8)
    training = trainer("sparcl-er", options, net=NetConfig("cnn", 4), train=settings)
    strategy = strategy_of(training)
    masks = {name: live.clone() for name, live in strategy.live.items()}
    changed = held = removed = False
    before: dict[str, Tensor] = prunable(training.net)
    for event in training.run():
        now = prunable(training.net)
        if isinstance(event, StepDone):
            changed |= not same(masks, strategy.live)
            still = sum(int((now[name] == before[name])[live].sum()) for name, live in strategy.live.items())
            held |= still > 0.1 * count(strategy.live)
        removed |= isinstance(event, EpochDone) and event.samples < 24
        before = now
    return changed, held, removed, training


@pytest.mark.parametrize("off", ["tdm", "dgm", "ddr"])
def test_each_part_is_switched_off_alone(off: str) -> None:
    changed, held, removed, training = observed(**{off: False})
    assert (changed, held, removed) == (off != "tdm", off != "dgm", off != "ddr")
    assert type(training.parts.selection) is (KeepAll if off == "ddr" else Removal)
    strategy = strategy_of(training)
    assert count(strategy.live) == round(0.5 * sum(live.numel() for live in strategy.live.values()))


def test_all_parts_together_and_none() -> None:
    assert observed()[:3] == (True, True, True)
    assert observed(tdm=False, dgm=False, ddr=False)[:3] == (False, False, False)


@pytest.mark.parametrize("fit_loss", ["ce", "ace"])
@pytest.mark.parametrize("row", ["sparcl", "sparcl-der++"])
def test_without_ddr_every_epoch_presents_every_example_once(
    row: str, fit_loss: Literal["ce", "ace"], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(KeepAll, "observe", lambda self, trace: seen.extend(trace.batch.index.tolist()))
    of, settings = stream(tasks=2), TrainConfig(epochs=5, batch_size=8, fit_loss=fit_loss)
    training = trainer(row, {"sparsity": {"ddr": False}}, of, train=settings)
    epochs = 0
    for event in training.run():
        if isinstance(event, EpochDone):
            epochs += 1
            assert event.samples == len(of.tasks[event.task].train)
            assert sorted(seen) == list(range(event.samples))
            seen.clear()
    assert epochs == 2 * 5


@pytest.mark.parametrize("net", [NetConfig("cnn", 4), NetConfig("resnet10", 2)])
@pytest.mark.parametrize("rule", ["paper", "code"])
def test_it_resumes_after_every_epoch_of_a_task_to_the_same_bits(rule: str, net: NetConfig, tmp_path: Path) -> None:
    def build() -> Trainer:
        options = {"sparsity": {"rule": rule, "level": 0.5, "adjust": 0.05, "refresh": 2}}
        settings = TrainConfig(epochs=5, batch_size=8)
        return trainer("sparcl-der++", options, stream(tasks=2, shape=(1, 9, 9)), train=settings, net=net)

    used = build()
    for _, event in zip(range(17), used.run()):
        assert event is not None
    assert len(assert_resumes(build, used, tmp_path)) == 2 * (5 + 1)


def test_training_is_credited_for_the_zeros_it_has_at_all_times() -> None:
    options = {"sparsity": {"level": 0.8, "adjust": 0.0}}
    meter = finish(trainer("sparcl-er", options, parts=PartsConfig(readout="own"))).net.meter
    head = meter.layers["head"]
    expected = (0.2 * (meter.dense - head) + head) / meter.dense
    assert meter.sparse_macs["train"] / meter.executed_macs["train"] == pytest.approx(expected, rel=0.01)
