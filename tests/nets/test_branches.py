"""Trunk and branches: calls of parts answer as the whole network does, and cost what torch counts."""

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from esacl.nets.branches import TRUNK, Branches
from esacl.nets.connections import HEAD, IMAGE
from tests.builders import network
from tests.nets.traced_nets import TRACED, traced

OURS = [("mlp", 12, 0), ("mlp", 12, 1), ("cnn", 6, 0), ("cnn", 6, 2), ("resnet10", 4, 1), ("resnet10", 4, 2)]
OWN = [("vgg", 0, 1), ("vgg", 0, 2), ("residual", 0, 0), ("residual", 0, 1), ("hidden", 0, 1), ("excited", 0, 0)]
CASES = OURS + OWN


def divided(backbone: str, width: int, stages: int) -> Branches:
    """A network of random weights with a trunk and three branches, of which the last channels are nobody's."""
    net = traced(backbone) if backbone in TRACED else network(backbone, width, (1, 16, 16), seed=1)
    probe = Branches(net, stages, {})
    units = {one.writes: net.stored[one.weight].shape[0] for one in probe.layers if one.writes != HEAD}
    trunk = {one.writes for one in probe.layers if one.stage < stages}
    made = Branches(net, stages, {group: (0, units[group] - 1) for group in trunk})
    for task, (first, after) in enumerate([(0, 1), (1, 4), (4, 5)]):
        made.spans[task] = {group: (first, after) for group in units if group not in trunk}
    with torch.no_grad():
        kept = [made.values(owner) for owner in made.spans]
        copies = [{name: value.clone() for name, value in own.items()} for own in kept]
        made.clear()
        for own, copy in zip(kept, copies):
            for name, value in own.items():
                value.copy_(copy[name])
        for own in kept:
            for name, value in own.items():
                if "running" in name:
                    amount = torch.rand(value.shape, generator=torch.Generator().manual_seed(len(name)))
                    value.add_(amount if "var" in name else -amount)  # no unit is dead
    return made


@pytest.mark.parametrize(("backbone", "width", "stages"), CASES)
def test_trunk_and_branches_answer_as_the_whole_network(backbone, width, stages):
    made = divided(backbone, width, stages)
    made.prepare(())
    x = torch.randn(5, *made.net.shape, generator=torch.Generator().manual_seed(0))
    with made.net.inference():
        whole, parts = made.net(x), made(x, range(3))
    torch.testing.assert_close(parts.logits, whole.logits)
    torch.testing.assert_close(parts.features, whole.features)


@pytest.mark.parametrize(("backbone", "width", "stages"), CASES)
def test_a_branch_answers_the_same_bits_beside_others(backbone, width, stages):
    made = divided(backbone, width, stages)
    made.prepare(())
    x = torch.randn(5, *made.net.shape, generator=torch.Generator().manual_seed(0))
    with made.net.inference():
        alone, beside = made(x, [1]).features, made(x, range(3)).features
    columns = slice(*(bound * made.head.places for bound in made.spans[1][made.head.reads]))
    assert torch.equal(alone[:, columns], beside[:, columns])
    assert alone[:, columns].any()
    assert alone.count_nonzero() == alone[:, columns].count_nonzero()


LEARNT = [((TRUNK, 0), [0]), ((2,), [2]), ((2,), [0, 1, 2]), ((), [0, 1, 2])]
COUNTED = [  # torch counts the gradient of a depthwise weight as that of a dense one
    (*case, *learnt) for case in CASES for learnt in LEARNT if case[0] != "residual" or TRUNK not in learnt[0]
]


@pytest.mark.parametrize(("backbone", "width", "stages", "learnt", "asked"), COUNTED)
def test_the_meter_charges_what_torch_counts(backbone, width, stages, learnt, asked):
    made = divided(backbone, width, stages)
    made.prepare(learnt)
    made.net.train_mode()
    x = torch.zeros(3, *made.net.shape)
    with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(bool(learnt)):
        logits = made(x, asked).logits
        if learnt:
            made.net.backward(cross_entropy(logits, torch.zeros(3, dtype=torch.int64)))
    assert counter.get_total_flops() == 2 * made.net.meter.executed_macs["train"]
    assert made.net.meter.sparse_macs == made.net.meter.executed_macs


@pytest.mark.parametrize(("backbone", "width", "stages"), CASES)
def test_only_what_learns_moves_statistics_included(backbone, width, stages):
    made = divided(backbone, width, stages)
    made.prepare([1])
    made.net.train_mode()
    before = {name: value.detach().clone() for name, value in made.net.model.state_dict().items()}
    x = torch.randn(6, *made.net.shape, generator=torch.Generator().manual_seed(0))
    made.net.backward(cross_entropy(made(x, range(3)).logits, torch.tensor([0, 1, 2, 3, 4, 5])))
    torch.optim.SGD(made.net.trained.values(), lr=0.1).step()
    moved = {name: value != before[name] for name, value in made.net.model.state_dict().items()}
    own = made.pieces(1)
    for name, changed in moved.items():
        if "num_batches" in name or name == "head.bias":
            continue
        inside = torch.zeros_like(changed)
        if name in own:
            inside[own[name]] = True
        assert not (changed & ~inside).any(), name
    assert all(moved[name].any() for name in (made.head.weight, made.layers[-2].weight))


def test_layers_of_branches_read_the_image_where_there_is_no_trunk():
    made = divided("cnn", 6, 0)
    assert made.own(TRUNK) == []
    assert made.own(0)[0].reads == IMAGE
