"""The same bad setting, given by five front ends: each names it, and the way out, by names that it takes itself."""

import ast
import pickle
from pathlib import Path

import numpy as np
import pytest
import tomli_w

import esacl
from esacl.config import SHORT_NAMES
from esacl.errors import ConfigError, EsaclError, naming
from esacl.estimator.settings import NAMED, as_parameter
from esacl.grid.recipe import read_recipe
from esacl.problem import Problem, as_path
from esacl.short_names import as_keyword

SHORT = {path: name for name, path in SHORT_NAMES.items()}
SOURCES = sorted(Path(esacl.__file__).parent.rglob("*.py"))
NOTHING = {"method": "esacl-er", "selection.keep": 0.5, "selection.redundant": False}
CASES = {
    "a number out of bounds": (
        {"method": "er", "train.epochs": 0},
        {
            "flags": "--epochs 0 is not allowed. Allowed: a whole number from 1 to 100000.",
            "toml": "train.epochs = 0 is not allowed. Allowed: a whole",
            "keywords": "epochs=0 is not allowed. Allowed: a whole",
            "classifier": "epochs=0 is not allowed. Allowed: a whole",
            "recipe": "row 'bad': epochs = 0 is not allowed. Allowed: a whole",
        },
    ),
    "an option of the method": (
        {"method": "esacl-er", "sparsity.level": 1.5},
        {
            "flags": "--sparsity 1.5 is not allowed. Allowed: a number from 0",
            "toml": "sparsity.level = 1.5 is not allowed. Allowed: a number from 0",
            "keywords": "sparsity=1.5 is not allowed. Allowed: a number from 0",
            "classifier": "sparsity=1.5 is not allowed. Allowed: a number from 0",
            "recipe": "sparsity = 1.5 is not allowed. Allowed: a number from 0",
        },
    ),
    "an option without a short name": (
        {"method": "er", "update.momentum": 7},
        {
            "flags": "--set update.momentum=7 is not allowed. Allowed: a number from 0",
            "toml": "update.momentum = 7 is not allowed. Allowed: a number from 0",
            "keywords": "with_options(update={'momentum': 7}) is not allowed. Allowed: a number from 0",
            "classifier": "options={'update': {'momentum': 7}} is not allowed. Allowed: a number from 0",
            "recipe": 'set = { "update.momentum" = 7 } is not allowed. Allowed: a number from 0',
        },
    ),
    "a share with nothing to keep it from": (
        NOTHING,
        {
            "flags": "esacl-er: --keep 0.5 selects nothing: selection.redundant is false and there is no ascent. Leave "
            "--keep out, use --set selection.redundant=true, or ascend with --rho and --set selection.support=true.",
            "toml": "esacl-er: selection.keep = 0.5 selects nothing: selection.redundant is false and there is no "
            "ascent. Leave selection.keep out, use selection.redundant = true, or ascend with --rho and",
            "keywords": "esacl-er: keep=0.5 selects nothing: selection.redundant is false and there is no ascent. "
            "Leave keep out, use with_options(selection={'redundant': True}), or ascend with rho and "
            "with_options(selection={'support': True}).",
            "classifier": "esacl-er: options={'selection': {'keep': 0.5}} selects nothing: "
            "options['selection']['redundant'] is false and there is no ascent. Leave options['selection']['keep'] "
            "out, use options={'selection': {'redundant': True}}, or ascend with options['gradient']['rho'] and",
            "recipe": "row 'bad': esacl-er: keep = 0.5 selects nothing: selection.redundant is false and there is no "
            'ascent. Leave keep out, use set = { "selection.redundant" = true }, or ascend with rho and',
        },
    ),
    "columns that a method cannot do without": (
        {"method": "icarl", "train.columns": "task"},
        {
            "flags": "but --columns task leaves them out. Use --columns seen or --columns all, or another method.",
            "toml": "but train.columns = 'task' leaves them out. Use train.columns = 'seen' or train.columns = 'all'",
            "keywords": "but columns='task' leaves them out. Use columns='seen' or columns='all'",
            "classifier": "but columns='task' leaves them out. Use columns='seen' or columns='all'",
            "recipe": "but columns = 'task' leaves them out. Use columns = 'seen' or columns = 'all'",
        },
    ),
    "an option that the method has no use for": (
        {"method": "er", "gradient.rho": 0.1},
        {
            "flags": (
                "'er' has no use for --rho 0.1. Methods that",
                "Parts that do: --gradient sharpness. Leave it out.",
            ),
            "toml": ("'er' has no use for gradient.rho = 0.1. Methods that", "Parts that do: --gradient sharpness."),
            "keywords": ("'er' has no use for rho=0.1. Methods that", "Parts that do: gradient='sharpness'."),
            "classifier": (
                "'er' has no use for options={'gradient': {'rho': 0.1}}. Methods that",
                "Parts that do: options={'parts': {'gradient': 'sharpness'}}.",
            ),
            "recipe": ("'er' has no use for rho = 0.1. Methods that", "Parts that do: gradient = 'sharpness'."),
        },
    ),
    "a readout that nobody trains": (
        {"method": "co2l", "parts.readout": "head"},
        {
            "flags": "would answer at random. Use --readout probe, --readout refit, --readout lda or ",
            "toml": "would answer at random. Use parts.readout = 'probe', parts.readout = 'refit',",
            "keywords": "would answer at random. Use readout='probe', readout='refit', readout='lda' or",
            "classifier": "would answer at random. Use options={'parts': {'readout': 'probe'}}, options=",
            "recipe": "would answer at random. Use readout = 'probe', readout = 'refit',",
        },
    ),
    "a memory without room": (
        {"method": "icarl", "objective.buffer": 1, "stream.tasks": 5},
        {
            "flags": "--buffer 1 is too small: there are 10 classes, and each needs an example. Use "
            "--buffer 10 or more.",
            "toml": "objective.buffer = 1 is too small: there are 10 classes, and each needs an example. Use "
            "objective.buffer = 10 or more.",
            "keywords": "buffer=1 is too small: there are 10 classes, and each needs an example. Use "
            "buffer=10 or more.",
        },
    ),
}


def tables(settings):
    """The settings as nested tables."""
    found = {}
    for path, value in settings.items():
        part, _, key = path.rpartition(".")
        (found.setdefault(part, {}) if part else found)[key] = value
    return found


def by_flags(settings, folder, fails):
    words = []
    for path, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        words += [f"--{SHORT[path]}", text] if path in SHORT else ["--set", f"{path}={text}"]
    return fails("run", *words, "--out", folder / "run")


def by_toml(settings, folder, fails):
    (folder / "config.toml").write_text(tomli_w.dumps(tables(settings)))
    return fails("run", "--config", folder / "config.toml", "--out", folder / "run")


def by_keywords(settings, folder, fails):
    short = {SHORT[path]: value for path, value in settings.items() if path in SHORT}
    options = tables({path: value for path, value in settings.items() if path not in SHORT})
    with pytest.raises(EsaclError) as refused:
        esacl.run(esacl.Config.of(**short).with_options(**options), folder / "run")
    return str(refused.value)


def by_classifier(settings, folder, fails):
    named = {SHORT[path]: value for path, value in settings.items() if SHORT.get(path) in NAMED}
    options = tables({path: value for path, value in settings.items() if SHORT.get(path) not in NAMED})
    with pytest.raises(EsaclError) as refused:
        esacl.ContinualClassifier(**named, options=options).fit(np.zeros((4, 2)), [0, 1, 0, 1])
    return str(refused.value)


def by_recipe(settings, folder, fails):
    short = {SHORT[path]: value for path, value in settings.items() if path in SHORT}
    others = {path: value for path, value in settings.items() if path not in SHORT}
    row = {"name": "bad", **short, "set": others}
    (folder / "recipe.toml").write_text(tomli_w.dumps({"rows": [row]}))
    with pytest.raises(EsaclError) as refused:
        read_recipe(folder / "recipe.toml")
    told = str(refused.value)
    assert told in fails("grid", folder / "recipe.toml", "--out", folder / "grid"), (
        "the command shows the recipe's names"
    )
    return told


FRONT_ENDS = {
    "flags": by_flags,
    "toml": by_toml,
    "keywords": by_keywords,
    "classifier": by_classifier,
    "recipe": by_recipe,
}


@pytest.mark.parametrize(
    ("settings", "front_end", "words"),
    [
        pytest.param(settings, front_end, words, id=f"{name}, {front_end}")
        for name, (settings, expected) in CASES.items()
        for front_end, words in expected.items()
    ],
)
def test_a_front_end_names_settings_as_it_takes_them(settings, front_end, words, tmp_path, fails):
    told = FRONT_ENDS[front_end](settings, tmp_path, fails)
    for part in (words,) if isinstance(words, str) else words:
        assert part in told


def test_a_flag_over_a_file_is_named_as_a_flag(tmp_path, fails):
    (tmp_path / "config.toml").write_text('method = "er"\n[train]\nepochs = 3\nbatch_size = 0\n')
    words = ("run", "--config", tmp_path / "config.toml", "--out", tmp_path / "run")
    assert "error: train.batch_size = 0 is not allowed" in fails(*words)
    assert "error: --batch-size -1 is not allowed" in fails(*words, "--batch-size", "-1")
    assert "error: --epochs 0 is not allowed" in fails(*words, "--set", "train.epochs=0")


def test_an_error_tells_setting_value_and_what_is_allowed():
    with pytest.raises(ConfigError) as refused:
        esacl.Config.of(epochs=0)
    problem = refused.value.problem
    assert (problem.setting, problem.value, problem.allowed) == ("train.epochs", 0, "a whole number from 1 to 100000")
    assert "epochs=0 is not allowed" in str(pickle.loads(pickle.dumps(refused.value)))


def test_text_of_users_is_never_a_template():
    odd = "{train.epochs} {0} {"
    assert str(ConfigError(odd)) == odd
    assert str(ConfigError("{given}: {why}", "stream.name", odd, why=odd)) == f"stream.name = {odd!r}: {odd}"
    with pytest.raises(ConfigError, match=r"^er: \{oops\}"), naming(as_keyword):
        raise ConfigError("{oops}").within("er")


def test_templates_in_the_code_are_literals():
    """A text beside which a setting or a remedy stands is a template: what users wrote must not get into it."""
    found = 0
    for path in SOURCES:
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or not any(word.arg == "remedy" for word in call.keywords):
                continue
            found += 1
            texts = [call.args[0], *(word.value for word in call.keywords if word.arg == "remedy")]
            pieces = [each for text in texts for each in ast.walk(text) if isinstance(each, ast.FormattedValue)]
            for piece in pieces:
                assert not isinstance(piece.value, ast.Call), f"{path.name}:{call.lineno}"
                assert piece.conversion != ord("r"), f"{path.name}:{call.lineno}: give the text as a value"
    assert found > 30


def test_a_problem_is_the_same_sentence_with_other_names():
    problem = Problem(
        "{given} is odd.", "train.columns", "seen", allowed="all", remedy="Use {selection.redundant:true}."
    )
    assert problem.message(as_path) == "train.columns = 'seen' is odd. Allowed: all. Use selection.redundant = true."
    assert problem.message(as_parameter) == (
        "columns='seen' is odd. Allowed: all. Use options={'selection': {'redundant': True}}."
    )
