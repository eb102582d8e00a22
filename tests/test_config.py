import tomllib
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from esacl.config import (
    _SECTIONS,
    CHOSEN,
    SLOTS,
    Config,
    MachineConfig,
    NetConfig,
    PartsConfig,
    StreamConfig,
    TrainConfig,
    _Top,
    place_settings,
    read_toml,
    set_option,
)
from esacl.errors import ConfigError
from esacl.methods import METHODS, resolve
from esacl.nets import BACKBONES
from esacl.optim.gpm import Gpm
from esacl.options import _alternatives
from esacl.sparsity.esacl import OF_THE_PULL, Esacl
from tests.builders import stream

STREAM = stream(shape=(1, 16, 16))


def values_of(hint: Any, bounds: Any) -> st.SearchStrategy[Any]:
    """Values that an option admits."""
    low, high = bounds.get("low"), bounds.get("high")
    kinds: dict[Any, st.SearchStrategy[Any]] = {
        int: st.integers(low, high),
        float: st.floats(low, high, allow_nan=False, allow_infinity=False),
        bool: st.booleans(),
        str: st.text(),
        NoneType: st.none(),
    }
    return st.one_of(
        st.sampled_from(get_args(kind)) if get_origin(kind) is Literal else kinds[kind] for kind in _alternatives(hint)
    )


def tables_of(record: Any, **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Tables with any of the options of a record."""
    hints = get_type_hints(record)
    places = {f.name: fixed.get(f.name, values_of(hints[f.name], f.metadata)) for f in fields(record)}
    return st.fixed_dictionaries({}, optional=places)


@st.composite
def settings_tables(draw: st.DrawFn) -> dict[str, Any]:
    """Everything that a run can be, of any method."""
    method = draw(st.sampled_from(sorted(METHODS)))
    tables: dict[str, Any] = {"method": method, "seed": draw(st.integers(0, 2**53))}
    for name, record in _SECTIONS.items():
        fits = [name for name, entry in BACKBONES.items() if entry.smallest <= 16]
        fixed = {"backbone": st.sampled_from(["auto", *fits])} if record is NetConfig else {}
        if record is PartsConfig:  # names, which the conformance suite goes through
            fixed = dict.fromkeys(CHOSEN, st.none())
        if record is TrainConfig:  # which epochs contradict
            fixed = {"budget": st.sampled_from([None, "20MB"])}
        tables[name] = draw(tables_of(record, **fixed))
    for slot in sorted(SLOTS, key=lambda slot: slot != "sparsity"):  # first the slot that switches others off
        tables[slot] = draw(tables_of(METHODS[method].switched(tables).part(slot).Options))
        if METHODS[method].part(slot) is Esacl:
            tables[slot].pop("unit", None)  # whole channels have no use for that form
            tables[slot]["form"] = "freeze"  # the other one has no use for some update options
            tables[slot] = {name: value for name, value in tables[slot].items() if name not in OF_THE_PULL}
    contradicting = {
        "update": ("eta", "averaging", "scope"),
        "selection": ("redundant",),
        "gradient": ("every",),
        "objective": ("replay",),
    }
    for slot, names in {**contradicting, "constraint": ("norms",), "train": ("columns",)}.items():
        for name in names:
            tables[slot].pop(name, None)  # what contradicts other settings has tests of its own
    if METHODS[method].part("constraint") is Gpm:
        tables["sparsity"].pop("recalibrate", None)
    if METHODS[method].needs_validation or tables["train"].get("split") == "validation":
        tables["stream"].pop("validation", None)
    if not METHODS[method].trains:
        tables["net"].pop("freeze", None)
    tables["net"].pop("weights", None)  # which choose another update rule for EsaCL
    if METHODS[method].needs_task_id:
        tables["train"].pop("scenario", None)
    return tables


@given(settings_tables())
def test_a_resolved_config_survives_the_way_through_toml(tables: dict[str, Any]) -> None:
    resolved = resolve(Config.from_mapping(tables), STREAM)
    text = resolved.to_toml()
    read = Config.from_mapping(tomllib.loads(text))
    assert read.to_toml() == text
    assert resolve(read, STREAM) == resolved


@given(settings_tables())
def test_what_was_set_is_what_is_kept(tables: dict[str, Any]) -> None:
    config = Config.from_mapping(tables)
    assert (config.method, config.seed) == (tables["method"], tables["seed"])
    for section in _SECTIONS:
        record = getattr(config, section)
        assert {name: getattr(record, name) for name in tables[section]} == tables[section]
    assert config.options == {slot: tables[slot] for slot in SLOTS if tables[slot]}


def test_an_empty_mapping_is_the_default_run() -> None:
    assert Config.from_mapping({}) == Config()
    assert Config() == Config("esacl-der++", 0, StreamConfig(), NetConfig(), TrainConfig(), MachineConfig(), {}, None)
    assert _Top().method == Config().method


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"sed": 1}, r"unknown setting 'sed'\. .*Allowed: .*seed"),
        ({"train": 3}, r"'train' is a table of options, but 3 was given\."),
        ({"objective": [1]}, r"'objective' is a table of options, but \[1\] was given\."),
        ({"seed": -1}, r"seed = -1 is not allowed\. Allowed: a whole number from 0 to"),
        ({"seed": True}, r"seed = true is not allowed"),
        ({"seed": 1.5}, r"seed = 1\.5 is not allowed"),
        ({"seed": 2**54}, r"seed = 18014398509481984 is not allowed"),
        ({"method": 3}, r"method = 3 is not allowed\. Allowed: text\."),
        ({"preset": 3}, r"preset = 3 is not allowed\. Allowed: text, or nothing\."),
        ({"preset": "papre"}, r"unknown preset 'papre'\. Did you mean 'paper'\? Allowed: full, paper\."),
        ({"preset": "paper", "stream": {"name": ["a"]}}, r"stream\.name = \['a'\] is not allowed\. Allowed: text\."),
        ({"preset": "paper", "update": 3}, r"'update' is a table of options, but 3 was given\."),
        ({"train": {"epoch": 3}}, r"unknown option of train 'epoch'\. Did you mean 'epochs'\?"),
        ({"train": {"epochs": 0}}, r"train\.epochs = 0 is not allowed\. Allowed: a whole number from 1 to 100000\."),
        ({"train": {"split": "train"}}, r"train\.split = 'train' is not allowed\. Allowed: 'test' or 'validation'\."),
        ({"stream": {"validation": 0.9}}, r"stream\.validation = 0\.9 is not allowed\. .*from 0 to 0\.5"),
        ({"stream": {"validation": float("nan")}}, r"stream\.validation = nan is not allowed"),
        ({"machine": {"precision": 8}}, r"machine\.precision = 8 is not allowed\. Allowed: '32' or 'bf16' or '16'\."),
    ],
)
def test_a_bad_setting_is_refused_with_its_place(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.from_mapping(tables)


def test_a_precision_may_be_written_as_a_number() -> None:
    assert Config.from_mapping({"machine": {"precision": 16}}).machine.precision == "16"


def test_with_options_changes_the_named_options_only() -> None:
    config = Config(options={"update": {"lr": 0.1, "momentum": 0.5}, "objective": {"buffer": 5}})
    changed = config.with_options(update={"lr": 0.2}, sparsity={"level": 0.7})
    assert changed.options == {
        "update": {"lr": 0.2, "momentum": 0.5},
        "objective": {"buffer": 5},
        "sparsity": {"level": 0.7},
    }
    assert config.options["update"] == {"lr": 0.1, "momentum": 0.5}


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("train.epochs=3", 3),
        ("train.epochs = 3", 3),
        ("train.epochs=1e-3", 1e-3),
        ("train.epochs=true", True),
        ("train.epochs=[1, 2]", [1, 2]),
        ('train.epochs="3"', "3"),
        ("train.epochs=cosine", "cosine"),
        ("train.epochs= two words ", "two words"),
        ("train.epochs=", ""),
        ("train.epochs=a=b", "a=b"),
    ],
)
def test_a_value_given_by_set_is_read_as_toml_or_else_as_a_word(assignment: str, value: Any) -> None:
    tables: dict[str, Any] = {"train": {"epochs": 10, "batch_size": 4}}
    set_option(tables, assignment)
    assert tables == {"train": {"epochs": value, "batch_size": 4}}
    assert type(tables["train"]["epochs"]) is type(value)


def test_set_reaches_the_top_level_and_makes_tables() -> None:
    tables: dict[str, Any] = {}
    set_option(tables, "seed=3")
    set_option(tables, "objective.alpha=0.5")
    assert tables == {"seed": 3, "objective": {"alpha": 0.5}}


@pytest.mark.parametrize("assignment", ["train.epochs", "=3", "train.=3", ".epochs=3", "a.b.c=1", "", "="])
def test_set_refuses_what_is_not_an_assignment_and_quotes_it(assignment: str) -> None:
    tables: dict[str, Any] = {}
    with pytest.raises(ConfigError) as error:
        set_option(tables, assignment)
    assert f"--set takes part.key=value, such as train.epochs=5, but {assignment!r} was given." in str(error.value)
    assert tables == {}


def test_set_refuses_a_key_inside_a_value() -> None:
    with pytest.raises(ConfigError, match="'seed' is a value, not a table of options"):
        set_option({"seed": 3}, "seed.x=1")


def test_a_missing_config_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no config file '.*none\.toml'\. Check the path"):
        read_toml(tmp_path / "none.toml")


@pytest.mark.parametrize("content", [b"a = ", b"[a\n", b"\xff\xfe", b"a = 1\na = 2\n"])
def test_a_broken_config_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"cannot read the config file '.*broken\.toml' as TOML: "):
        read_toml(path)


def test_a_folder_is_not_a_config_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the config file"):
        read_toml(tmp_path)


def test_a_config_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text('method = "er"\n[train]\nepochs = 3\n', encoding="utf-8")
    assert read_toml(path) == {"method": "er", "train": {"epochs": 3}}


def test_paths_and_whole_numbers_of_other_libraries_are_welcome() -> None:
    config = Config.of(data_dir=Path("somewhere"), seed=np.int64(3), epochs=np.int32(2))
    assert (config.stream.data_dir, config.seed, config.train.epochs) == ("somewhere", 3, 2)
    assert type(config.seed) is int


def test_a_table_given_as_a_value_is_refused_also_when_a_flag_belongs_into_it() -> None:
    with pytest.raises(ConfigError, match="'train' is a table of options, but 3 was given"):
        place_settings({"train": 3}, {"epochs": 2})


def test_options_of_a_part_that_there_is_not_are_refused():
    with pytest.raises(ConfigError, match=r"unknown part 'updat'.*'update'"):
        Config().with_options(updat={"momentum": 0.8})
