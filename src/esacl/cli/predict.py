"""`esacl predict`: what a trained model sees in image files."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esacl.cli.consoles import STATUS, TEXT, visible
from esacl.cli.flags import Code
from esacl.cli.inspect import Model, Own
from esacl.cli.lists import Json
from esacl.cli.progress import counting_progress
from esacl.errors import ConfigError

if TYPE_CHECKING:
    from esacl.deploy.pictures import Answer

SHOWN = 10  # unreadable files that are named one by one

Task = Annotated[
    int | None, Parameter(help="task of the images, counted from 1: only its classes are answered", negative="")
]


def predict_command(
    model: Model,
    /,
    *images: Annotated[Path, Parameter(help="image files, or folders of them")],
    top: Annotated[int, Parameter(help="classes to name for each image", validator=Number(gte=1))] = 3,
    task: Task = None,
    backbone: Own = None,
    code: Code = None,
    json: Json = False,
) -> None:
    """Name the most likely classes of images, with their probabilities.

    Examples: esacl predict animals.esacl photo.jpg holidays/ ; esacl predict animals.onnx photo.jpg, by onnxruntime

    Where a folder's sub-folders are named after classes, the answers are compared with these names.
    Files that cannot be read are listed and left out; the exit code is 1 if none could be read.
    """
    from esacl.deploy import open_answering
    from esacl.deploy.judged import compared
    from esacl.deploy.pictures import answers

    if not images:
        raise ConfigError(f"no image was given. Name files, or folders of them: esacl predict {model} photo.jpg")
    opened = open_answering(model, backbone, code or ()).for_task(task)
    with counting_progress(STATUS, "looking at images") as progress:
        found = list(answers(opened, images, top, progress))
    read = [answer for answer in found if answer.problem is None]
    broken = [answer for answer in found if answer.problem is not None]
    right = compared(read, images, opened.classes)
    if json:
        print(json_text.dumps(_document(model, read, broken, right), indent=1))
    elif read:
        TEXT.print(_table(read))
        if right:
            told = (
                f"{sum(right) / len(right):.1%} of {len(right)} images are answered with the name of their folder. "
                f"`esacl evaluate {model} FOLDER` tells more."
            )
            TEXT.print(told, markup=False, highlight=False, soft_wrap=True)
    _warn(broken, len(found))
    if not read:
        raise SystemExit(1)


def _document(model: Path, read: list[Answer], broken: list[Answer], right: list[bool]) -> dict[str, object]:
    images = [
        {"path": str(each.path), "answers": [{"class": name, "probability": share} for name, share in each.best]}
        for each in read
    ]
    unreadable = [{"path": str(each.path), "reason": each.problem} for each in broken]
    named = {"named": {"images": len(right), "right": sum(right)}} if right else {}
    return {"schema": 1, "model": str(model), "images": images, "unreadable": unreadable, **named}


def _table(read: list[Answer]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("image", overflow="fold")
    table.add_column("class", style="bold")
    table.add_column("probability", justify="right", no_wrap=True)
    for answer in read:
        for place, (name, share) in enumerate(answer.best):
            shown = str(answer.path) if place == 0 else ""
            table.add_row(
                Text(visible(shown)), Text(visible(str(name))), f"{share:.1%}", style=None if place == 0 else "dim"
            )
    return table


def _warn(broken: list[Answer], total: int) -> None:
    """Name what could not be read, and how many that were."""
    if not broken:
        return
    lines = [f"  {answer.path}: {answer.problem}" for answer in broken[:SHOWN]]
    lines += [f"  and {len(broken) - SHOWN} more (--json lists all)"] if len(broken) > SHOWN else []
    lines += ["Give image files, or folders of them."] if len(broken) == total else []
    told = "\n".join([f"{len(broken)} of {total} could not be read and were left out:", *lines])
    STATUS.print(told, style="yellow", markup=False, highlight=False, soft_wrap=True)
