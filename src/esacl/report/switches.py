"""Parts of EsaCL that settings switch off: what an ablation leaves out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from esacl.report.record import RunRecord


@dataclass(frozen=True, slots=True)
class Switch:
    """A part with a name of its own, and the setting that leaves it out where it is false."""

    key: str  # as the paper's tables have it
    name: str
    slot: str
    option: str


PRUNING = (Switch("sa", "SA", "sparsity", "sharpness"), Switch("sp", "SP", "sparsity", "polytope"))
SELECTION = (Switch("sse", "SSE", "selection", "support"), Switch("ere", "ERE", "selection", "redundant"))


def switched_off(record: RunRecord) -> tuple[Switch, ...]:
    """The parts that a run went without; where it learned from all data, selection has nothing to leave out."""
    selects = _table(record, "selection").get("keep", 1.0) < 1
    relevant = (*PRUNING, *SELECTION) if selects else PRUNING
    return tuple(switch for switch in relevant if _table(record, switch.slot).get(switch.option) is False)


def _table(record: RunRecord, slot: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = record.config.get(slot, {})
    return found
