"""`esacl methods`, `esacl streams` and `esacl report`: what there is, and what came of it."""

import json as json_text
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from esacl.cli.flags import OUTPUT, described
from esacl.config import SLOTS
from esacl.options import helps
from esacl.recipes import METHODS
from esacl.report import load_run, summary_table, write_report
from esacl.streams import available

TEXT = Console()

Json = Annotated[bool, described("print JSON", OUTPUT, negative="")]


def methods_command(*, json: Json = False) -> None:
    """List the methods, what they do, and the options of their own."""
    rows = {
        name: {
            "about": row.about,
            "parts": {slot: row.part(slot).__name__ for slot in SLOTS},
            "options": {
                f"{slot}.{key}": {"default": default, "help": text}
                for slot in SLOTS
                for key, (default, text) in helps(row.part(slot).Options).items()
            },
        }
        for name, row in METHODS.items()
    }
    if json:
        print(json_text.dumps(rows, indent=1))
        return
    table = Table(title="Methods", title_justify="left")
    table.add_column("method", style="bold")
    table.add_column("what it does")
    table.add_column("options of its own (--set part.key=value)")
    shared = set.intersection(*(set(options) for options in (dict(_options(row)) for row in rows.values())))
    for name, row in rows.items():
        own = [f"{key}={default}" for key, default in _options(row) if key not in shared]
        table.add_row(name, str(row["about"]), "\n".join(own) or "–")
    TEXT.print(table)
    TEXT.print(f"All methods: {', '.join(sorted(shared))}.", style="dim")


def _options(row: dict[str, object]) -> list[tuple[str, object]]:
    options = row["options"]
    assert isinstance(options, dict)
    return [(key, "auto" if entry["default"] is None else entry["default"]) for key, entry in options.items()]


def streams_command(*, json: Json = False) -> None:
    """List the streams, their tasks, and what has to be downloaded for them."""
    rows = [asdict(stream) for stream in available()]
    if json:
        print(json_text.dumps(rows, indent=1))
        return
    table = Table(title="Streams", title_justify="left")
    for name in rows[0]:
        table.add_column(name.replace("_", " "), overflow="fold", style="bold" if name == "name" else None)
    for row in rows:
        table.add_row(*("–" if value is None else str(value) for value in row.values()))
    TEXT.print(table)


def report_command(
    directories: Annotated[list[Path], Parameter(help="run directories")],
    *,
    out: Annotated[
        Path | None,
        described("file to write [default: report.html of the first run, or of the current folder for several]", OUTPUT,
                  name=["--out", "-o"]),
    ] = None,
) -> None:
    """Write one self-contained page about one or several runs, side by side."""
    target = out or (directories[0] / "report.html" if len(directories) == 1 else Path("report.html"))
    TEXT.print(summary_table([load_run(directory) for directory in directories]))
    written = write_report(directories, target)
    TEXT.print(f"report: {written.resolve()}", markup=False, soft_wrap=True)
