"""Every readout on the finished runs of a study: one is chosen on validation, and reported on the test split.

What is measured of a run is left beside it, so a second call goes on where the first one stopped; `make results` puts
the tables on the study's page. Run: make readouts-small-readouts
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import esacl
from esacl.files import write_atomic
from esacl.grid.plan import Cell
from esacl.grid.tables import read_grid
from esacl.methods import PARTS, compose
from esacl.metrics.seeds import paired_difference
from esacl.report.formats import as_markdown
from esacl.report.table import Entry, Table
from esacl.report.units import DASH, PERCENT

ENDING = "readouts.json"
Both = tuple[float, float]  # Task-IL and Class-IL


@dataclass(frozen=True)
class RowReadouts:
    """What the readouts of a row answer: by readout and split, seed by seed."""

    name: str
    own: str  # the readout that it was trained with
    found: dict[tuple[str, str], dict[int, Both]]

    @property
    def readouts(self) -> list[str]:
        """Those that fit, in their usual order."""
        return list(dict.fromkeys(readout for readout, _ in self.found))

    def mean(self, readout: str, split: str) -> Both:
        """Over the seeds."""
        values = self.found[readout, split].values()
        return fmean(task for task, _ in values), fmean(whole for _, whole in values)

    @property
    def chosen(self) -> str:
        """The one with the highest Task-IL + Class-IL on validation."""
        return max(self.readouts, key=lambda readout: sum(self.mean(readout, "validation")))


def measure(cells: Sequence[Cell]) -> None:
    """Read out the runs that are finished and were not read out yet."""
    left = [cell for cell in cells if cell.state() == "finished" and not cell.beside(ENDING).exists()]
    for number, cell in enumerate(left, start=1):
        if not (cell.path / "checkpoint").exists():
            print(f"{cell.name}: only its results were kept", file=sys.stderr)
            continue
        rows = esacl.compare_readouts(cell.path, split="both")
        document = {"own": trained_with(cell), "rows": [row.to_json() for row in rows]}
        write_atomic(cell.beside(ENDING), json.dumps(document, indent=1) + "\n")
        print(f"[{number}/{len(left)}] {cell.name}", file=sys.stderr)


def trained_with(cell: Cell) -> str:
    """The name of a run's own readout."""
    part = compose(cell.config()).part("readout")
    return next(name for name, kind in PARTS["readout"].items() if kind is part)


def row_of(name: str, cells: Sequence[Cell]) -> RowReadouts | None:
    """A row of the study; None where its runs were not read out."""
    found: dict[tuple[str, str], dict[int, Both]] = {}
    own = ""
    for cell in cells:
        if not cell.beside(ENDING).exists():
            return None
        document: dict[str, Any] = json.loads(cell.beside(ENDING).read_text(encoding="utf-8"))
        own = document["own"]
        for row in document["rows"]:
            if row["refused"] is None and row["class_il"] is not None:
                found.setdefault((row["readout"], row["split"]), {})[cell.seed] = row["task_il"], row["class_il"]
    return RowReadouts(name, own, found) if found else None


def section(cells: Sequence[Cell]) -> str:
    """The tables of a page; empty where nothing was read out."""
    points = {id(cell.point): cell.point for cell in cells}
    rows = [row_of(point.name, [each for each in cells if each.point is point]) for point in points.values()]
    known = [row for row in rows if row is not None]
    if not known:
        return ""
    tables = [_choices(known), *(_all(known, split) for split in ("test", "validation"))]
    return f"## Readouts\n\n{as_markdown(tables).strip()}"


def _choices(rows: Sequence[RowReadouts]) -> Table:
    body = []
    for row in rows:
        own, best = row.found[row.own, "test"], row.found[row.chosen, "test"]
        gap = paired_difference([best[seed][1] - own[seed][1] for seed in best])
        assert gap is not None
        told = f"{'+' if gap.mean > 0 else ''}{PERCENT(gap.mean)}{'†' if gap.supported else ''}"
        half = "" if gap.half is None else f" ±{PERCENT(gap.half)}"
        cells = (row.name, row.own, _shown(row.mean(row.own, "test")), row.chosen, _shown(row.mean(row.chosen, "test")))
        body.append((*map(Entry, cells), Entry(told + half, gap.supported)))
    return Table(
        "Chosen on validation, test split",
        ("row", "as trained", "Task-IL / Class-IL (%)", "chosen", "Task-IL / Class-IL (%) with it", "Class-IL gained"),
        tuple(body),
        "Chosen: the readout with the highest Task-IL + Class-IL on the validation split, mean of all seeds; the "
        "networks are the same. Gained: paired over the seeds, ± half of the 95% interval; † and bold: "
        "the interval excludes 0.",
    )


def _all(rows: Sequence[RowReadouts], split: str) -> Table:
    names = list(dict.fromkeys(readout for row in rows for readout in row.readouts))
    body = []
    for row in rows:
        best = max(row.readouts, key=lambda readout: row.mean(readout, split)[1])
        cells = [
            Entry(_shown(row.mean(name, split)), name == best) if name in row.readouts else Entry(DASH)
            for name in names
        ]
        body.append((Entry(row.name), *cells))
    title = f"Every readout, {split} split: Task-IL / Class-IL (%)"
    return Table(title, ("row", *names), tuple(body), "Mean of all seeds. Bold: the highest Class-IL of a row.")


def _shown(both: Both) -> str:
    return " / ".join(map(PERCENT, both))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, help="folders of grids")
    for folder in parser.parse_args().folders:
        cells = read_grid(folder)[1]
        measure(cells)
        print(section(cells))


if __name__ == "__main__":
    main()
