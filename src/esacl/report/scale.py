"""The scale that runs were measured at, in words, and where the paper's was another."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from esacl.paper import STREAMS, setup
from esacl.report.record import RunRecord

Named = Sequence[tuple[str, Sequence[RunRecord]]]
MANY = 3
"""Rows of one value above which they are not listed: the value is what all others have."""


def _setting(part: str, key: str, default: Any = None) -> Callable[[RunRecord], Any]:
    return lambda record: record.config.get(part, {}).get(key, default)


def _limit_order(record: RunRecord) -> str | None:
    """Which images were taken, where that is not the usual even scatter."""
    taken: str | None = _setting("stream", "limit_order")(record)
    return None if taken == "scattered" else taken


_ASPECTS: Mapping[str, tuple[Callable[[RunRecord], Any], Callable[[Mapping[str, Any]], Any]]] = {
    "images a class": (_setting("stream", "limit_per_class", "all"), lambda paper: "all"),
    "taken from each class": (_limit_order, lambda paper: None),
    "held out for validation": (_setting("stream", "validation"), lambda paper: None),
    "budget": (lambda record: record.budget, lambda paper: None),
    "epochs a task": (lambda record: None if record.budget else record.epochs, lambda paper: paper["epochs"]),
    "network": (_setting("net", "backbone"), lambda paper: paper["backbone"]),
    "width": (_setting("net", "width"), lambda paper: paper["width"]),
    "buffer": (_setting("objective", "buffer"), lambda paper: paper["buffer"]),
    "share of a batch kept": (_setting("selection", "keep"), lambda paper: paper["keep_fraction"]),
    "tasks": (lambda record: record.tasks, lambda paper: paper["tasks"]),
    "split": (lambda record: record.split, lambda paper: "test"),
}
"""What decides the scale: how a run says it, and how the paper does."""


def scale_words(lines: Named, paper: bool) -> list[str]:
    """Sentences about the scale; where rows differ, each value with its rows."""
    if not lines:
        return []
    stream = lines[0][1][0].stream
    given = setup(stream) if paper else {}
    aspects = [name for name in _ASPECTS if given or name != "share of a batch kept"]  # a row that keeps less says so
    told = [words for name in aspects if (words := _aspect(name, lines, given))]
    sentences = [f"Scale: {'; '.join(told)}."]
    if paper and not given:
        sentences.append(f"The paper has no {stream}; it has {', '.join(STREAMS)}.")
    elif any("in the paper" in words for words in told):
        sentences.append("At another scale than the paper's its numbers are for orientation, not for comparison.")
    return sentences


def _aspect(name: str, lines: Named, given: Mapping[str, Any]) -> str:
    """One aspect of the scale; empty where it means nothing to any row."""
    of, in_paper = _ASPECTS[name]
    values: dict[Any, list[str]] = {}
    for label, records in lines:
        found = [value if isinstance(value, str | float | int | None) else str(value) for value in map(of, records)]
        for value in dict.fromkeys(found):  # settings of a file may be lists
            values.setdefault(value, []).append(label)
    values.pop(None, None)
    if not values:
        return ""
    most = max(values, key=lambda value: len(values[value]))
    usual = most if len(values[most]) > MANY or len(values) == 1 else None  # of many rows only the others are named
    named = [f"{value} ({', '.join(labels)})" for value, labels in values.items() if value != usual]
    told = ", but ".join(filter(None, (str(usual) if usual is not None else "", ", ".join(named))))
    wanted = in_paper(given) if given else None
    return f"{name} {told}" + (f" (in the paper {wanted})" if wanted is not None and set(values) != {wanted} else "")
