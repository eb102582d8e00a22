from dataclasses import fields, replace

import pytest

from esacl.config import CHOSEN, SLOTS, Config, NetConfig
from esacl.errors import ConfigError
from esacl.methods import (
    DEFAULT_PARTS,
    METHODS,
    Method,
    build_parts,
    combine,
    compose,
    method,
    resolve,
)
from esacl.nets import BACKBONES, traits_of
from esacl.objectives.base import Objective
from esacl.objectives.derpp import Derpp
from esacl.objectives.er import Er
from esacl.objectives.finetune import Finetune
from esacl.optim.gradient import GradientRule
from esacl.optim.polytope_update import PolytopeUpdate
from esacl.optim.sharpness import SharpnessAware
from esacl.optim.update import UpdateRule
from esacl.options import NoOptions
from esacl.selection.ranked import Ranked
from esacl.sparsity.base import Dense
from esacl.sparsity.esacl import Esacl
from tests.builders import context, stream

STREAM = stream()
PRUNING = ["esacl", "esacl-er", "esacl-der++"]
SWITCHES = {"sparsity.sharpness": "gradient", "sparsity.polytope": "update"}


def switched_off(*switches: str) -> dict[str, bool]:
    """Options of the sparsity slot that leave parts out."""
    return dict.fromkeys(switches, False)


class Ascending(GradientRule):
    """A rule of another name."""


@pytest.mark.parametrize(("given", "meant"), [("derpp", "der++"), ("fine-tune", "finetune"), ("err", "er")])
def test_an_unknown_method_is_refused_with_the_nearest_one(given: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"unknown method '{given}'") as error:
        method(given)
    assert f"Did you mean '{meant}'?" in str(error.value)
    assert "`esacl methods` describes them." in str(error.value)
    with pytest.raises(ConfigError, match=f"unknown method '{given}'"):
        resolve(Config(given), STREAM)


@pytest.mark.parametrize(
    ("name", "slot", "key", "message"),
    [
        ("finetune", "objective", "buffer", "method 'finetune' has no use for objective.buffer = 9."),
        ("er", "objective", "alpha", "method 'er' has no use for objective.alpha = 9."),
        ("er", "selection", "keep", "method 'er' has no use for selection.keep = 9."),
        ("er", "sparsity", "level", "method 'er' has no use for sparsity.level = 9."),
        ("er", "gradient", "rho", "method 'er' has no use for gradient.rho = 9."),
        ("der++", "update", "radius", "method 'der++' has no use for update.radius = 9."),
    ],
)
def test_an_option_without_a_use_is_refused_with_the_methods_that_use_it(
    name: str, slot: str, key: str, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        resolve(Config(name, options={slot: {key: 9}}), STREAM)
    users = [user for user, row in METHODS.items() if key in row.options(slot)]
    assert users
    told = str(error.value)
    assert told.startswith(f"{message} Methods that use it: {', '.join(sorted(users))}.")
    assert (f": parts.{slot} = " in told) == (slot in CHOSEN), "a part that can be chosen is named"


def test_an_option_with_a_flag_that_no_method_uses_is_refused_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name, row in METHODS.items() if "rho" in row.options("gradient")]:
        monkeypatch.delitem(METHODS, name)
    with pytest.raises(ConfigError) as error:
        resolve(Config("er", options={"gradient": {"rho": 0.1}}), STREAM)
    assert str(error.value) == "method 'er' has no use for gradient.rho = 0.1. No method uses it yet. Leave it out."


def test_an_option_that_no_method_knows_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown option of objective 'bufer'\. Did you mean 'buffer'\?"):
        resolve(Config("er", options={"objective": {"bufer": 3}}), STREAM)
    with pytest.raises(ConfigError, match=r"objective\.buffer = 0 is not allowed"):
        resolve(Config("er", options={"objective": {"buffer": 0}}), STREAM)


def test_two_parts_that_claim_one_slot_are_refused_with_both_names() -> None:
    with pytest.raises(ConfigError, match="Er and Derpp both claim the objective slot") as error:
        combine("both", METHODS["er"], METHODS["der++"])
    assert "leave one of the two out" in str(error.value)


def test_methods_that_fill_different_slots_combine() -> None:
    both = combine("both", METHODS["er"], Method("sam", {"gradient": Ascending}))
    assert both.part("objective") is Er
    assert both.part("gradient") is Ascending
    assert both.part("update") is DEFAULT_PARTS["update"]


IDLE = {"keep": 0.4, "redundant": False}
NOTHING_TO_KEEP_FROM = [
    {"selection": IDLE},
    {"selection": IDLE, "gradient": {"rho": 0.0}},
    {"selection": {**IDLE, "support": False}, "gradient": {"rho": 0.1}},
    {"selection": IDLE, "sparsity": {"sharpness": False}},
]


@pytest.mark.parametrize("options", NOTHING_TO_KEEP_FROM)
def test_a_share_to_keep_with_nothing_to_keep_it_from_is_refused_with_a_remedy(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"esacl-er: selection\.keep = 0\.4 selects .*Leave selection\.keep out"):
        resolve(Config("esacl-er", options=options), STREAM)


@pytest.mark.parametrize(
    "options",
    [
        {"selection": {"keep": 0.4}},
        {"selection": {"redundant": False}},
        {"selection": IDLE, "gradient": {"rho": 0.1}},
        {"selection": {"keep": 0.4, "support": False}, "gradient": {"rho": 0.1}},
    ],
)
def test_each_kind_of_selection_is_accepted_where_it_selects_something(options: dict[str, object]) -> None:
    assert resolve(Config("esacl-er", options=options), STREAM).options["selection"]["rule"] == "random"


@pytest.mark.parametrize(("one", "other"), [("reach", "eta"), ("window", "averaging")])
def test_two_forms_of_the_same_setting_are_refused_and_one_leaves_the_other_open(one: str, other: str) -> None:
    with pytest.raises(ConfigError, match=rf"update\.{one} = 0\.5 and update\.{other} = 0\.25 are two forms"):
        resolve(Config("esacl", options={"update": {one: 0.5, other: 0.25}}), STREAM)
    resolved = resolve(Config("esacl", options={"update": {other: 0.25}}), STREAM)
    assert resolved.options["update"][one] is None
    assert resolve(resolved, STREAM) == resolved


@pytest.mark.parametrize("name", METHODS)
def test_resolving_spells_out_every_setting_and_changes_nothing_the_second_time(name: str) -> None:
    resolved = resolve(Config(name), STREAM)
    for slot in SLOTS:
        assert set(resolved.options.get(slot, {})) == {f.name for f in fields(compose(Config(name)).part(slot).Options)}
    assert resolved.net == NetConfig("mlp", 256, freeze=None if method(name).trains else "all")
    assert resolved.options["update"]["lr"] == method(name).part("update").rates.plain
    assert resolve(resolved, STREAM) == resolved


def test_resolving_keeps_what_was_given() -> None:
    given = Config("der++", net=NetConfig("cnn", 5), options={"objective": {"alpha": 0.3}, "update": {"lr": 0}})
    resolved = resolve(given, STREAM)
    assert resolved.net == NetConfig("cnn", 5)
    assert resolved.options["objective"]["alpha"] == 0.3
    assert resolved.options["objective"]["beta"] == 0.5
    assert resolved.options["update"]["lr"] == 0.0


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("rule", [UpdateRule, PolytopeUpdate])
def test_every_backbone_has_defaults_of_its_own(rule: type[UpdateRule], backbone: str) -> None:
    name = "esacl" if rule is PolytopeUpdate else "er"
    steps = {"sparsity": {"polytope": True}} if rule is PolytopeUpdate else {}
    resolved = resolve(Config(name, net=NetConfig(backbone), options=steps), stream(shape=(3, 33, 33)))
    net = traits_of(backbone, None, (3, 33, 33))
    suited = rule.defaults(net, dict.fromkeys(("eta", "averaging")))
    assert suited.keys() >= {"lr"}
    assert {key: resolved.options["update"][key] for key in suited} == suited
    given = dict.fromkeys(suited, 0.25)
    kept = resolve(Config(name, net=NetConfig(backbone), options={**steps, "update": given}), stream(shape=(3, 33, 33)))
    assert {key: kept.options["update"][key] for key in suited} == given


def test_auto_takes_an_mlp_for_tiny_images_and_a_residual_network_for_larger_ones() -> None:
    assert resolve(Config("er"), stream(shape=(3, 15, 15))).net == NetConfig("mlp", 256)
    assert resolve(Config("er"), stream(shape=(3, 16, 16))).net == NetConfig("resnet10", 16)


@pytest.mark.parametrize("name", METHODS)
def test_the_parts_of_a_method_fill_its_slots_with_its_options(name: str) -> None:
    resolved = resolve(Config(name), STREAM)
    known = context()
    built = build_parts(resolved, known)
    for slot in SLOTS:
        part = getattr(built, slot)
        assert type(part) is compose(Config(name)).part(slot)
        assert part.context is known
        assert {f.name: getattr(part.options, f.name) for f in fields(part.options)} == resolved.options.get(slot, {})


def test_parts_are_built_with_the_options_of_the_run() -> None:
    resolved = resolve(Config("der++", options={"objective": {"buffer": 7, "alpha": 2}}), STREAM)
    objective = build_parts(replace(resolved), context()).objective
    assert isinstance(objective, Derpp)
    assert objective.options.alpha == 2.0
    assert objective.memory.capacity == 7


@pytest.mark.parametrize(("name", "objective"), [("esacl", Finetune), ("esacl-er", Er), ("esacl-der++", Derpp)])
def test_esacl_fills_four_slots_and_its_backbone_method_the_objective(name: str, objective: type[Objective]) -> None:
    built = build_parts(resolve(Config(name), STREAM), context())
    assert type(built.objective) is objective
    assert type(built.gradient) is SharpnessAware
    assert type(built.update) is PolytopeUpdate
    assert type(built.sparsity) is Esacl
    assert type(built.selection) is Ranked


def test_esacl_does_not_combine_with_a_method_that_fills_one_of_its_slots() -> None:
    with pytest.raises(ConfigError, match="Esacl and Dense both claim the sparsity slot"):
        combine("both", METHODS["esacl-er"], Method("dense", {"sparsity": Dense}))
    with pytest.raises(ConfigError, match="Er and Derpp both claim the objective slot"):
        combine("both", METHODS["esacl-er"], METHODS["der++"])


def test_a_combination_has_the_switches_of_its_rows() -> None:
    for name in PRUNING:
        assert METHODS[name].switches == SWITCHES
    assert combine("both", METHODS["esacl"], METHODS["er"]).switches == SWITCHES
    assert METHODS["er"].switches == {}


@pytest.mark.parametrize("name", PRUNING)
@pytest.mark.parametrize("off", [("sharpness",), ("polytope",), ("sharpness", "polytope")])
def test_a_switch_leaves_its_part_out_and_nothing_else(name: str, off: tuple[str, ...]) -> None:
    resolved = resolve(Config(name, options={"sparsity": switched_off(*off)}), STREAM)
    built, whole = (build_parts(c, context()) for c in (resolved, resolve(Config(name), STREAM)))
    assert type(built.gradient) is (GradientRule if "sharpness" in off else SharpnessAware)
    assert type(built.update) is (UpdateRule if "polytope" in off else PolytopeUpdate)
    for slot in ("objective", "constraint", "sparsity", "selection", "readout"):
        assert type(getattr(built, slot)) is type(getattr(whole, slot))
    for slot in SLOTS:
        names = {f.name for f in fields(getattr(built, slot).options)}
        assert set(resolved.options.get(slot, {})) == names
    assert resolve(resolved, STREAM) == resolved


def test_a_switch_that_is_on_changes_nothing() -> None:
    on = {"sparsity": {"sharpness": True, "polytope": True}}
    assert resolve(Config("esacl-er", options=on), STREAM) == resolve(Config("esacl-er"), STREAM)


@pytest.mark.parametrize("backbone", ["mlp", "resnet18"])
def test_without_the_polytope_the_learning_rate_is_that_of_sgd_for_the_backbone(backbone: str) -> None:
    given = Config("esacl-er", net=NetConfig(backbone), options={"sparsity": switched_off("polytope")})
    plain = Config("er", net=NetConfig(backbone))
    of = stream(shape=(3, 16, 16))
    assert resolve(given, of).options["update"] == resolve(plain, of).options["update"]
    rates = UpdateRule.rates
    assert resolve(given, of).options["update"]["lr"] == (rates.plain if backbone == "mlp" else rates.batchnorm)


@pytest.mark.parametrize(
    ("slot", "key", "switch", "named"),
    [
        ("gradient", "rho", "sharpness", "gradient.rho"),
        ("gradient", "every", "sharpness", "gradient.every"),
        ("update", "radius", "polytope", "update.radius"),
    ],
)
def test_an_option_of_a_part_that_is_switched_off_is_refused_with_the_switch(
    slot: str, key: str, switch: str, named: str
) -> None:
    given = {"sparsity": switched_off(switch), slot: {key: 2}}
    with pytest.raises(ConfigError) as error:
        resolve(Config("esacl-er", options=given), STREAM)
    assert str(error.value) == (
        f"method 'esacl-er' has no use for {named} = 2 while sparsity.{switch} = false. Leave it out, or use "
        f"sparsity.{switch} = true."
    )


def test_a_misspelt_option_of_a_part_that_is_switched_off_is_still_unknown() -> None:
    given = {"sparsity": switched_off("sharpness"), "gradient": {"rhoo": 2}}
    with pytest.raises(ConfigError, match=r"unknown option of gradient 'rhoo'"):
        resolve(Config("esacl-er", options=given), STREAM)


@pytest.mark.parametrize("value", ["no", 0, None, 1.0])
def test_a_switch_takes_true_or_false(value: object) -> None:
    with pytest.raises(ConfigError, match=r"sparsity\.sharpness = .* is not allowed\. Allowed: true or false\."):
        resolve(Config("esacl-er", options={"sparsity": {"sharpness": value}}), STREAM)


def test_parts_without_options_have_none_to_spell_out() -> None:
    plain = Config.of(method="er", readout="own")
    assert resolve(plain, STREAM).options.keys() == {"objective", "update", "sparsity"}
    assert GradientRule.Options is NoOptions
