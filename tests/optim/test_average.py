import pytest
import torch

import esacl as library
from esacl.config import Config, NetConfig
from esacl.deploy.opening import open_model
from esacl.deploy.summary import summary
from esacl.errors import ConfigError
from esacl.methods import check_settings
from esacl.nets.statistics import recalibrate
from esacl.optim.average import Ema, EmaOptions
from tests.builders import context, finish, network, same, stream, trainer, weights
from tests.reference import average as naive

STREAM = stream()
EMA = {"average": lambda of: Ema(EmaOptions(decay=0.8), of)}


def made(net, decay=0.8):
    part = Ema(EmaOptions(decay), context(STREAM))
    part.attach(net)
    return part


def test_it_is_the_average_of_the_weights_after_each_step():
    net = network()
    part, passed = made(net), []
    first = net.stored["head.weight"].detach().flatten().tolist()
    for number in range(4):
        with torch.no_grad():
            net.stored["head.weight"].add_(number + 1)
        part.after_step(net)
        passed.append(net.stored["head.weight"].detach().flatten().tolist())
    expected = torch.tensor(naive.averaged(first, passed, 0.8))
    torch.testing.assert_close(part.values["head.weight"].flatten(), expected)
    assert net.meter.executed_macs["train"] == 4 * sum(value.numel() for value in net.stored.values())


def test_the_last_weights_are_back_afterwards_in_the_same_tensors():
    net = network("cnn", 4)
    part, before, held = made(net), weights(net), dict(net.stored)
    with torch.no_grad():
        part.values["head.weight"].zero_()
    with part.answering(net):
        assert (net.stored["head.weight"] == 0).all()
    assert same(before, weights(net))
    assert all(net.stored[name] is value for name, value in held.items())


def test_pruned_weights_are_zero_and_statistics_are_of_the_average():
    net = network("cnn", 4)
    part, task = made(net), STREAM.tasks[0]
    name = net.partition.prunable[0]
    with torch.no_grad():
        net.stored[name][0] = 0
        part.values[net.partition.prunable[1]].mul_(3)
    before = weights(net)
    part.end_task(net, task, None)
    assert same(before, weights(net)), "training goes on with its own"
    assert (part.values[name][0] == 0).all()
    with part.answering(net):
        found = weights(net)
        recalibrate(net, part._looks(task, None))
        assert same(found, weights(net))


def test_training_is_the_same_and_answers_are_others():
    plain = finish(trainer("er", net=NetConfig("cnn", 4)))
    averaged = finish(trainer("er", net=NetConfig("cnn", 4), replacing=EMA))
    assert same(weights(plain.net), weights(averaged.net))
    assert plain.rows != averaged.rows


def test_the_average_is_what_is_saved(tmp_path):
    settings = Config.of(method="esacl-er", average="ema", buffer=40, epochs=2, limit_per_class=20, width=16)
    results = library.run(settings, tmp_path / "run")
    stream = library.open_stream(Config.of(limit_per_class=20).stream)
    model = open_model(tmp_path / "run")
    answers = [(model.answering()(task.test.x.float() / 255)[1], task.test.y) for task in stream.tasks]
    assert [(x.argmax(1) == y).double().mean().item() for x, y in answers] == pytest.approx(
        results.matrix["class_il"][-1]
    )
    assert summary(model, tmp_path / "run").density == pytest.approx(results.density) == pytest.approx(0.2, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("packnet", "the very weights"), ("grow-er", "the very weights"), ("gpm", "BatchNorm statistics")],
)
def test_methods_that_hold_earlier_tasks_fast_refuse_it(name, reason):
    with pytest.raises(ConfigError, match=reason):
        check_settings(Config.of(method=name, average="ema"))
