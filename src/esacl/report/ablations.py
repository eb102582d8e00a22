"""Parts of EsaCL that settings switch off, and rows without some of them beside the row they are a variant of."""

from collections.abc import Sequence
from dataclasses import dataclass

from esacl.report.record import RunRecord
from esacl.report.rows import Row, differing, settings_of


@dataclass(frozen=True, slots=True)
class Switch:
    """A part with a name of its own, and the setting that leaves it out where it is false."""

    key: str  # as the paper's tables have it
    path: str

    @property
    def name(self) -> str:
        """As the plots have it."""
        return self.key.upper()


@dataclass(frozen=True, slots=True)
class AblationKind:
    """Parts that are left out one by one or together."""

    title: str
    slug: str
    switches: tuple[Switch, ...]
    meaning: str
    alike: tuple[str, ...] = ()  # settings that must be the same besides the usual ones


PRUNING = AblationKind(
    "Pruning without its parts",
    "pruning",
    (Switch("sa", "sparsity.sharpness"), Switch("sp", "sparsity.polytope")),
    "SA: sharpness-aware gradient. SP: sparse polytope.",
)
SELECTION = AblationKind(
    "Selection without its parts",
    "selection",
    (Switch("sse", "selection.support"), Switch("ere", "selection.redundant")),
    "SSE: select for the ascent. ERE: leave out what is redundant in the descent.",
    ("selection.rule",),
)
KINDS = (PRUNING, SELECTION)
_ALIKE = ("method", "sparsity.level", "train.epochs", "train.batch_size", "objective.buffer", "selection.keep")


@dataclass(frozen=True, slots=True)
class Variant:
    """A row without some parts, and what else differs from the whole method."""

    without: str
    row: Row
    also: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ablation:
    """The whole method and its variants."""

    whole: Row
    variants: tuple[Variant, ...]


def switched_off(record: RunRecord) -> tuple[Switch, ...]:
    """The parts that a run went without; where it learned from all data, selection has nothing to leave out."""
    settings = settings_of(record)
    selects = float(settings.get("selection.keep", 1)) < 1
    relevant = (*PRUNING.switches, *(SELECTION.switches if selects else ()))
    return tuple(switch for switch in relevant if settings.get(switch.path) == "false")


def ablations(rows: Sequence[Row], kind: AblationKind) -> list[Ablation]:
    """Every variant with the row nearest to it that has all parts; none where there is no such pair."""
    finished = [row for row in rows if row.records]
    complete = [row for row in finished if not switched_off(row.records[0])]
    found: dict[int, list[Variant]] = {}
    for row in finished:
        off = switched_off(row.records[0])
        rivals = [n for n, whole in enumerate(complete) if _comparable(whole, row, kind)]
        if rivals and off and set(off) <= set(kind.switches):
            changes = {n: _changes(complete[n], row, off) for n in rivals}
            nearest = min(rivals, key=lambda n: len(changes[n]))
            without = " and ".join(switch.name for switch in off)
            found.setdefault(nearest, []).append(Variant(without, row, changes[nearest]))
    return [Ablation(complete[number], tuple(variants)) for number, variants in found.items()]


def _comparable(whole: Row, row: Row, kind: AblationKind) -> bool:
    """The same method on the same data, at the same sparsity; where selection is at stake, by the same rule."""
    mine, other = settings_of(row.records[0]), settings_of(whole.records[0])
    return all(mine.get(path) == other.get(path) for path in (*_ALIKE, *kind.alike))


def _changes(whole: Row, row: Row, off: Sequence[Switch]) -> tuple[str, ...]:
    """What differs besides the switches; a part that is gone takes its options with it."""
    before, after = settings_of(whole.records[0]), settings_of(row.records[0])
    names = set(differing([before, after])) & before.keys() & after.keys() - {switch.path for switch in off}
    return tuple(f"{name.rpartition('.')[2]} {after[name]}, not {before[name]}" for name in sorted(names))
