from copy import deepcopy

import pytest
import torch
from torch.nn.functional import cross_entropy

from esacl.config import Config
from esacl.errors import ConfigError
from esacl.methods import check_settings
from esacl.readouts.bias import PULL, Bias, BiasOptions, fit_bias
from esacl.rng import generator
from tests.builders import context, finish, network, stream, trainer
from tests.readouts.clouds import STREAM, remembered

LARGE = stream(per_class=40)


def readout(of=STREAM, **options):
    made = Bias(BiasOptions(**{"held": 10, **options}), context(of))
    made.attach(network())
    return made


def test_it_is_a_minimum_and_groups_share_scale_and_shift():
    labels = torch.arange(60) % 4
    logits = torch.randn(60, 4, generator=generator(0, "x"), dtype=torch.float64) + 2 * torch.eye(4)[labels]
    logits[:, 2:] += 3.0  # classes of the last task are too loud
    groups = torch.tensor([0, 0, 1, 1])
    scale, shift, calls = fit_bias(logits, labels, groups)
    assert scale[0] == scale[1]
    assert shift[2] == shift[3]
    assert shift[0] - shift[2] > 1, "the bias is taken back"
    assert calls > 1

    def loss(log_scale, shifts):
        corrected = log_scale.exp()[groups] * logits + shifts[groups]
        return cross_entropy(corrected, labels) + PULL * (log_scale.square().sum() + shifts.square().sum())

    at = [scale[[0, 2]].log().requires_grad_(), shift[[0, 2]].clone().requires_grad_()]
    for gradient in torch.autograd.grad(loss(*at), at):
        assert gradient.abs().max() < 1e-5


def test_what_is_held_out_is_never_trained_on_and_stays_when_asked_again():
    made, task = readout(LARGE, held=3), LARGE.tasks[0]
    rest = made.lend(task)
    assert torch.equal(rest.train.x, made.lend(task).train.x)
    made.fit(network(), task, None)
    held = {image.numpy().tobytes() for image in made.kept[0].x}
    assert made.kept[0].y.bincount().tolist() == [3, 3]
    assert not held & {image.numpy().tobytes() for image in rest.train.x}
    assert len(rest.train) == len(task.train) - 6
    few = readout(held=3)
    assert few.lend(STREAM.tasks[0]).train.y.bincount().tolist() == [11, 11], "a tenth of twelve at most"
    assert readout(form="norms").lend(task) is task


def test_a_run_holds_examples_out_of_every_task():
    training = finish(trainer("er", of=LARGE, replacing={"readout": lambda of: Bias(BiasOptions(held=2), of)}))
    readout = training.parts.readout
    assert [own.y.bincount(minlength=6).tolist() for own in readout.kept.values()] == [
        [2, 2, 0, 0, 0, 0],
        [0, 0, 2, 2, 0, 0],
        [0, 0, 0, 0, 2, 2],
    ]
    assert training.samples == 2 * 3 * (80 - 4)


@pytest.mark.parametrize("form", ["fit", "norms"])
def test_task_il_is_that_of_the_head_and_the_folded_head_answers_so(form):
    net, made = network(), readout(LARGE, form=form)
    for task in LARGE.tasks:
        made.fit(net, task, None)
    x = LARGE.inputs.plain(torch.cat([task.test.x for task in LARGE.tasks]))
    with net.inference():
        head, found = net(x).logits, made.logits(net, x, None)
    for task in LARGE.tasks:
        columns = list(task.classes)
        assert torch.equal(head[:, columns].argmax(1), found[:, columns].argmax(1))
    assert not torch.equal(head, found)
    net.model.load_state_dict(made.folded(net.model.state_dict()))
    torch.testing.assert_close(net(x).logits, found)


def test_columns_of_every_task_are_equally_long_by_norms():
    net, made = network(), readout(form="norms")
    with torch.no_grad():
        net.stored["head.weight"][2:4] *= 5
    made.fit(net, STREAM.tasks[1], None)
    lengths = made.folded(net.model.state_dict())["head.weight"].norm(dim=1)
    assert lengths[:2].mean().item() == pytest.approx(lengths[2:4].mean().item())
    assert made.scale[4:].tolist() == [1.0, 1.0], "classes to come are left alone"


def test_without_anything_held_out_it_is_fitted_on_the_memory_if_there_is_one():
    net = network()
    made = readout(held=0)
    assert made.lend(STREAM.tasks[0]) is STREAM.tasks[0]
    made.fit(net, STREAM.tasks[1], remembered(0, 1))
    assert made.scale[0] != made.scale[2]
    with pytest.raises(ConfigError, match="nothing was held out, and nothing is remembered"):
        readout(held=0).fit(net, STREAM.tasks[1], None)


def test_what_is_held_out_is_in_the_state():
    net, made = network(), readout(LARGE)
    made.fit(net, LARGE.tasks[0], None)
    resumed = readout(LARGE)
    resumed.load_state_dict(deepcopy(made.state_dict()))
    for each in (made, resumed):
        each.fit(net, LARGE.tasks[1], None)
    assert torch.equal(made.scale, resumed.scale)
    assert torch.equal(made.shift, resumed.shift)


def test_what_is_held_out_is_not_planned_to_be_trained_on():
    training = finish(trainer("er", of=LARGE, replacing={"readout": lambda of: Bias(BiasOptions(held=10), of)}))
    assert training.samples == training.planned_samples()


def test_examples_are_held_out_by_default_only_where_nothing_is_remembered():
    held = {
        name: check_settings(Config.of(method=name, readout="bias"))["readout"]["held"]
        for name in ("er", "finetune", "ewc")
    }
    assert held == {"er": 0, "finetune": 10, "ewc": 10}


@pytest.mark.parametrize("name", ["scale", "shift"])
def test_a_state_of_other_classes_is_refused(name):
    state = readout().state_dict()
    with pytest.raises(ValueError, match=r"a readout of 6 classes has no values of shape \[5\]"):
        readout().load_state_dict({**state, name: torch.ones(5)})
