from dataclasses import dataclass, fields
from math import inf, nan
from typing import Any, Literal, get_type_hints

import pytest

from esacl.config import MachineConfig, NetConfig, StreamConfig, TrainConfig, _Top
from esacl.errors import ConfigError
from esacl.methods import DEFAULT_PARTS, METHODS
from esacl.options import NoOptions, describe, helps, option, parse
from esacl.problem import literal


@dataclass(frozen=True, slots=True)
class Sample:
    """One option of every kind."""

    count: int = option(3, "a count", low=1, high=9)
    rate: float = option(0.5, "a rate", low=0, high=1)
    share: float | None = option(None, "a share", low=0)
    on: bool = option(True, "a switch")
    word: str = option("x", "a word")
    kind: Literal["32", "bf16"] = option("32", "a kind")
    limit: int | None = option(None, "a limit", low=1)


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("count", 0, "a whole number from 1 to 9"),
        ("count", 10, "a whole number from 1 to 9"),
        ("count", 2.0, "a whole number from 1 to 9"),
        ("count", "2", "a whole number from 1 to 9"),
        ("count", True, "a whole number from 1 to 9"),
        ("count", None, "a whole number from 1 to 9"),
        ("count", [2], "a whole number from 1 to 9"),
        ("rate", -0.1, "a number from 0 to 1"),
        ("rate", 2, "a number from 0 to 1"),
        ("rate", nan, "a number from 0 to 1"),
        ("rate", inf, "a number from 0 to 1"),
        ("rate", False, "a number from 0 to 1"),
        ("rate", "half", "a number from 0 to 1"),
        ("share", inf, "a number of at least 0, or nothing"),
        ("share", nan, "a number of at least 0, or nothing"),
        ("share", -1, "a number of at least 0, or nothing"),
        ("share", 10**400, "a number of at least 0, or nothing"),
        ("on", 1, "true or false"),
        ("on", "true", "true or false"),
        ("word", 3, "text"),
        ("word", None, "text"),
        ("kind", "64", "'32' or 'bf16'"),
        ("kind", 64, "'32' or 'bf16'"),
        ("kind", True, "'32' or 'bf16'"),
        ("kind", 32.0, "'32' or 'bf16'"),
        ("kind", ["32"], "'32' or 'bf16'"),
        ("limit", 0, "a whole number of at least 1, or nothing"),
        ("limit", True, "a whole number of at least 1, or nothing"),
        ("limit", {}, "a whole number of at least 1, or nothing"),
    ],
)
def test_a_bad_value_is_refused_with_its_place_and_what_is_allowed(name: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(Sample, {name: value}, "part")
    assert str(error.value) == f"part.{name} = {literal(value)} is not allowed. Allowed: {allowed}."


@pytest.mark.parametrize(
    ("name", "value", "result"),
    [
        ("count", 1, 1),
        ("count", 9, 9),
        ("rate", 1, 1.0),
        ("rate", 0, 0.0),
        ("share", None, None),
        ("share", 7, 7.0),
        ("on", False, False),
        ("word", "", ""),
        ("kind", 32, "32"),
        ("kind", "bf16", "bf16"),
        ("limit", None, None),
        ("limit", 1, 1),
    ],
)
def test_bounds_are_included_and_a_whole_number_serves_as_number_or_as_the_name_of_a_choice(
    name: str, value: Any, result: Any
) -> None:
    parsed = getattr(parse(Sample, {name: value}, "part"), name)
    assert parsed == result
    assert type(parsed) is type(result)


def test_options_that_are_not_given_have_their_defaults() -> None:
    assert parse(Sample, {}, "part") == Sample()
    assert parse(Sample, {"count": 4}, "part") == Sample(count=4)


def test_an_unknown_option_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown option of part 'cuont'\. Did you mean 'count'\? Allowed: count, "):
        parse(Sample, {"cuont": 1}, "part")


def test_an_option_like_no_other_is_refused_without_a_suggestion() -> None:
    with pytest.raises(ConfigError) as error:
        parse(Sample, {"zzzzzz": 1}, "part")
    assert "Did you mean" not in str(error.value)
    assert "Allowed: count, kind, limit, on, rate, share, word." in str(error.value)


def test_a_part_without_options_takes_none() -> None:
    with pytest.raises(ConfigError, match="unknown option of readout 'x'"):
        parse(NoOptions, {"x": 1}, "readout")


def test_helps_tells_default_and_help_line_of_each_option() -> None:
    told = helps(Sample)
    assert list(told) == [f.name for f in fields(Sample)]
    assert told["count"][:2] == (3, "a count")
    assert told["kind"].allowed == describe(get_type_hints(Sample)["kind"], {})


PARTS = {part for row in METHODS.values() for part in row.parts.values()} | set(DEFAULT_PARTS.values())
RECORDS = {StreamConfig, NetConfig, TrainConfig, MachineConfig, _Top} | {part.Options for part in PARTS}


@pytest.mark.parametrize("record", sorted(RECORDS, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_every_option_has_a_help_line_and_an_admitted_default(record: Any) -> None:
    for f in fields(record):
        assert len(f.metadata["help"]) > 5, f.name
        assert "\n" not in f.metadata["help"]
    assert parse(record, {f.name: f.default for f in fields(record)}, "defaults") == record()
