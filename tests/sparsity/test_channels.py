"""Channel pruning: what goes says least and is silent by then, and the network that is left is an ordinary one."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.flop_counter import FlopCounterMode

from esacl.assembly import assemble
from esacl.config import Config, NetConfig, PartsConfig, TrainConfig
from esacl.errors import ConfigError
from esacl.methods import resolve
from esacl.nets.connections import HEAD, IMAGE
from esacl.nets.widths import widths_of
from esacl.sparsity.channels import Channels
from esacl.training.events import TaskDone
from esacl.training.trainer import Trainer
from tests.builders import CPU, finish, network, stream, trainer
from tests.reference.channels import kept, scores
from tests.resuming import assert_resumes

NETS = {"mlp": NetConfig("mlp", 16), "cnn": NetConfig("cnn", 6), "resnet10": NetConfig("resnet10", 6)}


def removing(method="esacl-er", backbone="cnn", epochs=1, seed=0, parts=None, **sparsity) -> Trainer:
    """A short run that removes channels."""
    shape = (1, 10, 10) if backbone == "resnet10" else (1, 8, 8)
    options = {"sparsity": {"unit": "channel", **sparsity}}
    if not method.endswith(("esacl", "ewc", "lwf")):
        options["objective"] = {"buffer": 20}
    train = TrainConfig(epochs=epochs, batch_size=8)
    of = stream(tasks=3, shape=shape)
    return trainer(method, options, of=of, net=NETS[backbone], train=train, parts=parts or PartsConfig(), seed=seed)


def in_turn(training: Trainer) -> Iterator[dict[str, int]]:
    """Widths after every task."""
    for event in training.run():
        if isinstance(event, TaskDone):
            yield widths_of(training.net.model, training.net.stored)


@pytest.mark.parametrize("scope", ["layer", "adaptive", "global"])
@pytest.mark.parametrize("backbone", NETS)
def test_the_channels_that_stay_are_those_of_the_naive_twin(backbone, scope):
    config = NETS[backbone]
    net = network(config.backbone, config.width, (1, 10, 10), seed=3)
    with torch.no_grad():
        for number, value in enumerate(net.stored.values()):
            value.copy_(torch.randn(value.shape, generator=torch.Generator().manual_seed(number)))
    channels = Channels(net, scope)
    layers = [(one.layer, one.reads, one.writes, one.norm) for one in channels.inner]
    expected = scores(net.stored, layers)
    for group, found in channels.scores().items():
        torch.testing.assert_close(found, torch.tensor([expected[group, number] for number in range(len(found))]))
    for level in (0.0, 0.3, 0.8, 0.999):
        budget = round((1 - level) * channels.weights)
        found = {group: chosen.tolist() for group, chosen in channels.kept(budget).items()}
        assert channels.size({group: len(chosen) for group, chosen in found.items()}) <= max(
            budget, channels.size(dict.fromkeys(found, 1))
        )
        if scope != "layer":  # where several go at once
            assert found == kept(net.stored, layers, budget, scope, IMAGE)
        else:
            smaller = kept(net.stored, layers, budget, scope, IMAGE)
            assert all({*own} <= {*smaller[group]} for group, own in found.items())


@pytest.mark.parametrize("backbone", NETS)
def test_removing_silent_channels_changes_no_answer(backbone):
    net = network(NETS[backbone].backbone, NETS[backbone].width, (1, 10, 10), seed=1)
    channels = Channels(net, "layer")
    stay = channels.kept(channels.weights // 3)
    with torch.no_grad():
        for name, factors in channels.shrinking(stay, 0.0).items():
            net.stored[name].mul_(factors)
    x = torch.randn(4, 1, 10, 10, generator=torch.Generator().manual_seed(0))
    with net.inference():
        before = net(x)
        net.narrow(stay)
        after = net(x)
    torch.testing.assert_close(after.logits, before.logits)
    last = channels.inner[-1].writes
    torch.testing.assert_close(after.features, before.features[:, stay[last]])
    assert {group: len(chosen) for group, chosen in stay.items()} == widths_of(net.model, net.stored)


@pytest.mark.parametrize("backbone", NETS)
def test_as_few_weights_are_left_as_asked_for_and_the_meter_charges_what_torch_counts(backbone):
    training = removing(backbone=backbone, level=0.7)
    full = training.net.meter.dense
    done = finish(training)
    net = done.net
    left = sum(net.stored[name].numel() for name in net.partition.prunable)
    assert left <= 0.3 * sum(net.sizes[name] for name in net.partition.prunable)
    assert done._update_density() == left / sum(net.sizes[name] for name in net.partition.prunable)
    assert net.meter.dense == net.meter.sparse < full
    net.train_mode()
    x, counted = torch.zeros(3, *net.shape), net.meter.executed_macs["train"]
    with FlopCounterMode(display=False) as counter:
        net.backward(cross_entropy(net(x).logits, torch.zeros(3, dtype=torch.int64)))
    first = next(iter(net.meter.layers.values()))
    assert 2 * (net.meter.executed_macs["train"] - counted) - counter.get_total_flops() == 2 * 3 * first


def test_later_tasks_execute_less_and_a_narrow_network_is_an_ordinary_one():
    training = removing(level=0.8, parts=PartsConfig(readout="own"))
    charged, found = [0], []
    for event in training.run():
        if isinstance(event, TaskDone):
            charged.append(training.net.meter.executed_macs["train"])
            found.append(widths_of(training.net.model, training.net.stored))
    first, second, third = (after - before for before, after in pairwise(charged))
    assert third <= second < 0.7 * first  # which replays nothing
    assert found[0] == found[1] == found[2]
    assert training.net.at_widest().meter.dense == removing(level=0.8).net.meter.dense


def test_a_geometric_quota_removes_channels_task_by_task():
    widths = list(in_turn(removing(level=0.9, quota="geometric")))
    assert widths[0]["layers.8"] > widths[1]["layers.8"] > widths[2]["layers.8"]


def test_nothing_goes_at_level_zero():
    done = finish(removing(level=0.0))
    assert done.net.widest == {}
    assert done._update_density() == 1


def test_channels_that_will_go_are_silent_when_they_do():
    training = trainer(
        "esacl-der++",
        {"sparsity": {"unit": "channel", "pull": 20.0}, "objective": {"buffer": 20}},
        of=stream(tasks=3),
        net=NETS["cnn"],
        train=TrainConfig(epochs=4, batch_size=8, unpruned=True),
    )
    finish(training)
    assert training.unpruned[0] == training.rows[0]


@pytest.mark.parametrize(
    ("method", "parts"),
    [
        ("esacl-der++", {"average": "ema", "readout": "lda"}),
        ("esacl-icarl", {}),
        ("esacl-co2l", {}),
        ("esacl-lwf", {}),
        ("esacl-ewc", {}),
        ("esacl", {"readout": "bias"}),
        ("esacl-er", {"readout": "refit"}),
    ],
)
def test_it_resumes_at_every_boundary_to_the_same_bits(method, parts, tmp_path):
    def build() -> Trainer:
        return removing(method, parts=PartsConfig(**parts), level=0.8, quota="geometric")

    used = finish(build())
    assert len(assert_resumes(build, used, tmp_path)) == 6
    assert len(used.net.widest) == 3


@pytest.mark.parametrize(
    ("method", "parts", "part"),
    [
        ("esacl-er", {"readout": "random-features"}, "RandomFeatures"),
        ("esacl", {"constraint": "gpm"}, "Gpm"),
    ],
)
def test_parts_that_cannot_follow_are_refused(method, parts, part):
    with pytest.raises(ConfigError, match=rf"{part} has values.*Use sparsity.unit = 'weight'"):
        removing(method, parts=PartsConfig(**parts))


def test_freezing_channels_is_left_to_growth():
    with pytest.raises(ConfigError, match=r"form = 'freeze'.*sparsity.form = 'cycle', or the method grow"):
        removing(form="freeze")


@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
@pytest.mark.parametrize("method", ["esacl", "esacl-er"])
def test_whole_channels_learn_on_by_default(method, backbone):
    config = Config(method, net=NETS[backbone], options={"sparsity": {"unit": "channel"}})
    own = resolve(config, stream()).options["sparsity"]
    assert (own["form"], own["quota"], own["scope"], own["polytope"]) == ("cycle", "literal", "layer", False)


def test_layers_that_training_leaves_alone_keep_their_channels():
    of, options = stream(tasks=2), {"sparsity": {"unit": "channel", "level": 0.8}, "objective": {"buffer": 20}}
    net, train = NetConfig("cnn", 8, freeze="layers.0,layers.1"), TrainConfig(epochs=1, batch_size=8)
    done = finish(assemble(resolve(Config("esacl-er", net=net, train=train, options=options), of), of, CPU))
    widths = widths_of(done.net.model, done.net.model.state_dict())
    assert widths["layers.0"] == 8
    assert widths["layers.8"] < 16
    assert done._update_density() <= 0.2


def test_the_head_is_never_pruned():
    done = finish(removing(level=0.9))
    assert HEAD not in done.net.widest
    assert len(done.net.stored["head.weight"]) == 6
