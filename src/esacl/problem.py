"""What is wrong with a setting and what to do, in words that each front end fills with its own names."""

import json
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Any, Protocol


class Naming(Protocol):
    """How a front end writes a setting: its name, or how it is given where there is a value."""

    def __call__(self, setting: str, *value: Any) -> str: ...


def as_path(setting: str, *value: Any) -> str:
    """The names of a config.toml and of nested tables.

    >>> as_path("train.columns"), as_path("train.columns", "seen")
    ('train.columns', "train.columns = 'seen'")
    """
    return " = ".join([setting, *(literal(each) for each in value)])


def literal(value: Any) -> str:
    """A value as TOML has it."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


class Problem:
    """What is wrong, which setting it is about with its value, what is allowed, and what to do.

    The texts are templates. A field that is given by keyword is a value; every other one names a setting:
    `{selection.keep}` is its name, `{selection.keep:0.5}` how to give it that value, and `{given}` the setting as it
    was given. Text of users goes into values, never into the template.

    >>> print(Problem("{given} selects nothing.", "selection.keep", 0.4, remedy="Use {gradient.rho:0.1}."))
    selection.keep = 0.4 selects nothing. Use gradient.rho = 0.1.
    """

    def __init__(
        self,
        wrong: str,
        setting: str | None = None,
        value: Any = None,
        *,
        allowed: str = "",
        remedy: str = "",
        **values: Any,
    ) -> None:
        self.wrong, self.setting, self.value, self.allowed, self.remedy = wrong, setting, value, allowed, remedy
        self.values = values

    def message(self, naming: Naming) -> str:
        """The message with the names of a front end."""
        given = {} if self.setting is None else {"given": naming(self.setting, self.value)}
        parts = (self.wrong, self.allowed and "Allowed: {allowed}.", self.remedy)
        values = {**self.values, **given, "allowed": self.allowed}
        return _Template(naming).vformat(" ".join(filter(None, parts)), (), values)

    def __str__(self) -> str:
        return self.message(as_path)


class _Setting(str):
    """The path of a setting in a template."""


class _Template(Formatter):
    """Fills templates, naming settings as a front end does."""

    def __init__(self, naming: Naming) -> None:
        self.naming = naming

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return kwargs.get(field_name, _Setting(field_name)), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if not isinstance(value, _Setting):
            return str(super().format_field(value, format_spec))
        return self.naming(str(value), *([_read(format_spec)] if format_spec else []))


def _read(text: str) -> Any:
    """A value in a template; a bare word is a string."""
    try:
        return json.loads(text)
    except ValueError:
        return text
