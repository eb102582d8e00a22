from copy import deepcopy

import pytest
import torch
from torch.nn.functional import cross_entropy

from esacl.nets import network as module
from esacl.nets.layers import fits_channels_last
from esacl.rng import generator
from esacl.types import Params
from tests.builders import CPU, network, same, weights
from tests.nets.pictures import BACKBONES, images, labels, masked, masks


@pytest.mark.parametrize("backbone", BACKBONES)
def test_without_a_view_the_module_is_called_directly(backbone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("functional_call costs time")

    monkeypatch.setattr(module, "functional_call", refuse)
    net = network(backbone)
    assert torch.equal(net(images()).logits, deepcopy(net.model)(images()).logits)
    net.view = lambda params, task: params
    with pytest.raises(AssertionError, match="costs time"):
        net(images())


@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_masking_view_answers_as_a_network_whose_weights_are_multiplied_by_the_mask(backbone: str) -> None:
    viewed, plain = masked(network(backbone)), network(backbone)
    keep = masks(plain.stored)
    with torch.no_grad():
        for name, mask in keep.items():
            plain.stored[name].mul_(mask)
    for net in (viewed, plain):
        net.backward(cross_entropy(net(images()).logits, labels()))
    torch.testing.assert_close(viewed(images()), plain(images()))
    for name, gradient in plain.gradients().items():
        expected = gradient * keep[name] if name in keep else gradient
        torch.testing.assert_close(viewed.gradients()[name], expected, msg=name)
    statistics = {name: value for name, value in weights(plain).items() if name not in plain.stored}
    torch.testing.assert_close({name: weights(viewed)[name] for name in statistics}, statistics)


def test_the_view_is_told_the_task_and_the_stored_parameters() -> None:
    net, told = network(), []

    def view(params: Params, task: int | None) -> Params:
        told.append((params is net.stored, task))
        return params

    net.view = view
    net(images())
    net(images(), 2)
    assert told == [(True, None), (True, 2)]


@pytest.mark.parametrize("viewed", [False, True])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_a_teacher_answers_for_ever_as_the_network_did(backbone: str, viewed: bool) -> None:
    net = masked(network(backbone)) if viewed else network(backbone)
    net(images(name="other"))  # moves the BatchNorm statistics
    with net.inference():
        expected = net(images())
    teacher = net.teacher()
    assert net.model.training
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.5)
    before = weights(net)
    for _ in range(3):
        net.backward(cross_entropy(net(images()).logits, labels()))
        optimizer.step()
    assert not same(weights(net), before)
    answer = teacher(images())
    torch.testing.assert_close(answer, expected)
    assert torch.equal(answer.logits, teacher(images()).logits)
    assert not answer.logits.requires_grad
    assert not any(p.requires_grad for p in teacher.model.parameters())
    assert not teacher.model.training
    assert teacher.stored.keys() == net.stored.keys()
    assert not {p.data_ptr() for p in teacher.stored.values()} & {p.data_ptr() for p in net.stored.values()}


def test_a_teachers_calls_are_charged_to_the_same_meter() -> None:
    net = network()
    teacher = net.teacher()
    with torch.no_grad():
        teacher(images(5))
    assert net.meter.executed_macs == {"train": 5 * net.meter.dense}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_inference_restores_the_mode_and_moves_no_statistic_even_after_an_error(backbone: str, training: bool) -> None:
    net = network(backbone)
    net.model.train(training)
    before = weights(net)
    with net.inference("probe"):
        assert not net.model.training
        assert not net(images()).logits.requires_grad

    def fail() -> None:
        with net.inference():
            net(images())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert net.model.training is training
    assert torch.is_grad_enabled()
    assert same(weights(net), before)
    assert net.meter.executed_macs == {"probe": 6 * net.meter.dense, "train": 6 * net.meter.dense}
    assert net.meter.name == "train"


def test_training_does_move_the_statistics() -> None:
    net = network("cnn")
    before = weights(net)
    net(images())
    assert not same(weights(net), before)


@pytest.mark.parametrize(
    ("backbone", "width", "layout"),
    [
        ("mlp", 16, torch.contiguous_format),
        ("cnn", 4, torch.channels_last),
        ("resnet10", 4, torch.channels_last),
        ("resnet10", 16, torch.channels_last),
        ("resnet18", 4, torch.channels_last),
    ],
)
def test_every_network_with_convolutions_runs_channels_last(
    backbone: str, width: int, layout: torch.memory_format
) -> None:
    net = network(backbone, width, (3, 8, 8))
    assert net.layout is layout
    assert fits_channels_last(net.model) is (layout is torch.channels_last)
    for value in net.stored.values():
        if value.ndim == 4:
            assert value.is_contiguous(memory_format=layout)


@pytest.mark.parametrize(("backbone", "width"), [("cnn", 16), ("resnet10", 4), ("resnet10", 16)])
def test_both_layouts_give_the_same_answers_and_gradients(
    backbone: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = network(backbone, width, (3, 16, 16))
    monkeypatch.setattr(module, "fits_channels_last", lambda model: False)
    first = network(backbone, width, (3, 16, 16))
    assert (last.layout, first.layout) == (torch.channels_last, torch.contiguous_format)
    x = torch.randn(4, 3, 16, 16, generator=generator(0, "layouts"))
    for net in (last, first):
        net.backward(cross_entropy(net(x).logits, labels(4)))
    torch.testing.assert_close(last(x), first(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(last.gradients(), first.gradients(), rtol=1e-3, atol=1e-4)


def test_backward_replaces_the_gradients_of_before() -> None:
    net = network()
    for _ in range(2):
        net.backward(cross_entropy(net(images()).logits, labels()))
    expected = torch.autograd.grad(cross_entropy(net(images()).logits, labels()), list(net.stored.values()))
    for name, gradient in zip(net.stored, expected):
        assert torch.equal(net.gradients()[name], gradient)


def test_gradients_name_only_the_parameters_that_have_one() -> None:
    net = network()
    assert net.gradients() == {}
    net.backward(net(images()).features.sum())
    assert set(net.gradients()) == set(net.stored) - set(net.partition.head)


@pytest.mark.parametrize("precision", ["32", "16"])
def test_a_network_built_from_another_seed_continues_from_a_saved_state(precision: str) -> None:
    net, other = network("cnn", precision=precision), network("cnn", seed=9, precision=precision)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1)
    net.backward(cross_entropy(net(images()).logits, labels()) * 1e36)
    if precision == "16":
        net.unscale(optimizer)
        net.step(optimizer)
    other.load_state_dict(deepcopy(net.state_dict()))
    assert same(weights(other), weights(net))
    assert torch.equal(other(images()).logits, net(images()).logits)
    assert other.scaler.get_scale() == net.scaler.get_scale()
    assert other.meter.executed_macs == net.meter.executed_macs
    assert set(other.stored) == {name for name, _ in other.model.named_parameters()}
    assert all(other.stored[name] is p for name, p in other.model.named_parameters())


@pytest.mark.parametrize("change", ["missing", "extra", "shape"])
def test_a_state_that_does_not_fit_is_refused(change: str) -> None:
    net = network()
    state = deepcopy(net.state_dict())
    if change == "missing":
        del state["model"]["head.bias"]
    elif change == "extra":
        state["model"]["more"] = torch.zeros(1)
    else:
        state["model"]["head.bias"] = torch.zeros(7)
    with pytest.raises(RuntimeError, match=r"head\.bias|more"):
        net.load_state_dict(state)


def test_the_network_lives_on_the_device_it_was_given() -> None:
    assert network().device == CPU


def test_a_teacher_is_charged_for_one_forward_pass_even_while_gradients_are_on() -> None:
    net = network()
    teacher = net.teacher()
    assert not teacher(images()).logits.requires_grad
    assert net.meter.executed_macs["train"] == len(images()) * net.meter.dense


def test_inference_inside_an_evaluation_is_charged_to_the_evaluation() -> None:
    net = network()
    with net.inference("evaluate"), net.inference():
        net(images())
    assert set(net.meter.executed_macs) == {"evaluate"}


def test_frozen_statistics_stay_through_training_and_inference() -> None:
    net = network("cnn", 4)
    net.frozen_statistics = True
    net.train_mode()
    before = {name: value.clone() for name, value in net.model.named_buffers()}
    net(images())
    with net.inference():
        net(images())
    net(images())
    assert net.model.training
    assert all(torch.equal(value, before[name]) for name, value in net.model.named_buffers())
    net.frozen_statistics = False
    net.train_mode()
    net(images())
    assert not all(torch.equal(value, before[name]) for name, value in net.model.named_buffers())


def test_fast_weights_answer_while_they_are_used_and_not_afterwards() -> None:
    net = network()
    plain = net(images()).logits
    with net.using({name: torch.zeros_like(value) for name, value in net.stored.items()}):
        assert (net(images()).logits == 0).all()
    assert torch.equal(net(images()).logits, plain)
