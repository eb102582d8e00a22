"""`esacl data get` and `esacl data check`."""

from __future__ import annotations

import json as json_text
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from esacl.cli.consoles import STATUS, TEXT
from esacl.cli.flags import DATA, OUTPUT, described, setting
from esacl.cli.progress import counting_progress, transfer_progress

if TYPE_CHECKING:
    from esacl.streams import Report

DataDir = Annotated[Path | None, setting("stream.data_dir", DATA)]
_STYLES = {"official": "green", "other": "yellow", "damaged": "red", "missing": "dim"}
_STATES = {"official": "whole", "other": "readable", "damaged": "damaged", "missing": "missing"}


def get_command(
    name: Annotated[str, Parameter(help="cifar10, cifar100 or tinyimagenet")],
    /,
    *,
    data_dir: DataDir = None,
    url: Annotated[str | None, described("another address of the same archive, such as a mirror", DATA)] = None,
) -> None:
    """Download an official archive; a broken download goes on where it stopped, and the checksum is verified."""
    from esacl.streams import get

    with transfer_progress(STATUS, name) as progress:
        path = get(name, data_dir, progress=progress, url=url)
    TEXT.print(f"{path} is whole: its checksum is the official one.", markup=False, soft_wrap=True)


def check_command(
    *,
    data_dir: DataDir = None,
    json: Annotated[bool, described("print JSON", OUTPUT, negative="")] = False,
) -> None:
    """Say which data sets are there and whether they are whole. Exit code 1 if one is damaged."""
    from esacl.streams import check

    with counting_progress(STATUS, "reading images") as progress:
        reports = check(data_dir, progress)
    if json:
        print(json_text.dumps([asdict(report) for report in reports], indent=1))
    else:
        for report in reports:
            _tell(report)
    if any(report.state == "damaged" for report in reports):
        raise SystemExit(1)


def _tell(report: Report) -> None:
    """A heading and a few lines; long paths and digests stay whole, so that they can be copied."""
    counts = [_span(span) for span in (report.train_per_class, report.test_per_class) if span]
    told = f" · {counts[0]} train / {counts[1]} test images a class" if counts else ""
    TEXT.print(f"[bold]{report.name}[/] [{_STYLES[report.state]}]{_STATES[report.state]}[/]{told}", highlight=False)
    lines = [report.path, report.detail] if counts else [report.detail]
    if report.sha256:
        lines.append(f"sha256 {report.sha256}")
    for line in lines:
        TEXT.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def _span(span: tuple[int, int]) -> str:
    low, high = span
    return str(low) if low == high else f"{low}–{high}"
