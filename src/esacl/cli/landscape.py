"""`esacl landscape`: how flat the loss is around a trained network, and what pruning does there."""

from __future__ import annotations

import json as json_text
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esacl.cli.consoles import STATUS, TEXT
from esacl.cli.flags import OUTPUT, Code, described
from esacl.cli.inspect import Own
from esacl.cli.progress import counting_progress
from esacl.errors import ConfigError
from esacl.files import check_place, write_atomic

if TYPE_CHECKING:
    from esacl.landscape import Landscape


def landscape_command(
    *directories: Annotated[Path, Parameter(help="finished runs, such as one of EsaCL and one of its dense base")],
    out: Annotated[Path | None, described("the picture: .png, .svg or .pdf", OUTPUT, name=["--out", "-o"])] = None,
    steps: Annotated[int, Parameter(help="points along each direction", validator=Number(gte=3, lte=201))] = 17,
    examples: Annotated[int, Parameter(help="training images the loss is taken on", validator=Number(gte=2))] = 512,
    rho: Annotated[float, Parameter(help="radius of the sharpness", validator=Number(gt=0))] = 0.05,
    sparsity: Annotated[
        float, Parameter(help="share of zeros that a dense network is pruned to", validator=Number(gte=0, lt=1))
    ] = 0.8,
    backbone: Own = None,
    code: Code = None,
    json: Annotated[bool, described("print the figures as JSON", OUTPUT, negative="")] = False,
) -> None:
    """Draw the loss around trained networks: on the way to the pruned point, across it, and how sharp it is.

    Example: esacl landscape runs/esacl runs/dense -o landscape.png

    The way starts at the weights before the last pruning and ends at the pruned ones; a dense network is pruned in
    one shot by magnitude. Numbers are written beside the picture, as JSON.
    """
    from esacl.landscape import draw

    if not directories:
        raise ConfigError("no run was given to draw. Name finished ones: esacl landscape runs/first")
    if out is not None:
        check_place(out, "picture")
        if out.with_suffix(".json").name == "results.json":
            raise ConfigError(
                f"the figures of --out {str(out)!r} would be written to results.json beside it, which is what a run "
                f"calls its results. Choose another name, such as landscape.png."
            )
    found = [_measure(each, steps, examples, rho, sparsity, backbone, code or ()) for each in directories]
    place = out or directories[0] / "landscape.png"
    draw(found, place)
    document = json_text.dumps([each.to_json() for each in found], indent=1)
    write_atomic(place.with_suffix(".json"), document.encode())
    if json:
        print(document)
    else:
        _tell(found)
        STATUS.print(f"picture: {place}", markup=False, soft_wrap=True)


def _measure(
    directory: Path,
    steps: int,
    examples: int,
    rho: float,
    sparsity: float,
    backbone: str | None,
    code: Collection[str],
) -> Landscape:
    from esacl.landscape import landscape

    with counting_progress(STATUS, f"loss around {directory}") as progress:
        return landscape(directory, steps, examples, rho, sparsity, progress, backbone, code)


def _tell(found: list[Landscape]) -> None:
    from esacl.landscape import labels

    table = Table(title="Before → after pruning", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("run", "loss", "sparsity", "sharpness", "over loss"):
        table.add_column(heading, justify="left" if heading == "run" else "right")
    for each, name in zip(found, labels(found)):
        table.add_row(
            Text(name),
            f"{each.loss:.4f} → {each.pruned_loss:.4f}",
            f"{each.sparsity:.1%}",
            f"{each.sharpness:.4f} → {each.pruned_sharpness:.4f}",
            f"{each.relative_sharpness:.2f} → {each.pruned_relative_sharpness:.2f}",
        )
    TEXT.print(table)
