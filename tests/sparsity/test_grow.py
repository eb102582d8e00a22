"""Growth: nothing below the head changes for earlier tasks, and parts train as the whole network would."""

import pytest
import torch

from esacl.config import NetConfig, PartsConfig, TrainConfig
from esacl.errors import ConfigError
from esacl.nets.branches import TRUNK
from esacl.nets.connections import HEAD
from esacl.sparsity.grow import Grow
from esacl.streams.loading import Loader
from esacl.training.events import TaskDone
from esacl.training.trainer import Trainer
from tests.builders import context, finish, same, stream, trainer, weights
from tests.reference.grow import train_branch

NETS = {"mlp": NetConfig("mlp", 16), "cnn": NetConfig("cnn", 8), "resnet10": NetConfig("resnet10", 4)}


def growing(method="grow", backbone="mlp", sgd=None, tasks=3, readout=None, **sparsity) -> Trainer:
    """A short run, with Adam or with these settings of SGD."""
    shape = (1, 10, 10) if backbone == "resnet10" else (1, 8, 8)
    options = {"sparsity": sparsity, "update": sgd or {"lr": 0.01}}
    if method != "grow":
        options["objective"] = {"buffer": 20}
    train = TrainConfig(epochs=1, batch_size=8)
    of = stream(tasks=tasks, shape=shape)
    parts = PartsConfig(update="sgd" if sgd else None, readout=readout)
    return trainer(method, options, of=of, net=NETS[backbone], train=train, parts=parts)


def strategy(training: Trainer) -> Grow:
    found = training.parts.sparsity
    assert isinstance(found, Grow)
    return found


def answers(training: Trainer, task: int) -> torch.Tensor:
    """Features of a task's branch on all test images, and where it learns alone also its own logits."""
    images = torch.cat([each.test.x for each in training.stream.tasks])
    with training.net.inference():
        features, logits = training.net(training.stream.inputs.plain(images))
    grown = strategy(training)
    own = features[:, slice(*grown.branches.spans[task][grown.branches.head.reads])]
    if grown.options.step == "own":
        own = torch.cat([own, logits[:, list(training.stream.tasks[task].classes)]], 1)
    return own.clone()


@pytest.mark.parametrize("method", ["grow", "grow-er", "grow-der++", "grow-icarl"])
@pytest.mark.parametrize("backbone", NETS)
def test_earlier_tasks_keep_their_bits_below_the_head(method, backbone):
    training = growing(method, backbone)
    kept: list[tuple[torch.Tensor, dict[str, torch.Tensor]]] = []
    for event in training.run():
        if isinstance(event, TaskDone):
            branches = strategy(training).branches
            for task, (before, values) in enumerate(kept):
                assert torch.equal(answers(training, task), before)
                now = {**branches.values(task), **branches.values(TRUNK)}
                assert all(torch.equal(now[name], value) for name, value in values.items())
            values = {**branches.values(event.task), **branches.values(TRUNK)}
            below = {name: value.clone() for name, value in values.items() if not name.startswith("head")}
            kept.append((answers(training, event.task), below))
    assert len(kept) == 3
    assert all(before.any() for before, _ in kept)


def test_decay_and_momentum_move_nothing_of_earlier_tasks():
    training = growing(backbone="cnn", sgd={"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01})
    after = [answers(training, 0) for event in training.run() if isinstance(event, TaskDone)]
    assert torch.equal(after[0], after[2])


@pytest.mark.parametrize("backbone", NETS)
def test_what_is_stored_is_an_ordinary_network(backbone):
    done = finish(growing(backbone=backbone))
    grown = strategy(done)
    x = done.stream.inputs.plain(torch.cat([task.test.x for task in done.stream.tasks]))
    with done.net.inference():
        parts = done.net(x)
        done.net.route = None
        whole = done.net(x)
    torch.testing.assert_close(parts.logits, whole.logits)
    for one in grown.branches.layers:
        inside = torch.zeros_like(done.net.stored[one.weight], dtype=torch.bool)
        for owner in grown.branches.spans:
            if one.weight in (pieces := grown.branches.pieces(owner)):
                inside[pieces[one.weight]] = True
        assert not done.net.stored[one.weight][~inside].any()
        if one.writes == HEAD:
            for task in done.stream.tasks:
                others = [column for column in range(6) if column not in task.classes]
                assert not done.net.stored[one.weight][
                    others, slice(*grown.branches.spans[task.index][one.reads])
                ].any()


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_a_branch_learns_what_the_whole_network_with_masks_would(backbone):
    training = growing(backbone=backbone, sgd={"lr": 0.1, "momentum": 0.0, "schedule": "constant"})
    branches = strategy(training).branches
    twin = growing(backbone=backbone).net.model
    for event in training.run():
        if not isinstance(event, TaskDone):
            continue
        task = training.stream.tasks[event.task]
        before = {name: value.clone() for name, value in twin.state_dict().items()}
        own = {**branches.pieces(event.task), **(branches.pieces(TRUNK) if event.task == 0 else {})}
        free = {name: torch.zeros_like(value, dtype=torch.bool) for name, value in before.items()}
        for name, place in own.items():
            free[name][place] = True
        free["head.bias"][list(task.classes)] = True
        if event.task:  # as the branch was drawn
            fresh = growing(backbone=backbone)
            for number in range(1, event.task + 1):
                strategy(fresh).begin_task(fresh.net, training.stream.tasks[number])
            with torch.no_grad():
                for name, value in twin.state_dict().items():
                    if value.is_floating_point():
                        value.copy_(torch.where(free[name], fresh.net.model.state_dict()[name], value))
        trunk = {norm for one in branches.own(TRUNK) for norm in one.norms} if event.task else set()
        still = [module for name, module in twin.named_modules() if name in trunk]
        loader = Loader(training.stream, task.index, task.train, 8, 0, torch.device("cpu"), 1)
        batches = [(batch.x, batch.y) for batch in loader.epoch(0, None)]
        train_branch(twin, free, still, batches, list(task.classes), 0.1)
        for name, value in twin.state_dict().items():
            if value.is_floating_point():
                torch.testing.assert_close(value, training.net.model.state_dict()[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("quota", ["even", "first", "geometric"])
@pytest.mark.parametrize("level", [0.7, 0.85])
def test_as_many_weights_are_zero_as_asked_for(quota, level):
    of = stream(tasks=3)
    done = finish(trainer("grow", {"sparsity": {"level": level, "quota": quota}}, of=of, net=NetConfig("cnn", 16)))
    zeros = 1 - done._update_density()
    assert zeros == pytest.approx(strategy(done).target, abs=1e-3)
    assert level <= zeros < level + 0.1


def test_the_sparsity_asked_for_is_known_before_the_network():
    assert Grow(Grow.Options(level=0.7), context()).target == 0.7
    assert Grow(Grow.Options(), context()).target == 0


def test_the_first_task_gets_its_share():
    widths = strategy(growing(backbone="cnn", quota="first", ratio=0.5)).growth
    first, second, third = (widths.branch(task)["layers.8"] for task in range(3))
    assert first > second == third


def test_a_trunk_of_all_stages_is_refused():
    with pytest.raises(ConfigError, match=r"sparsity.trunk = 3 leaves nothing.*has 3 stages\. Allowed: 0 to 2"):
        growing(backbone="cnn", trunk=3)


def test_a_level_without_room_for_branches_is_refused():
    with pytest.raises(ConfigError, match=r"leaves \d+ weights.*Use a smaller sparsity.level or a larger net.width"):
        growing(backbone="mlp", level=0.999)


def test_a_task_that_was_not_planned_widens_the_network():
    training = growing(backbone="cnn", tasks=3)
    grown = strategy(training)
    object.__setattr__(grown.growth, "tasks", 2)  # as if one task fewer had been planned
    before = {name: value.shape for name, value in training.net.stored.items()}
    finish(training)
    assert training.net.stored["head.weight"].shape[1] > before["head.weight"][1]
    again = growing(backbone="cnn", tasks=3)
    again.load_state_dict(training.state_dict())
    assert torch.equal(answers(again, 2), answers(training, 2))


@pytest.mark.parametrize("readout", ["refit", "lda", "nearest-mean", "bias"])
def test_readouts_follow_a_network_that_was_widened(readout):
    training = growing("grow-er", "cnn", readout=readout)
    object.__setattr__(strategy(training).growth, "tasks", 2)
    finish(training)
    again = growing("grow-er", "cnn", readout=readout)
    again.load_state_dict(training.state_dict())
    images = training.stream.tasks[0].test.x
    found = [each.parts.readout.logits(each.net, each.stream.inputs.plain(images), None) for each in (training, again)]
    assert found[0].isfinite().all()
    assert torch.equal(*found)


def test_random_features_refuse_a_network_that_was_widened():
    training = growing("grow-er", "cnn", readout="random-features")
    object.__setattr__(strategy(training).growth, "tasks", 2)
    with pytest.raises(ConfigError, match="the network has grown to"):
        finish(training)


def test_replay_with_the_tasks_own_branch_alone_is_refused():
    with pytest.raises(ConfigError, match=r"sparsity.step = 'own'.*or use objective.replay = 'none'"):
        growing("grow-er", step="own")


def test_a_memory_without_replay_leaves_training_as_it_is():
    options = {"objective": {"buffer": 20, "replay": "none"}, "update": {"lr": 0.01}}
    kept = finish(trainer("grow-er", options, net=NETS["cnn"], parts=PartsConfig(readout="own")))
    plain = finish(trainer("grow", {"update": {"lr": 0.01}}, net=NETS["cnn"]))
    assert same(weights(kept.net), weights(plain.net))
    assert kept.net.meter.executed_macs == plain.net.meter.executed_macs
    assert len(kept.parts.objective.buffer_examples()) == 20


def branch_replay(readout=None) -> Trainer:
    options = {"objective": {"buffer": 20, "replay": "branch"}, "update": {"lr": 0.01}}
    train = TrainConfig(epochs=2, batch_size=8)
    return trainer("grow-er", options, net=NETS["cnn"], train=train, parts=PartsConfig(readout=readout))


def test_replay_in_the_branch_leaves_earlier_answers_as_they_are():
    training = branch_replay()
    kept: list[torch.Tensor] = []
    for event in training.run():
        if isinstance(event, TaskDone):
            assert all(torch.equal(answers(training, task), before) for task, before in enumerate(kept))
            kept.append(answers(training, event.task))
    assert len(kept) == 3


def test_replay_in_the_branch_trains_its_features_against_old_classes():
    """What is replayed runs through the trunk and the own branch, and competes; its columns are gone afterwards."""
    training, alone = finish(branch_replay()), finish(trainer("grow", {"update": {"lr": 0.01}}, net=NETS["cnn"]))
    branches = strategy(training).branches
    spans = [slice(*branches.spans[task][branches.head.reads]) for task in range(3)]
    head = training.net.stored["head.weight"]
    assert not head[:4, spans[2]].any()
    assert head[4:, spans[2]].any()
    assert not same(branches.values(2), strategy(alone).branches.values(2))
    assert training.parts.objective._columns._context.columns == "seen"


def test_a_step_with_replay_in_the_branch_costs_the_trunk_and_one_branch():
    training = branch_replay(readout="own")
    meter = training.net.meter
    spent = [meter.executed_macs["train"] for event in training.run() if isinstance(event, TaskDone)]
    branches = strategy(training).branches
    branches.learnt = frozenset({2})
    images = 2 * 2 * 24  # epochs, current and replayed, examples of the task
    assert spent[2] - spent[1] == images * (branches._costs[TRUNK][0] + sum(branches._cost(2)))


@pytest.mark.parametrize("method", ["er", "esacl-er", "grow-der++"])
def test_replay_in_the_branch_needs_a_branch_and_no_logits_of_others(method):
    with pytest.raises(ConfigError, match=r"objective.replay = 'branch' rehearses in the branch.*Use .*'batch'"):
        trainer(method, {"objective": {"buffer": 20, "replay": "branch"}})


def test_replay_in_the_branch_refuses_to_run_all_of_them():
    with pytest.raises(ConfigError, match=r"sparsity.step = 'all' runs all branches"):
        trainer("grow-er", {"objective": {"buffer": 20, "replay": "branch"}, "sparsity": {"step": "all"}})
