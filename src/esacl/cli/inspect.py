"""`esacl inspect`: what a trained model knows, and how large it is."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esacl.cli.consoles import TEXT, visible
from esacl.cli.flags import Code
from esacl.cli.lists import Json

if TYPE_CHECKING:
    from esacl.deploy.summary import Summary

KINDS = {
    "classifier": "a saved classifier, which can learn more",
    "run": "a finished run",
    "export": "an exported model",
    "onnx": "an ONNX graph",
}
SCALES = {
    "bytes": "images of {}×{}×{} (channels, height, width), read as bytes",
    "floats": "images of {}×{}×{} (channels, height, width), as floats in the scale of training",
    "features": "{2} features",
}

Own = Annotated[
    str | None,
    Parameter(help="the code of a network of your own, again: package.module:function, or file.py:function"),
]
Model = Annotated[Path, Parameter(help="file of a saved classifier, directory of a finished run, or exported file")]


def inspect_command(model: Model, /, *, backbone: Own = None, code: Code = None, json: Json = False) -> None:
    """Say what a trained model is: its classes and tasks, its layers, how much of them is in use, its size."""
    from esacl.deploy import open_model
    from esacl.deploy.summary import summary

    found = summary(open_model(model, backbone, code or ()), model)
    if json:
        print(json_text.dumps(found.to_json(), indent=1))
        return
    _tell(found)
    TEXT.print(_tasks(found))
    TEXT.print(_layers(found))


def _tell(found: Summary) -> None:
    asks = " (must be told the task: --task)" if found.needs_task else ""
    width = "" if found.width is None else f" of width {found.width}"
    lines = {
        "model": f"{KINDS[found.kind]}, {_size(found.bytes)}",
        "method": f"{found.method}{asks}",
        "network": f"{found.backbone}{width}, {found.parameters:,} parameters",
        "reads": SCALES[found.input.kind].format(*found.shape),
        "knows": f"{len(found.classes)} classes of {len(found.tasks)} tasks",
        "uses": f"{found.weights_in_use:,} of {found.weights:,} weights ({found.density:.1%})",
    }
    for name, told in lines.items():
        TEXT.print(f"[bold]{name:>8}[/]  ", end="")
        TEXT.print(told, markup=False, highlight=False, soft_wrap=True)


def _tasks(found: Summary) -> Table:
    table = Table(title="Tasks", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("task", justify="right")
    table.add_column("classes")
    known = any(task.task_il is not None for task in found.tasks)
    for heading in ("Task-IL", "Class-IL") if known else ():
        table.add_column(heading, justify="right", no_wrap=True)
    for task in found.tasks:
        shares = ["–" if share is None else f"{share:.1%}" for share in (task.task_il, task.class_il)]
        table.add_row(str(task.number), Text(visible(", ".join(map(str, task.classes)))), *(shares if known else ()))
    return table


def _layers(found: Summary) -> Table:
    table = Table(title="Layers", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("layer", overflow="fold")
    for heading in ("shape", "weights", "in use", "density"):
        table.add_column(heading, justify="right", no_wrap=True)
    for layer in found.layers:
        shape = "×".join(map(str, layer.shape))
        table.add_row(layer.name, shape, f"{layer.weights:,}", f"{layer.in_use:,}", f"{layer.density:.1%}")
    return table


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB"
