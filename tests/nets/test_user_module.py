"""Networks of the user's own: found out by calling them, and refused in one line where they cannot be used."""

import sys

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from esacl.errors import ConfigError, RunError
from esacl.nets import Network, own_net
from esacl.nets.user_code import load
from tests.builders import CPU, parts, same
from tests.nets.own_nets import OWN, Attention, Odd, Plain, Recurrent, Separable, made

SHAPE = (1, 8, 8)
ONES = torch.ones(2, *SHAPE)


def network(module):
    return Network(own_net(module, SHAPE, 0).model(10, 0), SHAPE, CPU)


@pytest.mark.parametrize(
    ("kind", "features", "head"),
    [(Attention, 16, "out (16 → 10)"), (Separable, 16, None), (Plain, 32, "classify (32 → 10)")],
)
def test_a_last_linear_layer_is_the_head_and_everything_else_is_features(kind, features, head):
    found = own_net(made(kind), SHAPE, 0)
    assert (found.features, found.replaced) == (features, head)
    assert found.model(7, 0)(ONES).logits.shape == (2, 7)


def test_identity_behind_the_last_layer_keeps_it_as_features():
    found = own_net(nn.Sequential(made(Plain), nn.Identity()), SHAPE, 0)
    assert (found.features, found.replaced) == (10, None)


def test_the_module_stays_as_it_was_and_its_weights_are_those_that_training_starts_with():
    module = made(Plain, seed=5)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = own_net(module, SHAPE, 0).model(10, 0)
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
    assert same(before, module.state_dict())
    again = own_net(module, SHAPE, 3).model(10, 3).state_dict()
    for name, value in before.items():
        if not name.startswith("classify"):
            assert torch.equal(again[f"backbone.{name}"], value)


def test_prunable_are_the_weights_of_linear_layers_all_convolutions_and_attention():
    assert set(network(made(Attention)).partition.prunable) == {
        "backbone.embed.weight",
        "backbone.block.self_attn.in_proj_weight",
        "backbone.block.self_attn.out_proj.weight",
        "backbone.block.linear1.weight",
        "backbone.block.linear2.weight",
    }
    assert network(made(Separable)).partition.prunable == tuple(f"backbone.layers.{n}.weight" for n in (0, 3, 6))
    one = nn.Sequential(nn.Flatten(2), nn.Conv1d(1, 4, 3), nn.ConvTranspose1d(4, 2, 3), nn.Flatten())
    assert len(network(one).partition.prunable) == 2


@pytest.mark.parametrize("kind", OWN)
def test_a_forward_pass_is_what_torch_counts_and_zeros_are_credited(kind):
    net = network(made(kind))
    with FlopCounterMode(display=False) as counter:
        net(torch.zeros(3, *SHAPE))
    products = 2 * 8 * 8 * 16 if kind is Attention else 0  # which torch does not count in its fused kernel
    assert counter.get_total_flops() == 2 * 3 * (net.meter.dense - products)
    dead = dict.fromkeys((name.removesuffix(".weight") for name in net.partition.prunable), 0.0)
    net.meter.set_density(dead)
    assert net.meter.sparse == net.meter.layers["head"] + products


def test_transposed_convolutions_count_every_weight_at_every_place_of_their_input():
    module = nn.Sequential(nn.ConvTranspose2d(1, 6, 3, stride=2), nn.Flatten(), nn.ReLU())
    assert network(module).meter.layers["backbone.0"] == 64 * 6 * 9


def broken(net, x):
    raise RuntimeError("mat1 and mat2\ncannot be multiplied")


def doubly(net, x):
    return net(x) + net(x).mean(0)


REFUSED = [
    (Odd(broken), "fails on 3 image(s) of 1×8×8: RuntimeError: mat1 and mat2"),
    (Odd(lambda net, x: net.one(x)), "makes [3, 8, 8, 8] of 3 images"),
    (Odd(lambda net, x: net(x)[:1]), "makes [1, 10] of 3 images"),
    (Odd(lambda net, x: (net(x), x)), "returns tuple, not a tensor"),
    (Odd(lambda net, x: net(x) / 0), "not finite"),
    (Odd(lambda net, x: net(x).double()), "returns torch.float64"),
    (Odd(lambda net, x: net(x) + torch.rand(1)), "is not deterministic"),
    (Odd(doubly), "answers for an image by what else is in the batch"),
    (
        Odd(lambda net, x: net.hidden(net.two(net.one(x)).flatten(1))),
        "does not depend on, such as 'net.classify.weight'",
    ),
    (Odd(lambda net, x: net(x).detach() * 2), "does not depend on"),
    (nn.Flatten(), "has no parameters"),
    (nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), "has nothing but its last layer"),
    (made(Plain).double(), "of torch.float64"),
    (nn.Sequential(nn.InstanceNorm2d(1, track_running_stats=True), made(Plain)), "changes '0.running_mean'"),
    (3, "backbone = 3 is not allowed"),
]


@pytest.mark.parametrize(("module", "words"), REFUSED, ids=[words[:30] for _, words in REFUSED])
def test_what_cannot_be_used_is_refused_in_one_line(module, words):
    with pytest.raises(ConfigError) as refused:
        own_net(module, SHAPE, 0)
    told = str(refused.value)
    assert words in told
    assert "\n" not in told
    assert told.endswith(".")


def test_one_parameter_under_two_names_is_refused():
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    module[3].weight = module[1].weight
    with pytest.raises(ConfigError, match=r"under two names, '1\.weight' and '3\.weight'"):
        own_net(module, SHAPE, 0)


@pytest.mark.parametrize(
    ("method", "kind", "words"),
    [
        ("gpm", Attention, "in_proj_weight' is a weight of attention"),
        ("gpm", Separable, "depthwise"),
        ("nispa", Plain, "which layer reads which"),
        ("ewc", Recurrent, r"gradient of each example .* Leave out recurrent layers"),
        *((name, Recurrent, "nothing of this network can be") for name in ("esacl-er", "sparcl", "packnet", "wsn")),
    ],
)
def test_methods_that_must_know_more_of_the_network_say_so(method, kind, words):
    with pytest.raises(ConfigError, match=words):
        parts(method).attach(network(made(kind)))


def branching(net, x):
    return net(x) if x.sum() > -1e9 else net(-x)


@pytest.mark.parametrize("method", ["ewc", "esacl-ewc", "sparcl-ewc"])
def test_ewc_refuses_branches_that_depend_on_values_in_one_line(method):
    with pytest.raises(ConfigError, match=r"vmap cannot do for this network \(RuntimeError: .* …\)") as refused:
        parts(method).attach(network(Odd(branching)))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", OWN)
def test_ewc_takes_other_networks_and_trying_them_costs_and_changes_nothing(kind):
    net = network(made(kind))
    before = {name: value.clone() for name, value in net.model.state_dict().items()}
    parts("ewc").attach(net)
    assert same(before, net.model.state_dict())
    assert net.meter.state_dict() == network(made(kind)).meter.state_dict()


def test_gpm_knows_the_layers_of_a_plain_net():
    net = network(made(Plain))
    gpm = parts("gpm", {"constraint": {"head": "projected"}}).constraint
    gpm.attach(net)
    matrices = {name for name, value in net.stored.items() if value.dim() > 1}
    assert set(gpm._layers(net)) == matrices
    assert len(matrices) > 2, "hidden layers and the head"


def test_a_single_example_that_cannot_be_normalised_is_told():
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU())
    net = network(module)
    net.train_mode()
    net(ONES)
    with pytest.raises(RunError, match="single example"):
        net(ONES[:1])


CODE = """
import torch
from torch import nn
{before}
def tiny():
    return {made}
"""


@pytest.mark.parametrize("name", ["mynets:tiny", "mynets.py:tiny"])
def test_code_is_found_in_the_current_folder_and_drawn_by_the_seed(name, tmp_path, monkeypatch):
    module = "nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU())"
    (tmp_path / "mynets.py").write_text(CODE.format(before="", made=module))
    monkeypatch.delitem(sys.modules, "mynets", raising=False)
    monkeypatch.chdir(tmp_path)
    state = torch.get_rng_state()
    one, same_seed, other = load(name, 0), load(name, 0), load(name, 1)
    assert torch.equal(state, torch.get_rng_state())
    assert same(one.state_dict(), same_seed.state_dict())
    assert not same(one.state_dict(), other.state_dict())


@pytest.mark.parametrize("name", ["keeps:net", "keeps:cached"])
def test_a_module_that_code_keeps_is_copied_and_never_changed(name, tmp_path, monkeypatch):
    before = "net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10)).train()"
    (tmp_path / "keeps.py").write_text(CODE.format(before=before, made="net").replace("tiny", "cached"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "keeps", raising=False)
    first = own_net(name, SHAPE, 0)
    kept = sys.modules["keeps"].net
    assert isinstance(kept[3], nn.Linear), "its head is still there"
    assert kept.training
    with torch.no_grad():
        for value in first.module.parameters():
            value.zero_()
    second = own_net(name, SHAPE, 1)
    assert second.replaced == first.replaced == "3 (8 → 10)"
    assert torch.equal(second.module[1].weight, kept[1].weight)
    assert kept[1].weight.count_nonzero()


def test_lazy_layers_are_drawn_by_the_seed_whatever_the_global_generator_has_seen():
    def lazy(seed, drawn):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(drawn)
            return own_net(nn.Sequential(nn.Flatten(), nn.LazyLinear(8), nn.ReLU()), SHAPE, seed).module.state_dict()

    assert same(lazy(0, drawn=1), lazy(0, drawn=2))
    assert not same(lazy(0, drawn=1), lazy(1, drawn=1))


@pytest.mark.parametrize(
    ("before", "returned", "name", "words"),
    [
        ("", "3", "odd:tiny", "returns int, not a torch.nn.Module"),
        ("", "nn.Linear(8)", "odd:tiny", "fails when it is called without arguments: TypeError"),
        ("raise ValueError('bad\\nfile')", "3", "odd:tiny", "cannot be imported from .*: ValueError: bad"),
        ("", "3", "odd:large", "has no function 'large'"),
        ("", "3", "missing:tiny", "cannot be imported from .*: ModuleNotFoundError: No module named 'missing'"),
        ("", "3", "missing.py:tiny", "cannot be imported from .*: FileNotFoundError"),
        ("", "3", "odd:", "does not name a function"),
    ],
)
def test_code_that_gives_no_network_is_told_in_one_line(before, returned, name, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "odd", raising=False)
    (tmp_path / "odd.py").write_text(CODE.format(before=before, made=returned))
    with pytest.raises(ConfigError, match=words) as refused:
        load(name, 0)
    assert "\n" not in str(refused.value)
