"""Documents that enter from a file: JSON and plain values, checked against the record that they should be."""

import json
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

T = TypeVar("T")

Share = Annotated[float, Meta(ge=0, le=1)]
Change = Annotated[float, Meta(ge=-1, le=1)]
Amount = Annotated[float, Meta(ge=0, le=1e30)]
"""A number that may be added, averaged and drawn: no file is allowed one that overflows."""
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Finite = Annotated[float, Meta(ge=-1e30, le=1e30)]
Spread = Annotated[float, Meta(gt=0, le=1e30)]
ClassName = str | int | Finite | bool
"""What a class is called: JSON has no other numbers."""
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]


def parse_json(text: str | bytes) -> Any:
    """The values of a JSON document; whatever is wrong with it is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def as_record(values: Any, kind: type[T]) -> T:
    """Plain values as a dataclass, or another annotated type; what does not fit is a ValueError that names its place.

    >>> as_record({"a": [0.5, 2]}, dict[str, list[Share]])
    Traceback (most recent call last):
    ...
    ValueError: [...][1]: expected a number <= 1.0
    """
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise ValueError(_in_words(str(error))) from None


_WORDS = {
    "`float": "`number",
    "`int": "`whole number",
    "`str": "`text",
    "`object": "`table",
    "`array": "`list",
    "`bool": "`truth value",
}


def _in_words(message: str) -> str:
    """What the library says, with the place first."""
    what, _, place = message.partition(" - at ")
    for name, word in _WORDS.items():
        what = what.replace(name, word)
    what = what.replace("Object missing required field", "there is no").replace("Expected `", "expected a `", 1)
    place = place.strip("`").removeprefix("$").removeprefix(".")
    return f"{place}: {what.replace('`', '')}" if place else what.replace("`", "")
