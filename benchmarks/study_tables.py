"""What a study found: its tables in Markdown, one line a run as CSV, and accuracy over cost as a picture."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from study_recipe import Point, Recipe

from esacl.report.columns import FIGURES, Column, Figure
from esacl.report.groups import spread
from esacl.report.record import SETTING_NAMES, SETTINGS, RunRecord
from esacl.report.units import DASH, scale_for

SHOWN = (
    *(figure for figure in FIGURES if figure.family == "Accuracy"),
    *(figure for figure in FIGURES if figure.family == "Forgetting"),
    Figure("", "Density", "share", lambda run: run.density),
    Figure("Capacity", "paper", "share", lambda run: run.capacity),
    Figure("Capacity", "measured", "share", lambda run: run.measured_capacity),
    *(figure for figure in FIGURES if figure.family == "FLOPs"),
    Figure("", "Training", "seconds", lambda run: run.seconds.train),
    Figure("", "Footprint", "bytes", lambda run: run.footprint.total),
    Figure("", "Remembered", "bytes", lambda run: run.remembered_bytes),
)
NUMBERS: Mapping[str, Callable[[RunRecord], float | None]] = {
    "task_il": lambda run: run.accuracy.task_il,
    "class_il": lambda run: run.accuracy.class_il,
    "forgetting_task_il": lambda run: run.forgetting.task_il,
    "forgetting_class_il": lambda run: run.forgetting.class_il,
    "density": lambda run: run.density,
    "capacity": lambda run: run.capacity,
    "measured_capacity": lambda run: run.measured_capacity,
    "flops_paper": lambda run: run.flops.paper,
    "flops_sparse": lambda run: run.flops.sparse,
    "flops_executed": lambda run: run.flops.executed,
    "seconds_train": lambda run: run.seconds.train,
    "seconds_total": lambda run: run.seconds.total,
    "peak_memory_bytes": lambda run: run.peak_memory_bytes,
    "footprint_bytes": lambda run: run.footprint.total,
    "remembered_bytes": lambda run: run.remembered_bytes,
}


@dataclass(frozen=True, slots=True)
class Line:
    """A point and its finished runs."""

    point: Point
    records: Sequence[RunRecord]


def document(recipe: Recipe, seeds: Sequence[int], lines: Sequence[Line], command: str) -> str:
    """Both tables, with what has to be known to read them."""
    records = [record for line in lines for record in line.records]
    columns = [Column(figure, scale_for(figure.kind, _values(figure.kind, records))) for figure in SHOWN]
    means = [[line.point.label, _count(line, seeds), *(_mean(column, line) for column in columns)] for line in lines]
    head = ["seed", *map(str, seeds)]
    each = [[line.point.label, *(_scores(line, seed) for seed in seeds)] for line in lines]
    splits = ", ".join(sorted({record.split for record in records}))
    versions = sorted({f"{name} {record.versions[name]}" for record in records for name in record.versions})
    parts = [
        f"# {recipe.title}",
        recipe.about,
        _markdown(["row", "seeds", *(column.heading for column in columns)], means),
        f"Mean ± sample standard deviation over the seeds, on the {splits} split; cost is the mean.",
        "Every seed, Task-IL / Class-IL (%):",
        _markdown(head, each),
        f"Measured with `{command}` ({', '.join(versions)}).",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def figures(lines: Sequence[Line]) -> str:
    """One line for each run, as CSV."""
    axes = list(dict.fromkeys(axis for line in lines for axis in line.point.axes))
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["row", *axes, "seed", *NUMBERS])
    for line in lines:
        place = [line.point.row, *(line.point.axes.get(axis) for axis in axes)]
        table.writerows([*place, run.seed, *(of(run) for of in NUMBERS.values())] for run in line.records)
    return text.getvalue()


def draw(lines: Sequence[Line], title: str, path: Path) -> None:
    """Accuracy over what the hardware did: a colour for each row, a point for each place on its axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawn = [line for line in lines if line.records]
    scale = scale_for("flops", [record.flops.executed for line in drawn for record in line.records])
    rows = list(dict.fromkeys(line.point.row for line in drawn))
    figure, panels = pyplot.subplots(1, 2, figsize=(12, 5), layout="constrained")
    for panel, setting in zip(panels, reversed(SETTINGS)):
        for index, row in enumerate(rows):
            named = row  # a row is in the legend once
            for line in (line for line in drawn if line.point.row == row):
                cost = spread([record.flops.executed / scale.size for record in line.records])
                score = spread([record.accuracy.of(setting) for record in line.records])
                if cost is None or score is None:
                    continue
                bar = 100 * (score.std or 0)
                panel.errorbar(
                    cost.mean, 100 * score.mean, bar, fmt="o", capsize=3, color=f"C{index % 10}", label=named
                )
                told = ", ".join(map(str, line.point.axes.values()))
                panel.annotate(
                    told or row, (cost.mean, 100 * score.mean), (5, 5), textcoords="offset points", fontsize=8
                )
                named = "_nolegend_"
        panel.set(xlabel=f"executed {scale.unit} of training", ylabel=f"{SETTING_NAMES[setting]} (%)")
        panel.margins(x=0.15, y=0.1)
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


def _values(kind: str, records: Sequence[RunRecord]) -> list[float | None]:
    """Every figure of a kind: they share a unit."""
    return [figure.of(record) for figure in SHOWN if figure.kind == kind for record in records]


def _count(line: Line, seeds: Sequence[int]) -> str:
    done = len(line.records)
    return str(done) if done == len(seeds) else f"{done} of {len(seeds)}"


def _mean(column: Column, line: Line) -> str:
    """The mean over the seeds, with its spread where it measures learning; cost is a plain mean."""
    if column.figure.family in ("Accuracy", "Forgetting"):
        return column.mean(line.records)
    found = column.figure.spread(line.records)
    return DASH if found is None else column.scale(found.mean)


def _scores(line: Line, seed: int) -> str:
    share = scale_for("share", [])
    found = [record.accuracy for record in line.records if record.seed == seed]
    return f"{share(found[0].task_il)} / {share(found[0].class_il)}" if found else DASH


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns are aligned in the file too."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))] for row in cells
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (lines[0], rule, *lines[1:]))
