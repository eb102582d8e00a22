"""Several processes compute what one computes: answers, gradients, statistics; whatever the sizes of their parts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from esacl.errors import RunError
from esacl.methods import METHODS
from esacl.nets import data_parallel as sharing_of
from esacl.nets.data_parallel import Shares
from esacl.processes.job import agree, receive, send, stream_of, stream_state
from tests.builders import network, stream, trainer
from tests.processes.crew import crew, plain, sharing, trained, trained_on_digits

CONVOLUTIONAL = [f"{name} convolutional" for name in ("esacl-der++", "la-maml", "co2l", "gpm", "nispa", "wsn")]
SELECTING = ["esacl-der++ every-other", "esacl-der++ pass", "esacl-der++ reuse"]  # from the second epoch on


def others(names):
    """The fewest methods, or nearly, that have the parts which these lack: a new part finds its way here by itself."""
    known = {part for name in names for part in METHODS[name.split()[0]].parts.values()}
    chosen = []
    for name, row in sorted(METHODS.items(), key=lambda item: -len(item[1].parts)):
        if not known.issuperset(row.parts.values()):
            known |= {*row.parts.values()}
            chosen.append(name)
    return chosen


EPOCHS = {**dict.fromkeys([*CONVOLUTIONAL, *others(CONVOLUTIONAL)], 1), **dict.fromkeys(SELECTING, 2)}
SMALL = {"epochs": 2, "limit_per_class": 20, "tasks": 2, "batch_size": 15, "width": 32}
DIGITS = {
    "finetune": {**SMALL, "method": "finetune"},
    "der++": {**SMALL, "method": "der++", "buffer": 20},
    "esacl-der++": {**SMALL, "method": "esacl-der++", "buffer": 20},
    "selecting": {**SMALL, "method": "esacl-der++", "buffer": 20, "keep": 0.5, "rho": 0.05},
}
ROUNDING = 1e-5  # weights are of the order of 0.1 to 1, and a step of the order of 0.01


def furthest(one, other):
    """The largest difference of any value."""
    return max(float(np.abs(value.astype(np.float64) - other[name]).max()) for name, value in one.items())


@given(st.integers(0, 50), st.integers(1, 9))
def test_every_row_belongs_to_one_process(count, size):
    bounds = [Shares(rank, size).bounds(count) for rank in range(size)]
    assert [row for first, last in bounds for row in range(first, last)] == list(range(count))
    assert max(last - first for first, last in bounds) - min(last - first for first, last in bounds) <= 1


def passed(shares, counts):
    """Outputs, gradients and statistics of BatchNorm after a batch of each size, and a gradient of a gradient."""
    net = network("cnn", 8)
    sharing(type("Holder", (), {"net": net}), shares)
    net.train_mode()
    found = {}
    for count in counts:
        x = torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(count))
        outputs = net(x)
        loss = outputs.logits.square().mean() + outputs.features.square().sum(1).sqrt().mean()
        again = torch.autograd.grad(loss, net.stored["backbone.layers.0.weight"], create_graph=True)
        net.backward(loss + again[0].square().sum())
        named = {"features": outputs.features, "logits": outputs.logits, **net.gradients()}
        found |= plain({f"{count} {name}": value for name, value in named.items()})
    return found | plain(dict(net.model.named_buffers()))


def test_parts_of_different_sizes_and_empty_ones_give_what_one_process_gives():
    """Batches of 7, 4 and 2 among three processes: parts of 3, 2, 1 and 0 examples."""
    expected = passed(None, (7, 4, 2))
    for found in crew(3, passed, (7, 4, 2)):
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=2e-3, atol=2e-5, err_msg=name)


def assert_same(one, two):
    """One process and two have learnt the same, and the two hold the very same."""
    first, second = two
    for name, (weights, accuracies, arithmetic) in one.items():
        assert furthest(weights, first[name][0]) < ROUNDING, name
        assert furthest(first[name][0], second[name][0]) == 0, f"{name}: the processes hold different weights"
        assert (accuracies, arithmetic) == first[name][1:], name


def test_every_part_of_every_method_learns_the_same_on_two_processes_as_on_one():
    assert_same(trained(None, EPOCHS), crew(2, trained, EPOCHS))


def test_digits_are_learnt_the_same_on_two_processes_as_on_one_also_from_a_selection():
    assert_same(trained_on_digits(None, DIGITS), crew(2, trained_on_digits, DIGITS))


def unsummed(shares, factor):
    """Training in which every process goes by the gradient of its own part, times a factor."""
    sharing_of._where_there_are_any = lambda function, shares, gradients: [
        None if gradient is None else factor * gradient for gradient in gradients
    ]
    return trained(shares, {"finetune": 1})


@pytest.mark.parametrize("factor", [1, 2], ids=["of the own part", "as if the own part were all"])
def test_gradients_that_are_not_summed_over_the_processes_are_noticed(factor):
    one = trained(None, {"finetune": 1})["finetune"][0]
    for found in crew(2, unsummed, factor):
        assert furthest(one, found["finetune"][0]) > 100 * ROUNDING


def drifting(shares, amount):
    """A check of trainers that are alike up to `amount`."""
    own = sharing(trainer("er"), shares)
    agree(own)
    with torch.no_grad():
        own.net.stored["head.bias"] += amount * shares.rank
    agree(own)
    return True


def test_processes_that_have_come_apart_do_not_go_on():
    assert crew(2, drifting, 0.0) == [True, True]
    with pytest.raises(RunError, match="have come apart"):
        crew(2, drifting, 1e-6)


def told(shares):
    """What arrives of tensors of every kind, and of a stream whose tasks are learnt at once."""
    values = {"a": torch.tensor(True), "b": torch.empty(0, 3), "c": [torch.arange(3), (1, None, "x")], 4: 0.5}
    joint = stream().joint()
    if shares.rank == 0:
        send({"values": values, "stream": stream_state(joint)})
        return None
    state = receive()
    back = stream_of(state["stream"])
    assert back.fingerprint() == joint.fingerprint()
    assert len(back.stages) == 1
    assert torch.equal(back.stages[0].train.x, joint.stages[0].train.x)
    assert back.inputs == joint.inputs
    got = state["values"]
    assert got["a"].dtype == torch.bool
    assert got["a"].item() is True
    assert got["b"].shape == (0, 3)
    assert torch.equal(got["c"][0], torch.arange(3))
    assert got["c"][1] == (1, None, "x")
    assert got[4] == 0.5
    return True


def test_the_others_are_told_every_value_and_every_stream():
    assert crew(2, told) == [None, True]


@pytest.mark.parametrize(
    "of", [stream(tasks=1).joint(), stream(tasks=2).joint(), replace(stream(tasks=1), tasks=()), stream(tasks=2)]
)
def test_the_others_train_the_stages_of_the_first_whatever_is_evaluated(of):
    told = stream_of(stream_state(of))
    for mine, others in ((of.stages, told.stages), (of.tasks, told.tasks)):
        assert [part.classes for part in others] == [part.classes for part in mine]
        assert all(torch.equal(one.train.x, other.train.x) for one, other in zip(mine, others, strict=True))
    assert (told.stages is told.tasks) == (of.stages is of.tasks), "the same data are told once"
