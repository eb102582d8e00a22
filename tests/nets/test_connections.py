from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from esacl.nets import Network
from esacl.nets.connections import HEAD, IMAGE, Connection, connections
from esacl.nets.layers import NORMS
from tests.builders import network
from tests.nets.pictures import TELLING
from tests.nets.traced_nets import TRACED, traced

WIDTH = {"mlp": 6, "cnn": 4, "resnet10": 2, "resnet18": 2}
NETS = [*TELLING, *TRACED]


def fresh(backbone: str) -> Network:
    """A small backbone, or a network of one's own."""
    return traced(backbone) if backbone in TRACED else network(backbone, WIDTH[backbone], (1, 12, 12))


def inputs(net: Network) -> Tensor:
    """Three images."""
    return torch.randn(3, *net.shape, generator=torch.Generator().manual_seed(0))


def alive(backbone: str) -> Network:
    """A network whose units all answer to these inputs, in evaluation mode."""
    net = fresh(backbone)
    net.model.eval()
    with torch.no_grad():
        for name, module in net.model.named_modules():
            draw = torch.Generator().manual_seed(len(name))
            if isinstance(module, NORMS):
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
        logits = net(inputs(net)).logits
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
        norms = [f"{norm}.{own}" for norm in one.norms for own in ("weight", "bias")]
        for name in (one.weight, f"{one.layer}.bias", *norms):
            if name in net.stored:
                net.stored[name][unit] *= factor


@pytest.mark.parametrize("backbone", NETS)
def test_every_weight_is_listed_once_and_joins_groups_of_its_size(backbone: str) -> None:
    net = fresh(backbone)
    listed = connections(net.model)
    assert sorted(one.weight for one in listed) == sorted([*net.partition.prunable, "head.weight"])
    norms = [n for n, module in net.model.named_modules() if isinstance(module, NORMS)]
    assert sorted(norm for one in listed for norm in one.norms) == sorted(norms)
    sizes: dict[str, set[int]] = {}
    for one in listed:
        out, into = net.stored[one.weight].shape[:2]
        sizes.setdefault(one.writes, set()).add(out)
        if one.depthwise:
            assert one.reads == one.writes
            assert into == one.columns(out) == 1
        else:
            sizes.setdefault(one.reads, set()).add(into // one.places)
            assert one.columns(into // one.places) == into
        for norm in one.norms:
            assert net.stored[f"{norm}.weight"].shape == (out,)
    assert all(len(found) == 1 for found in sizes.values())
    assert sizes[IMAGE] == {{"mlp": 144, "hidden": 64}.get(backbone, 1)}
    assert sizes[HEAD] == {6}


@pytest.mark.parametrize("backbone", NETS)
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
                if not one.depthwise:
                    net.stored[one.weight][:, unit * one.places : (unit + 1) * one.places] = 0
        before, logits = reads(net)
        disturb(net, writers, unit, 1.5)
        after, again = reads(net)
        assert torch.equal(logits, again)
        for layer, seen in before.items():
            columns = (seen != after[layer]).transpose(0, 1).flatten(1).any(1).nonzero().squeeze(1).tolist()
            expected = {one.layer: one.places for one in readers}
            found = {column // expected.get(layer, 1) for column in columns}
            assert found == ({unit} if layer in expected else set()), (group, layer)


@pytest.mark.parametrize("backbone", NETS)
def test_a_unit_that_none_of_its_writers_writes_is_silent(backbone: str) -> None:
    for group in groups(alive(backbone)):
        net = alive(backbone)
        writers, readers = groups(net)[group]
        disturb(net, writers, 0, 0.0)
        seen, _ = reads(net)
        for one in readers:
            first, second = seen[one.layer][:, : 2 * one.places].split(one.places, 1)
            assert not first.any(), (group, one.layer)
            assert second.any(), (group, one.layer)


@pytest.mark.parametrize("backbone", NETS)
def test_the_image_reaches_the_answers_only_by_the_layers_that_read_it(backbone: str) -> None:
    net = alive(backbone)
    with torch.no_grad():
        for one in connections(net.model):
            if one.reads == IMAGE:
                net.stored[one.weight].zero_()
        assert torch.equal(net(inputs(net)).logits, net(torch.zeros_like(inputs(net))).logits)


def test_the_layers_of_our_backbones_are_those_that_a_table_by_hand_lists() -> None:
    def listed(backbone: str) -> list[tuple[str, str, str, str, int]]:
        found = connections(network(backbone, WIDTH[backbone], (1, 12, 12)).model)
        return [(o.layer.removeprefix("backbone."), o.reads, o.writes, o.norm or "", o.stage) for o in found]

    assert listed("mlp") == [
        ("first", IMAGE, "first", "", 0),
        ("second", "first", "second", "", 1),
        ("head", "second", HEAD, "", 1),
    ]
    layers = ["layers.0", "layers.4", "layers.8"]
    assert [row[:3] for row in listed("cnn")] == list(zip([*layers, HEAD], [IMAGE, *layers], [*layers, HEAD]))
    assert [row[3:] for row in listed("cnn")[:-1]] == [(f"backbone.layers.{4 * n + 1}", n) for n in range(3)]
    for backbone, each in (("resnet10", 1), ("resnet18", 2)):
        expected = [("stem", IMAGE, "stem", "backbone.norm", 0)]
        group = "stem"
        for number in range(4 * each):
            at, stage, before = f"blocks.{number}", number // each, group
            wider = stage > 0 and number % each == 0
            group = f"{at}.conv2" if wider else before
            expected.append((f"{at}.conv1", before, f"{at}.conv1", f"backbone.{at}.norm1", stage))
            expected.append((f"{at}.conv2", f"{at}.conv1", group, f"backbone.{at}.norm2", stage))
            if wider:
                expected.append((f"{at}.shortcut.0", before, group, f"backbone.{at}.shortcut.1", stage))
        assert listed(backbone) == [*expected, ("head", group, HEAD, "", 3)]


def test_what_an_identity_passes_on_and_what_is_added_to_it_are_the_same_units() -> None:
    listed = {one.layer: one for one in connections(network("resnet18", 2, (1, 12, 12)).model)}
    stem, tied = listed["backbone.stem"], ["blocks.0.conv2", "blocks.1.conv2"]
    assert {listed[f"backbone.{name}"].writes for name in tied} == {stem.writes}
    narrower = listed["backbone.blocks.2.shortcut.0"]
    assert narrower.reads == stem.writes
    assert listed["backbone.blocks.2.conv2"].writes == listed["backbone.blocks.3.conv2"].writes == narrower.writes
    assert narrower.writes != stem.writes
    assert listed["head"].reads == listed["backbone.blocks.7.conv2"].writes
