"""`esacl evaluate`: how good a trained model is on images with known classes."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esacl.cli.consoles import STATUS, TEXT, visible
from esacl.cli.flags import DATA as DATA_FLAGS
from esacl.cli.flags import OUTPUT, Code, described, setting
from esacl.cli.inspect import Model, Own
from esacl.cli.lists import Json
from esacl.cli.predict import SHOWN, Task
from esacl.cli.progress import counting_progress

if TYPE_CHECKING:
    from esacl.metrics.evaluation import Evaluation

FEW = 10  # classes whose confusion matrix fits a terminal
MOST = 20  # classes that are listed: the worst


def evaluate_command(
    model: Model,
    data: Annotated[str, Parameter(help="folder of one sub-folder of images a class, or the name of a stream")],
    /,
    *,
    out: Annotated[
        Path | None,
        described("page to write: pictures of all this and the worst mistakes", OUTPUT, name=["--out", "-o"]),
    ] = None,
    task: Task = None,
    data_dir: Annotated[str | None, setting("stream.data_dir", DATA_FLAGS)] = None,
    backbone: Own = None,
    code: Code = None,
    json: Json = False,
) -> None:
    """Say how good a model is: accuracy, each class, what is taken for what, calibration, the most confident mistakes.

    Examples: esacl evaluate animals.esacl unseen/ -o page.html ; esacl evaluate runs/first split-digits

    Give images that were never taught: of others the figures are too good. A stream is judged on its test split.
    """
    from esacl.deploy import evaluate
    from esacl.files import check_place

    if out is not None:
        check_place(out, "page")
    with counting_progress(STATUS, "looking at images") as progress:
        found = evaluate(model, data, task, backbone, code or (), data_dir, progress)
    if json:
        print(json_text.dumps(found.to_json(), indent=1))
    else:
        _tell(found)
    _warn(found)
    if out is not None:
        from esacl.report.evaluation_page import write_evaluation

        place = write_evaluation(found, out)
        (STATUS if json else TEXT).print(f"page: {place.resolve()}", markup=False, highlight=False, soft_wrap=True)


def _tell(found: Evaluation) -> None:
    low, high = found.interval
    _line("accuracy", f"{found.accuracy:.1%} of {found.examples} (95 % interval {low:.1%} to {high:.1%})")
    if len(found.classes) > 1:
        _line("classes", f"{found.mean_recall:.1%} right on average over the classes")
    calibration = found.calibration
    told = f"confidence is off by {calibration.error:.1%} on average (ECE)"
    if calibration.temperature is not None:
        told += (
            f"; temperature {calibration.temperature:.2f}, fitted on {calibration.fitted_on}, makes "
            f"{calibration.error_before:.1%} to {calibration.error_after:.1%}"
        )
    elif calibration.fitted_on is not None:
        told += f"; no temperature mends that, as every answer on {calibration.fitted_on} is right"
    _line("trust", told)
    TEXT.print(_classes(found))
    if 1 < len(found.classes) <= FEW:
        TEXT.print(_matrix(found))
    elif pairs := found.confusions(5):
        told = ", ".join(f"{name} as {answer} ({count}×)" for name, answer, count in pairs)
        _line("confused", told)
    if found.tasks:
        TEXT.print(_tasks(found))
    for mistake in found.mistakes[:3]:
        _line("mistake", f"{mistake.name}: {mistake.answer} ({mistake.probability:.1%}), but it is {mistake.truth}")


def _line(name: str, told: str) -> None:
    TEXT.print(f"[bold]{name:>8}[/]  ", end="")
    TEXT.print(told, markup=False, highlight=False, soft_wrap=True)


def _grid(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column(headings[0], overflow="fold")
    for heading in headings[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _images(count: int) -> str:
    return f"{count} image{'' if count == 1 else 's'}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _classes(found: Evaluation) -> Table:
    """Every class, or those with the lowest recall."""
    rows = list(zip(found.classes, found.scores))
    title = "Classes"
    if len(rows) > MOST:
        rows.sort(key=lambda row: 2.0 if row[1].recall is None else row[1].recall)
        title, rows = f"The {MOST} classes of {len(rows)} with the lowest recall", rows[:MOST]
    table = _grid(title, "class", "precision", "recall", "images")
    for name, score in rows:
        table.add_row(Text(visible(str(name))), _share(score.precision), _share(score.recall), str(score.count))
    return table


def _matrix(found: Evaluation) -> Table:
    """Rows of true classes by number, columns of answers."""
    table = _grid("Confusion: rows are classes, columns answers", "class", *map(str, range(1, len(found.classes) + 1)))
    for number, (name, row) in enumerate(zip(found.classes, found.confusion), start=1):
        cells = [
            Text(str(count) if count else "·", "bold" if place == number - 1 else "") for place, count in enumerate(row)
        ]
        table.add_row(Text(f"{number} {visible(str(name))}"), *cells)
    return table


def _tasks(found: Evaluation) -> Table:
    table = _grid("Tasks", "task", "images", "among its classes", "among all")
    for task in found.tasks:
        table.add_row(str(task.number), str(task.examples), f"{task.task_il:.1%}", f"{task.class_il:.1%}")
    return table


def _warn(found: Evaluation) -> None:
    """What was left out, and why."""
    lines = []
    if found.unknown:
        names = ", ".join(list(found.unknown)[:SHOWN])
        count, classes = sum(found.unknown.values()), len(found.unknown)
        which = "a class" if classes == 1 else f"{classes} classes"
        lines.append(f"left out, of {which} that the model does not know: {_images(count)} ({names})")
    if found.unreadable:
        lines.append(f"left out, as they could not be read: {_images(len(found.unreadable))}, such as")
        lines += [f"  {path}: {reason}" for path, reason in list(found.unreadable.items())[:SHOWN]]
    for line in lines:
        STATUS.print(line, style="yellow", markup=False, highlight=False, soft_wrap=True)
