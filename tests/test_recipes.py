from dataclasses import fields, replace

import pytest

from esacl.config import SLOTS, Config, NetConfig
from esacl.errors import ConfigError
from esacl.objectives.derpp import Derpp
from esacl.objectives.er import Er
from esacl.optim.gradient import GradientRule
from esacl.recipes import (
    DEFAULT_PARTS,
    LEARNING_RATES,
    METHODS,
    Method,
    build_parts,
    check_composition,
    combine,
    method,
    resolve,
)
from esacl.selection.base import DataSelector
from tests.builders import context, stream

STREAM = stream()


class NeedsAscent(DataSelector):
    needs_ascent = True


class Ascending(GradientRule):
    ascends = True


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
        ("finetune", "objective", "buffer", "method 'finetune' has no use for --buffer (objective.buffer) = 9."),
        ("er", "objective", "alpha", "method 'er' has no use for objective.alpha = 9."),
        ("er", "selection", "keep", "method 'er' has no use for --keep (selection.keep) = 9."),
        ("er", "sparsity", "level", "method 'er' has no use for --sparsity (sparsity.level) = 9."),
    ],
)
def test_an_option_without_a_use_is_refused_with_the_methods_that_use_it(
    name: str, slot: str, key: str, message: str
) -> None:
    with pytest.raises(ConfigError) as error:
        resolve(Config(name, options={slot: {key: 9}}), STREAM)
    users = [user for user, row in METHODS.items() if key in row.options(slot)]
    remedy = f"Methods that use it: {', '.join(sorted(users))}." if users else "No method uses it yet."
    assert str(error.value) == f"{message} {remedy} Leave it out."


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


def test_a_selection_for_the_ascent_needs_a_gradient_rule_that_ascends() -> None:
    with pytest.raises(ConfigError, match=r"the selection NeedsAscent .* but the gradient rule GradientRule has none"):
        check_composition("odd", Method("odd", {"selection": NeedsAscent}))
    check_composition("even", Method("even", {"selection": NeedsAscent, "gradient": Ascending}))


def test_a_composition_that_means_nothing_is_refused_when_the_run_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "odd", Method("odd", {"selection": NeedsAscent}))
    with pytest.raises(ConfigError, match="odd: the selection NeedsAscent"):
        resolve(Config("odd"), STREAM)


@pytest.mark.parametrize("name", METHODS)
def test_resolving_spells_out_every_setting_and_changes_nothing_the_second_time(name: str) -> None:
    resolved = resolve(Config(name), STREAM)
    for slot in SLOTS:
        assert set(resolved.options.get(slot, {})) == {f.name for f in fields(method(name).part(slot).Options)}
    assert resolved.net == NetConfig("mlp", 256)
    assert resolved.options["update"]["lr"] == LEARNING_RATES["mlp"]
    assert resolve(resolved, STREAM) == resolved


def test_resolving_keeps_what_was_given() -> None:
    given = Config("der++", net=NetConfig("cnn", 5), options={"objective": {"alpha": 0.3}, "update": {"lr": 0}})
    resolved = resolve(given, STREAM)
    assert resolved.net == NetConfig("cnn", 5)
    assert resolved.options["objective"]["alpha"] == 0.3
    assert resolved.options["objective"]["beta"] == 0.5
    assert resolved.options["update"]["lr"] == 0.0


def test_every_backbone_has_a_learning_rate_of_its_own() -> None:
    for backbone, rate in LEARNING_RATES.items():
        resolved = resolve(Config("er", net=NetConfig(backbone)), stream(shape=(3, 16, 16)))
        assert resolved.options["update"]["lr"] == rate


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
        assert type(part) is method(name).part(slot)
        assert part.context is known
        assert {f.name: getattr(part.options, f.name) for f in fields(part.options)} == resolved.options.get(slot, {})


def test_parts_are_built_with_the_options_of_the_run() -> None:
    resolved = resolve(Config("der++", options={"objective": {"buffer": 7, "alpha": 2}}), STREAM)
    objective = build_parts(replace(resolved), context()).objective
    assert isinstance(objective, Derpp)
    assert objective.options.alpha == 2.0
    assert objective.memory.capacity == 7
