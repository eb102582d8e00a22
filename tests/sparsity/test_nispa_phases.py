"""A task of NISPA, phase by phase: what is chosen, when it ends, what is undone, and how it resumes."""

from pathlib import Path

import pytest
import torch

from esacl.nets.connections import HEAD, IMAGE, connections
from esacl.sparsity.base import Phase
from esacl.sparsity.stable_units import mean_activity
from esacl.training.events import EpochDone, TaskDone
from esacl.training.trainer import Trainer
from tests.builders import finish, network, same, stream, weights
from tests.reference.evaluate import accuracies
from tests.reference.nispa import forbidden, share, smallest_set
from tests.resuming import assert_resumes
from tests.sparsity.nispa_tools import NETS, copied, of, part, strategy, training

FALLS = (1.0, 1.0, 1.0, 0.9)  # accuracies of a task's phases: the choice after the third goes too far


def epochs_of(run: Trainer) -> list[int]:
    """Epochs that each task was trained for."""
    counts = [0, 0, 0]
    for event in run.run():
        if isinstance(event, EpochDone):
            counts[event.task] += 1
    return counts


@pytest.mark.parametrize(
    ("epochs", "longest", "lengths"),
    [(10, 5, [5, 5]), (10, 3, [3, 3, 2, 2]), (10, None, [5, 5]), (12, None, [4, 4, 4]), (3, None, [2, 1]), (1, 7, [1])],
)
def test_phases_share_the_epochs_of_a_task_evenly(epochs: int, longest: int | None, lengths: list[int]) -> None:
    made = strategy(training(epochs=epochs, phase_epochs=longest))
    phases = [made.next_phase(0, done) for done in range(len(lengths))]
    assert phases == [Phase("fit", length) for length in lengths]
    assert made.next_phase(0, len(lengths)) is None
    assert made.planned_epochs() == epochs


def test_a_task_ends_when_its_epochs_are_used_up() -> None:
    assert epochs_of(training(epochs=5, script=())) == [5, 5, 5]
    assert epochs_of(training(epochs=5, script=(), phase_epochs=2)) == [5, 5, 5]


@pytest.mark.parametrize(
    ("script", "tolerance", "trained"),
    [
        (FALLS, 0.75, 4),
        (FALLS, 10.5, 6),
        ((1.0, 0.2, 0.3), 0.75, 3),  # the best of all phases counts, not the one before
        ((0.5, 0.5, 0.5, 0.5, 0.4926), 0.75, 6),
        ((0.5, 0.5, 0.5, 0.5, 0.4924), 0.75, 5),
        ((1.0, 0.0), 0.75, 6),  # the first choice stays, whatever it costs
    ],
)
def test_a_task_ends_when_validation_accuracy_falls_too_far_below_the_best(
    script: tuple[float, ...], tolerance: float, trained: int
) -> None:
    script = (*script, *[max(script) if trained == 6 else 0.0] * (6 - len(script)))
    assert epochs_of(training(epochs=6, script=script, tolerance=tolerance)) == [trained] * 3


@pytest.mark.parametrize(("backbone", "width"), NETS)
def test_what_went_too_far_is_undone_bit_for_bit(backbone: str, width: int) -> None:
    """Weights, statistics, edges and stable units are those of before the last choice, at the end of the phase."""
    run = training(backbone, width, epochs=6, script=FALLS)
    made = strategy(run)
    before = None
    for event in run.run():
        if isinstance(event, EpochDone) and made.done == 2 and event.task == 0:  # the third phase ends after this
            before = weights(run.net), copied(made.wiring.live), copied(made.stable)
        if isinstance(event, EpochDone) and made.done == 3 and event.task == 0:
            assert before is not None
            assert not same(weights(run.net), before[0])
            assert not same(made.wiring.live, before[1])
            assert not same(made.stable, before[2])
        if isinstance(event, TaskDone):
            assert before is not None
            assert same(weights(run.net), before[0])
            assert same(made.wiring.live, before[1])
            assert same(made.held, before[2])
            return


def test_units_are_chosen_by_their_activation_and_edges_follow() -> None:
    net = network("cnn", 8)
    made = part(net, phase_epochs=1)
    task = of("cnn").tasks[0]
    images = stream().inputs.plain(task.train.x)
    readers = [one for one in connections(net.model) if one.reads != IMAGE]
    for phase in (1, 2, 3):
        net.train_mode()
        net(images)
        seen = mean_activity(net, readers, [images])
        before = copied(made.wiring.live)
        made.end_phase(net, task, Phase("fit", 1))
        tau = share(phase, 5)
        for group, activity in seen.items():
            nobody = [False] * len(activity)
            assert made.stable[group].tolist() == smallest_set(activity.tolist(), nobody, tau)
        assert made.stable[HEAD].tolist() == [True, True, False, False, False, False]
        for one in made.wiring.layers:
            writes, reads = made.stable[one.writes], made.stable[one.reads]
            assert forbidden(made.wiring.live[one.weight], writes.tolist(), reads.tolist()) == []
            kept = before[one.weight] & ~(writes.unsqueeze(1) & ~reads.unsqueeze(0))
            assert bool(made.wiring.live[one.weight][kept].all()), "edges that may stay do"
    assert int(made.stable["layers.8"].sum()) < 32


def test_when_the_share_has_fallen_to_0_what_was_chosen_last_stays() -> None:
    net = network("mlp", 16)
    made = part(net, phase_epochs=1, steps=2, tolerance=100)
    task, chosen = of("mlp").tasks[0], []
    for _ in range(3):
        made.end_phase(net, task, Phase("fit", 1))
        chosen.append((copied(made.stable), copied(made.wiring.live), weights(net)))
    assert 0 < int(chosen[0][0]["first"].sum()) < 16
    assert all(same(one, first) for later in chosen[1:] for one, first in zip(later, chosen[0]))


def test_activation_of_earlier_tasks_units_counts_towards_the_share() -> None:
    net = network("mlp", 16)
    made = part(net)
    task = of("mlp").tasks[0]
    made.held["first"] = torch.arange(16) < 14
    made.done = 2
    made._choose(net, task)
    assert torch.equal(made.stable["first"], made.held["first"]), "14 of 16 units carry the share already"


def test_an_edge_of_the_head_is_cut_only_while_it_joins_a_plastic_to_a_stable_unit() -> None:
    net = network("mlp", 16)
    made = part(net, phase_epochs=1)
    task = of("mlp").tasks[0]
    for _ in range(3):
        made.end_phase(net, task, Phase("fit", 1))
        plastic = ~made.stable["second"]
        cut = ~made.wiring.live["head.weight"]
        assert bool(cut[:2, plastic].all())
        assert int(cut.sum()) == 2 * int(plastic.sum())
        assert bool((net.stored["head.weight"][cut] == 0).all())


def test_a_task_of_one_phase_chooses_at_its_end() -> None:
    run = finish(training(epochs=1))
    held = strategy(run).held
    assert int(held[HEAD].sum()) == 6
    assert 0 < int(held["first"].sum()) < 16


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_accuracy_is_that_of_the_tasks_own_columns_on_its_validation_examples(backbone: str) -> None:
    net, known = network(backbone, 8), of(backbone)
    made = part(net)
    task_il, _ = accuracies(net.model, known, "validation")
    assert [made._accuracy(net, task) for task in known.tasks] == pytest.approx(task_il)


@pytest.mark.parametrize(("backbone", "width"), NETS[:2])
def test_it_resumes_in_the_middle_of_every_phase(backbone: str, width: int, tmp_path: Path) -> None:
    """Phases of two epochs, one of which is undone."""

    def build() -> Trainer:
        return training(backbone, width, epochs=8, script=FALLS, phase_epochs=2)

    used = build()
    for _, event in zip(range(40), used.run()):
        assert event is not None
    assert len(assert_resumes(build, used, tmp_path)) == 3 * (8 + 1)
