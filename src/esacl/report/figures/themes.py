"""The plots that there are data for, under their headings, and the same plots as files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from esacl.report.ablations import KINDS
from esacl.report.figures.bar_plot import ablation_bars, flops_by_row
from esacl.report.figures.chart import Chart, save
from esacl.report.figures.confusion_plot import confusion_plot
from esacl.report.figures.cost_plot import COSTS, accuracy_over
from esacl.report.figures.over_tasks_plot import average_over_tasks, forgetting_over_tasks
from esacl.report.figures.run_accuracy import accuracy_over_time, heat_map
from esacl.report.figures.run_cost import flops_bars, memory_bars, time_bar
from esacl.report.figures.run_loss import training_loss
from esacl.report.figures.seeds_plot import final_accuracy
from esacl.report.figures.sweep_plot import accuracy_along
from esacl.report.record import SCENARIO_NAMES, RunRecord, Scenario, shown_settings
from esacl.report.rows import Row, records_of, tables_of
from esacl.report.sweeps import SWEEPS

_Plot = Callable[[Sequence[Row], Scenario], Chart | None]


@dataclass(frozen=True, slots=True)
class Theme:
    """Plots that belong together, one for each setting."""

    title: str
    charts: tuple[Chart, ...]

    @property
    def note(self) -> str:
        """Which of its rows have no Class-IL accuracy, and why; empty where all have one."""
        rows = {id(spot.row): spot.row for chart in self.charts for spot in chart.spots}
        silent = [row.records[0] for row in rows.values() if row.records[0].accuracy.class_il is None]
        asked = [record.config.get("train", {}).get("scenario") == "task-il" for record in silent]
        only = list(dict.fromkeys(record.method for record, wish in zip(silent, asked) if wish))
        need = list(dict.fromkeys(record.method for record, wish in zip(silent, asked) if not wish))
        told = [f"{', '.join(need)} must be told the task"] if need else []
        told += [f"{', '.join(only)} ran for Task-IL only"] if only else []
        return f"Only in the {SCENARIO_NAMES['task_il']} plot: {'; '.join(told)}." if told else ""


def run_themes(record: RunRecord) -> list[Theme]:
    """Every plot of one run."""
    settings = record.settings
    accuracy = [heat_map(record, setting) for setting in settings]
    if len(record.matrix["task_il"]) > 1:
        accuracy += [accuracy_over_time(record, setting) for setting in settings]
    classes = list(dict.fromkeys(name for names in record.task_classes for name in names))
    tasks = () if record.same_classes else tuple(map(len, record.task_classes))
    name = "Confusion matrix" + ("" if "class_il" in record.matrix else " within the tasks")
    found = confusion_plot(record.confusion, classes, tasks, name) if record.confusion else None
    accuracy += [] if found is None else [found]
    cost = [flops_bars(record), time_bar(record), memory_bars(record)]
    training = ([training_loss(record)] if record.log else []) + cost
    return [Theme("Accuracy", tuple(accuracy)), Theme("Training and cost", tuple(training))]


def themes(rows: Sequence[Row]) -> list[Theme]:
    """Every plot of rows that may be compared; nothing where there is no data."""
    finished = [row for row in rows if row.records]
    plots: list[tuple[str, _Plot]] = [("Accuracy at the end", final_accuracy)]
    plots += [(f"Accuracy over {cost.name}", partial(accuracy_over, cost=cost)) for cost in COSTS]
    plots += [("Accuracy over tasks", average_over_tasks), ("Forgetting over tasks", forgetting_over_tasks)]
    plots += [("Training FLOPs", lambda rows, setting: flops_by_row(rows) if setting == "task_il" else None)]
    for name, alike in groupby(SWEEPS, lambda sweep: sweep.name):
        plots.append((f"Sweep: {name}", partial(accuracy_along, sweeps=list(alike))))
    plots += [(kind.title, partial(ablation_bars, kind=kind)) for kind in KINDS]
    settings = shown_settings(records_of(finished))
    drawn = [(title, [plot(finished, setting) for setting in settings]) for title, plot in plots]
    return [Theme(title, tuple(filter(None, charts))) for title, charts in drawn if any(charts)]


def frontiers(rows: Sequence[Row]) -> list[Theme]:
    """Accuracy over executed FLOPs alone."""
    cost = next(cost for cost in COSTS if cost.key == "flops_executed")
    charts = [accuracy_over(rows, setting, cost) for setting in shown_settings(records_of(rows))]
    return [Theme(f"Accuracy over {cost.name}", tuple(filter(None, charts)))]


def save_figures(
    rows: Sequence[Row], folder: Path, draw: Callable[[Sequence[Row]], list[Theme]] = themes
) -> list[Path]:
    """Write every plot as SVG and PNG; with several streams, splits or numbers of tasks each file says whose it is."""
    written, tables = [], tables_of(rows)
    places = [f"{members[0].stream}-{members[0].split}-" for members in tables]
    for place, members in zip(places, tables):
        tasks = next((row.records[0].tasks for row in members if row.records), 0)
        start = (place if len(tables) > 1 else "") + (f"{tasks}-tasks-" if places.count(place) > 1 else "")
        clean = "".join(char if char.isalnum() or char in "-_." else "-" for char in start)
        written += _save(draw(members), folder, clean)
    return written


def save_run_figures(record: RunRecord, folder: Path) -> list[Path]:
    """Write every plot of one run as SVG and PNG."""
    return _save(run_themes(record), folder)


def _save(found: Sequence[Theme], folder: Path, start: str = "") -> list[Path]:
    charts = [chart for theme in found for chart in theme.charts]
    return [path for chart in charts for path in save(chart, folder, f"{start}{chart.slug.replace('_', '-')}")]
