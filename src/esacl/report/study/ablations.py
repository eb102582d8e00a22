"""Lines that leave out parts of EsaCL, each beside the line it is a variant of."""

from collections.abc import Sequence
from dataclasses import dataclass

from esacl.report.groups import differing, settings_of
from esacl.report.sheet import Line
from esacl.report.switches import PRUNING, SELECTION, Switch, switched_off


@dataclass(frozen=True, slots=True)
class Kind:
    """Parts that are left out one by one or together."""

    title: str
    slug: str
    switches: tuple[Switch, ...]
    meaning: str


KINDS = (
    Kind("Pruning without its parts", "pruning", PRUNING, "SA: sharpness-aware gradient. SP: sparse polytope."),
    Kind(
        "Selection without its parts",
        "selection",
        SELECTION,
        "SSE: select for the ascent. ERE: leave out what is redundant in the descent.",
    ),
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A line without some parts, and what else differs from the whole method."""

    without: str
    line: Line
    also: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ablation:
    """The whole method and its variants."""

    whole: Line
    variants: tuple[Variant, ...]


def ablations(lines: Sequence[Line], kind: Kind) -> list[Ablation]:
    """Every variant with the line nearest to it that has all parts; none where the grid has no such pair."""
    finished = [line for line in lines if line.records]
    complete = [line for line in finished if not switched_off(line.records[0])]
    found: dict[int, list[Variant]] = {}
    for line in finished:
        off = switched_off(line.records[0])
        if not off or not set(off) <= set(kind.switches):
            continue
        rivals = [whole for whole in complete if _comparable(whole, line, kind)]
        if rivals:
            whole = min(rivals, key=lambda other: len(_changes(other, line, off)))
            without = " and ".join(switch.name for switch in off)
            variant = Variant(without, line, tuple(_changes(whole, line, off)))
            found.setdefault(next(n for n, other in enumerate(complete) if other is whole), []).append(variant)
    return [Ablation(complete[number], tuple(variants)) for number, variants in found.items()]


def _comparable(whole: Line, line: Line, kind: Kind) -> bool:
    """The same method on the same data, at the same sparsity; where selection is at stake, of as much of the data."""
    paths = ["method", "sparsity.level", "train.epochs", "train.batch_size", "objective.buffer", "selection.keep"]
    paths += ["selection.rule"] if kind.switches is SELECTION else []
    mine, other = settings_of(line.records[0]), settings_of(whole.records[0])
    return all(mine.get(path) == other.get(path) for path in paths)


def _changes(whole: Line, line: Line, off: Sequence[Switch]) -> list[str]:
    """What differs besides the switches; a part that is gone takes its options with it."""
    before, after = settings_of(whole.records[0]), settings_of(line.records[0])
    switches = {f"{switch.slot}.{switch.option}" for switch in off}
    shared = [name for name in differing([before, after]) if name not in switches and name in before and name in after]
    return [f"{name.rpartition('.')[2]} {after[name]}, not {before[name]}" for name in shared]
