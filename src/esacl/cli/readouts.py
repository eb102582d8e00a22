"""`esacl readouts`: train once, read out in every way."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esacl.cli.consoles import STATUS, TEXT
from esacl.cli.flags import Code
from esacl.cli.inspect import Own
from esacl.cli.lists import Json
from esacl.errors import ConfigError
from esacl.toml import set_option

if TYPE_CHECKING:
    from esacl.runner import ReadoutResult


def readouts_command(
    *directories: Annotated[Path, Parameter(help="finished runs")],
    readout: Annotated[
        list[str] | None, Parameter(help="readout to try, may be repeated (default: all)", negative="")
    ] = None,
    set: Annotated[
        list[str] | None,
        Parameter(
            name="--set", help="option of the readout that is named, such as decay=0.1; may be repeated", negative=""
        ),
    ] = None,
    split: Annotated[
        Literal["test", "validation", "both"] | None,
        Parameter(help="split that is evaluated (default: that of the run)"),
    ] = None,
    backbone: Own = None,
    code: Code = None,
    json: Json = False,
) -> None:
    """Compare every readout on trained runs: accuracy, and what fitting it costs. Nothing is trained or written.

    Example: esacl readouts runs/er; then esacl run --method er --readout lda

    A run keeps the weights and the memory it ended with, and training does not depend on the readout. Choose one on the
    validation split and report it on the test split: --split both.
    """
    from esacl.runner import compare_readouts

    if not directories:
        raise ConfigError("no run was given to read out. Name finished ones: esacl readouts runs/first")
    options = _options(set or (), readout or ())
    wanted = None if readout is None else [(name, options) for name in readout]
    found = {
        str(each): compare_readouts(each, wanted, backbone=backbone, code=code or (), split=split)
        for each in directories
    }
    if json:
        print(json_text.dumps({run: [row.to_json() for row in rows] for run, rows in found.items()}, indent=1))
        return
    for run, rows in found.items():
        for each in dict.fromkeys(row.split for row in rows):
            title = run if split != "both" else f"{run}, {each} split"
            _tell(title, [row for row in rows if row.split == each])


def _options(given: Sequence[str], readouts: Sequence[str]) -> dict[str, Any]:
    if given and len(readouts) != 1:
        raise ConfigError(f"--set {given[0]} is an option of one readout. Name it: --readout NAME --set {given[0]}")
    tables: dict[str, Any] = {}
    for assignment in given:
        set_option(tables, assignment.removeprefix("readout."))
    return tables


def _tell(run: str, rows: Sequence[ReadoutResult]) -> None:
    table = Table(title=run, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("readout", style="bold", no_wrap=True)
    for heading in ("Task-IL", "Class-IL", "ms", "MMAC", "of training", "bytes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        if row.refused is None:
            assert row.seconds is not None
            assert row.macs is not None
            cost = (f"{1e3 * row.seconds:.1f}", f"{1e-6 * row.macs:.1f}", f"{row.share:.1%}", f"{row.bytes:,}")
            accuracies = ("–" if share is None else f"{share:.1%}" for share in (row.task_il, row.class_il))
            table.add_row(Text(row.readout), *accuracies, *cost)
    TEXT.print(table)
    for row in rows:
        if row.refused is not None:
            STATUS.print(f"{row.readout}: {row.refused}", style="dim", markup=False, highlight=False, soft_wrap=True)
