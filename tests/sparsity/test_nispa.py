"""What NISPA promises of units and edges."""

import pytest
import torch

from esacl.errors import ConfigError
from esacl.methods import resolve
from esacl.nets.connections import HEAD, IMAGE
from esacl.training.events import StepDone, TaskDone
from tests.builders import config, finish, network, same, stream, weights
from tests.reference.nispa import forbidden
from tests.sparsity.nispa_tools import (
    NETS,
    copied,
    live_weights,
    of,
    part,
    strategy,
    torch_equal,
    training,
    what_units_say,
    written_by,
)


@pytest.mark.parametrize(("backbone", "width"), NETS)
def test_the_density_is_the_same_at_every_moment_and_dead_edges_are_zero_after_every_step(
    backbone: str, width: int
) -> None:
    run = training(backbone, width, level=0.6, update={"momentum": 0.9, "weight_decay": 0.01})
    made, net = strategy(run), run.net
    total = sum(net.stored[name].numel() for name in net.partition.prunable)
    kernel = max(net.stored[name][0, 0].numel() for name in net.partition.prunable)
    wanted, begun = round(0.4 * total), live_weights(net)
    for _ in run.run():
        (masks,) = made.masks(net)
        assert masks.keys() == set(net.partition.prunable)
        for name, live in masks.items():
            assert live.shape == net.stored[name].shape
            assert bool((net.stored[name][~live] == 0).all())
            assert bool((net.stored[name][live] != 0).all())
        now = sum(int(live.sum()) for live in masks.values())
        assert now == live_weights(net)
        assert wanted - kernel < now <= wanted
        assert now == begun or backbone == "resnet10", "kernels of one size change places one for one"
    assert made.target == 0.6


@pytest.mark.parametrize(("backbone", "width"), NETS)
def test_stable_units_read_only_stable_units(backbone: str, width: int) -> None:
    run = training(backbone, width)
    made, ends = strategy(run), 0
    for event in run.run():
        if isinstance(event, TaskDone):
            ends += 1
            assert int(made.held[HEAD].sum()) == 2 * ends
            assert bool(made.held[IMAGE].all())
            for one in made.wiring.layers:
                writes, reads = made.held[one.writes].tolist(), made.held[one.reads].tolist()
                assert forbidden(made.wiring.live[one.weight], writes, reads) == []
                assert any(writes)
                joined = run.net.stored[one.weight].detach().ne(0).view(len(writes), len(reads), -1).any(2)
                assert forbidden(joined, writes, reads) == []
    assert ends == 3
    assert any(not bool(held.all()) for group, held in made.held.items() if group not in (HEAD, IMAGE))


@pytest.mark.parametrize(("backbone", "width"), NETS)
def test_what_writes_a_stable_unit_never_changes_after_its_task(backbone: str, width: int) -> None:
    run = training(backbone, width, update={"momentum": 0.9, "weight_decay": 0.1})
    made, past = strategy(run), []
    for event in run.run():
        for held, values in past:
            assert same(written_by(run.net, made, held), values)
            assert all(bool(made.held[group][units].all()) for group, units in held.items())
        if isinstance(event, TaskDone):
            held = copied(made.held)
            past.append((held, written_by(run.net, made, held)))
    assert len(past) == 3


@pytest.mark.parametrize(("backbone", "width"), NETS)
def test_what_stable_units_say_of_old_images_never_changes(backbone: str, width: int) -> None:
    """Bit for bit, in evaluation mode: the rows of old classes read nobody but them, so Task-IL forgets nothing."""
    run = training(backbone, width)
    made, past = strategy(run), []
    tasks = of(backbone).tasks
    for event in run.run():
        if not isinstance(event, StepDone):
            for x, held, said in past:
                now = what_units_say(run.net, x)
                assert all(torch_equal(said[group], now[group], units) for group, units in held.items())
        if isinstance(event, TaskDone):
            x = run.stream.inputs.plain(tasks[event.task].test.x)
            past.append((x, copied(made.held), what_units_say(run.net, x)))
    learnt = [row.task_il for row in run.rows]
    for task in range(3):
        assert {row[task] for row in learnt[task:]} == {learnt[task][task]}


def test_plastic_units_go_on_learning() -> None:
    run = training("cnn", 8)
    made = strategy(run)
    events = run.run()
    while not isinstance(next(events), TaskDone):
        pass
    plastic = {group: ~units for group, units in made.held.items()}
    before = written_by(run.net, made, plastic)
    finish(run)
    after = written_by(run.net, made, plastic)
    for one in made.wiring.layers:
        assert before[one.weight].numel() > 0
        assert not torch.equal(before[one.weight], after[one.weight])


def test_a_task_starts_with_fresh_values_on_the_live_edges_into_plastic_units() -> None:
    net = network("cnn", 8)
    made = part(net)
    task = of("cnn").tasks[0]
    with torch.no_grad():
        for value in net.stored.values():
            value.add_(1.0)
    made._cut(net)
    net.train_mode()
    net(stream().inputs.plain(task.train.x))
    made.done = 2
    made._choose(net, task)
    made.end_task(net, task, None)
    before, live = weights(net), copied(made.wiring.live)
    made.begin_task(net, of("cnn").tasks[1])
    after = weights(net)
    assert same(live, made.wiring.live)
    for one in made.wiring.inner.values():
        held = made.held[one.writes]
        assert held.any()
        assert not held.all()
        names = [
            one.weight,
            f"{one.norms[0]}.weight",
            f"{one.norms[0]}.bias",
            f"{one.norms[0]}.running_mean",
            f"{one.norms[0]}.running_var",
        ]
        for name, fresh in zip(names, (None, 1.0, 0.0, 0.0, 1.0)):
            assert torch.equal(after[name][held], before[name][held])
            if fresh is None:
                edges = live[name][~held]
                assert bool((after[name][~held][edges] != before[name][~held][edges]).all())
                assert float(after[name][~held][edges].mean()) < 0.5, "all were around 1"
            else:
                assert bool((after[name][~held] == fresh).all())
    answered = made.held[HEAD]
    assert torch.equal(after["head.weight"][answered], before["head.weight"][answered])
    assert torch.equal(after["head.bias"][~answered], torch.zeros(4))


def test_few_edges_bring_a_unit_as_much_as_all_would() -> None:
    net = network("mlp", 256)
    part(net, level=0.9)
    x = torch.randn(64, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        sparse, dense = net(x).features, network("mlp", 256)(x).features
    assert float(sparse.square().mean()) == pytest.approx(float(dense.square().mean()), rel=0.35)


def test_edges_depend_on_the_seed_and_the_layer() -> None:
    one, again, other = (part(network("mlp", 64), seed=seed).wiring.live for seed in (0, 0, 1))
    assert same(one, again)
    first, second = "backbone.first.weight", "backbone.second.weight"
    assert not torch.equal(one[first], other[first])
    assert not torch.equal(one[first], one[second]), "both are 64×64"


def test_a_choice_without_room_for_as_many_edges_is_not_made() -> None:
    net = network("mlp", 8)
    made = part(net)
    task = of("mlp").tasks[0]
    for live in made.wiring.live.values():
        live.fill_(True)
    made.wiring.budget = sum(net.stored[name].numel() for name in net.partition.prunable)
    before, stable = weights(net), copied(made.stable)
    made.done = 1
    made._choose(net, task)
    assert same(weights(net), before)
    assert same(made.stable, stable)


def test_less_than_half_of_zeros_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"sparsity\.level = 0\.2 is not allowed\. Allowed: a number from 0\.5 to"):
        resolve(config("nispa", {"sparsity": {"level": 0.2}}), stream())


def test_the_statistics_of_stable_units_survive_recalibration() -> None:
    run = training("cnn", 8, recalibrate="mixed")
    made, past = strategy(run), []
    for event in run.run():
        if isinstance(event, TaskDone):
            assert all(same(written_by(run.net, made, held), values) for held, values in past)
            past.append((copied(made.held), written_by(run.net, made, made.held)))
    assert len(past) == 3


def test_nothing_to_go_back_to_is_left_when_training_has_ended() -> None:
    run = finish(training("mlp", 16))
    assert strategy(run).before is None
