"""The plots that a study has data for, under their headings."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from esacl.report.record import SETTING_NAMES, shown_settings
from esacl.report.sheet import Line, tables_of
from esacl.report.study.ablations import KINDS, ablations
from esacl.report.study.bars import ablation_bars
from esacl.report.study.chart import Chart, save
from esacl.report.study.courses import forgetting_over_tasks
from esacl.report.study.measures import COSTS, courses, dots
from esacl.report.study.scatter import accuracy_over
from esacl.report.study.sweeps import SWEEPS, series
from esacl.report.study.swept import accuracy_along


@dataclass(frozen=True, slots=True)
class Theme:
    """Plots that belong together, one for each setting."""

    title: str
    charts: tuple[Chart, ...]

    @property
    def note(self) -> str:
        """Which of its lines have no Class-IL accuracy, and why; empty where all have one."""
        lines = {id(spot.line): spot.line for chart in self.charts for spot in chart.spots}
        silent = [line for line in lines.values() if line.records[0].accuracy.class_il is None]
        asked = [line.records[0].config.get("train", {}).get("scenario") == "task-il" for line in silent]
        only = list(dict.fromkeys(line.records[0].method for line, wish in zip(silent, asked) if wish))
        need = list(dict.fromkeys(line.records[0].method for line, wish in zip(silent, asked) if not wish))
        told = [f"{', '.join(need)} must be told the task"] if need else []
        told += [f"{', '.join(only)} ran for Task-IL only"] if only else []
        return f"Only in the {SETTING_NAMES['task_il']} plot: {'; '.join(told)}." if told else ""


def themes(lines: Sequence[Line]) -> list[Theme]:
    """Every plot of lines that may be compared; nothing where there is no data."""
    found = []
    settings = shown_settings([record for line in lines for record in line.records])
    for cost in COSTS:
        planes = [(setting, dots(lines, setting, cost)) for setting in settings]
        charts = [accuracy_over(points, setting, cost) for setting, points in planes if points]
        found.append(Theme(f"Accuracy over {cost.name}", tuple(charts)))
    paths = [(setting, courses(lines, setting)) for setting in settings]
    charts = [forgetting_over_tasks(known, setting) for setting, known in paths if known]
    found.append(Theme("Forgetting over tasks", tuple(charts)))
    for name, alike in groupby(SWEEPS, lambda sweep: sweep.name):
        sweeps = list(alike)
        swept = [one for sweep in sweeps for one in series(lines, sweep)]
        along = [accuracy_along(swept, sweeps[0], setting) for setting in settings]
        found.append(Theme(f"Sweep: {name}", tuple(chart for chart in along if chart)))
    for kind in KINDS:
        parts = ablations(lines, kind)
        bars = [ablation_bars(parts, kind, setting) for setting in settings]
        found.append(Theme(kind.title, tuple(chart for chart in bars if chart)))
    return [theme for theme in found if theme.charts]


def _place(members: Sequence[Line]) -> tuple[str, str]:
    """What a table is of, but for the number of tasks."""
    return members[0].stream, members[0].split


def save_figures(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Write every plot as SVG and PNG; with several streams, splits or numbers of tasks each file says whose it is."""
    tables = tables_of(lines)
    written: list[Path] = []
    for members in tables:
        start = f"{members[0].stream}-{members[0].split}-" if len(tables) > 1 else ""
        rivals = [other for other in tables if _place(other) == _place(members)]
        tasks = next((line.records[0].tasks for line in members if line.records), 0)
        start += f"{tasks}-tasks-" if len(rivals) > 1 else ""
        clean = "".join(char if char.isalnum() or char in "-_." else "-" for char in start)
        for theme in themes(members):
            for chart in theme.charts:
                written += save(chart, folder, f"{clean}{chart.slug.replace('_', '-')}")
    return written
