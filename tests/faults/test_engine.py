"""The check can fail: harm that was planted is reported, and what is harmless is not."""

from random import Random

import pytest

from tests.faults import damage_values
from tests.faults.campaign import plan
from tests.faults.forked import forked
from tests.faults.kinds import KINDS
from tests.faults.planted import HARM, HARMLESS, attempt_all


@pytest.fixture(scope="module")
def found():
    """What the oracle says of every planted action."""
    return forked(attempt_all)


@pytest.mark.parametrize("name", HARM)
def test_planted_harm_is_reported(found, name):
    _, sign = HARM[name]
    assert any(sign in problem for problem in found[name]), found[name]


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_harmless_is_not_reported(found, name):
    assert found[name] == ()


def test_every_kind_has_its_share_of_cases_and_no_case_comes_twice():
    cases = list(plan(KINDS, 300, seed=1))
    assert {kind.name for kind, _ in cases} == set(KINDS)
    assert len({(kind.name, seed) for kind, seed in cases}) == 300
    others = {(kind.name, seed) for kind, seed in plan(KINDS, 300, seed=2)}
    assert not others & {(kind.name, seed) for kind, seed in cases}


def test_no_case_depends_on_those_before_it():
    before = repr(damage_values.POISON)
    trees = [damage_values.damage(Random(seed), {"a": [1, {"b": 2}], "c": []}) for seed in range(500)]
    assert repr(damage_values.POISON) == before
    assert repr(trees) == repr(
        [damage_values.damage(Random(seed), {"a": [1, {"b": 2}], "c": []}) for seed in range(500)]
    )
