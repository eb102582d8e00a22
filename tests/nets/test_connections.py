from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from esacl.nets import Network
from esacl.nets.connections import HEAD, IMAGE, Connection, connections
from tests.builders import network
from tests.nets.pictures import TELLING

WIDTH = {"mlp": 6, "cnn": 4, "resnet10": 2, "resnet18": 2}
INPUTS = torch.randn(3, 1, 12, 12, generator=torch.Generator().manual_seed(0))


def alive(backbone: str) -> Network:
    """A network whose units all answer to these inputs, in evaluation mode."""
    net = network(backbone, WIDTH[backbone], (1, 12, 12), classes=3)
    net.model.eval()
    with torch.no_grad():
        for name, module in net.model.named_modules():
            draw = torch.Generator().manual_seed(len(name))
            if isinstance(module, nn.BatchNorm2d):
                module.weight.copy_(torch.rand(module.weight.shape, generator=draw) + 0.5)
                module.bias.fill_(2.0)
            elif isinstance(module, nn.Linear) and name != "head":
                module.bias.fill_(4.0)
    return net


@contextmanager
def reading(net: Network, into: dict[str, Tensor]) -> Iterator[None]:
    """Note what each listed layer reads."""
    handles = [
        net.model.get_submodule(one.layer).register_forward_pre_hook(
            lambda _, given, layer=one.layer: into.__setitem__(layer, given[0].detach().clone())
        )
        for one in connections(net.model)
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def reads(net: Network) -> tuple[dict[str, Tensor], Tensor]:
    """What every layer reads, and the logits."""
    seen: dict[str, Tensor] = {}
    with reading(net, seen), torch.no_grad():
        logits = net(INPUTS).logits
    return seen, logits


def groups(net: Network) -> dict[str, tuple[list[Connection], list[Connection]]]:
    """For every group between the image and the answers: who writes it, who reads it."""
    listed = connections(net.model)
    inner = {one.writes for one in listed} - {HEAD}
    return {g: ([o for o in listed if o.writes == g], [o for o in listed if o.reads == g]) for g in inner}


@torch.no_grad()
def disturb(net: Network, writers: list[Connection], unit: int, factor: float) -> None:
    """Change everything that goes into one unit."""
    for one in writers:
        for name in (one.weight, f"{one.layer}.bias", f"{one.norm}.weight", f"{one.norm}.bias"):
            if name in net.stored:
                net.stored[name][unit] *= factor


@pytest.mark.parametrize("backbone", TELLING)
def test_every_weight_is_listed_once_and_joins_groups_of_its_size(backbone: str) -> None:
    net = network(backbone, WIDTH[backbone], (1, 12, 12))
    listed = connections(net.model)
    assert sorted(one.weight for one in listed) == sorted([*net.partition.prunable, "head.weight"])
    norms = [n for n, module in net.model.named_modules() if isinstance(module, nn.BatchNorm2d)]
    assert sorted(one.norm for one in listed if one.norm) == sorted(norms)
    sizes: dict[str, set[int]] = {}
    for one in listed:
        out, into = net.stored[one.weight].shape[:2]
        sizes.setdefault(one.writes, set()).add(out)
        sizes.setdefault(one.reads, set()).add(into)
        if one.norm:
            assert net.stored[f"{one.norm}.weight"].shape == (out,)
    assert all(len(found) == 1 for found in sizes.values())
    assert sizes[IMAGE] == {144 if backbone == "mlp" else 1}
    assert sizes[HEAD] == {6}


@pytest.mark.parametrize("backbone", TELLING)
def test_a_unit_moves_nobody_but_itself_where_its_readers_ignore_it(backbone: str) -> None:
    """All that goes into a unit is changed: exactly the layers said to read it see that, in this unit alone."""
    for group in groups(alive(backbone)):
        net = alive(backbone)
        writers, readers = groups(net)[group]
        assert writers
        assert readers
        unit = 1
        _, talking = reads(net)
        disturb(net, writers, unit, 1.5)
        assert not torch.equal(reads(net)[1], talking), group
        with torch.no_grad():
            for one in readers:
                net.stored[one.weight][:, unit] = 0
        before, logits = reads(net)
        disturb(net, writers, unit, 1.5)
        after, again = reads(net)
        assert torch.equal(logits, again)
        for layer, seen in before.items():
            channels = (seen != after[layer]).transpose(0, 1).flatten(1).any(1)
            expected = [unit] if layer in {one.layer for one in readers} else []
            assert channels.nonzero().squeeze(1).tolist() == expected, (group, layer)


@pytest.mark.parametrize("backbone", TELLING)
def test_a_unit_that_none_of_its_writers_writes_is_silent(backbone: str) -> None:
    for group in groups(alive(backbone)):
        net = alive(backbone)
        writers, readers = groups(net)[group]
        disturb(net, writers, 0, 0.0)
        seen, _ = reads(net)
        for one in readers:
            assert bool((seen[one.layer][:, 0] == 0).all()), (group, one.layer)
            assert bool((seen[one.layer][:, 1] != 0).any()), (group, one.layer)


@pytest.mark.parametrize("backbone", TELLING)
def test_the_image_reaches_the_answers_only_by_the_layers_that_read_it(backbone: str) -> None:
    net = alive(backbone)
    with torch.no_grad():
        for one in connections(net.model):
            if one.reads == IMAGE:
                net.stored[one.weight].zero_()
        assert torch.equal(net(INPUTS).logits, net(torch.zeros_like(INPUTS)).logits)


def test_what_an_identity_passes_on_and_what_is_added_to_it_are_the_same_units() -> None:
    listed = {one.layer: one for one in connections(network("resnet18", 2, (1, 12, 12)).model)}
    stem, tied = listed["backbone.stem"], ["blocks.0.conv2", "blocks.1.conv2"]
    assert {listed[f"backbone.{name}"].writes for name in tied} == {stem.writes}
    narrower = listed["backbone.blocks.2.shortcut.0"]
    assert narrower.reads == stem.writes
    assert listed["backbone.blocks.2.conv2"].writes == listed["backbone.blocks.3.conv2"].writes == narrower.writes
    assert narrower.writes != stem.writes
    assert listed["head"].reads == listed["backbone.blocks.7.conv2"].writes
