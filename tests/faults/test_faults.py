"""Bad input does no harm: a fixed few hundred cases; `make fuzz` tries ten thousand others."""

from random import Random

import pytest

from tests.faults import damage_bytes, damage_values
from tests.faults.campaign import campaign
from tests.faults.engine import laboratory
from tests.faults.forked import forked
from tests.faults.kinds import KINDS

CASES = 300


def try_cases():
    """The failures of each kind, as the commands that repeat them with what is wrong."""
    with laboratory() as lab:
        tally = campaign(lab, KINDS, CASES, seed=0)
    assert tally.refused.total() > CASES // 4  # most input is really bad
    assert tally.answered.total() > CASES // 20  # and some of it is not
    failures: dict[str, list[tuple[str, ...]]] = {name: [] for name in KINDS}
    for verdict in tally.failures:
        failures[verdict.kind].append((verdict.replay, *verdict.problems, *verdict.told))
    return failures


@pytest.fixture(scope="module")
def failures():
    return forked(try_cases)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_does_no_harm(failures, kind):
    assert failures[kind] == []


def test_a_case_is_the_same_every_time():
    data, tree = bytes(range(200)), {"a": [1, {"b": 2.5}], "c": "text"}
    for seed in range(50):
        assert damage_bytes.damage(Random(seed), data) == damage_bytes.damage(Random(seed), data)
        one, other = (damage_values.damage(Random(seed), tree) for _ in range(2))
        assert repr(one) == repr(other)
    assert tree == {"a": [1, {"b": 2.5}], "c": "text"}
