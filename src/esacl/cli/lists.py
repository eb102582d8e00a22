"""`esacl methods` and `esacl streams`: what there is."""

import json as json_text
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from esacl.cli.flags import OUTPUT, described
from esacl.config import SLOTS
from esacl.options import Told, helps
from esacl.recipes import FLAGS, METHODS, Method, method
from esacl.streams import available

TEXT = Console()
NARROW = 80  # columns below which a description stands under its name

Json = Annotated[bool, described("print JSON", OUTPUT, negative="")]


def methods_command(
    name: Annotated[str | None, Parameter(help="method whose options to explain")] = None, /, *, json: Json = False
) -> None:
    """List the methods and what they do; with a NAME, explain every option of that method."""
    shown = METHODS if name is None else {name: method(name)}
    if json:
        rows = {
            key: {
                "about": row.about,
                "parts": {slot: row.part(slot).__name__ for slot in SLOTS},
                "options": {path: told._asdict() for path, told in _options(row).items()},
            }
            for key, row in shown.items()
        }
        print(json_text.dumps(rows, indent=1))
    elif name is None:
        _list_methods()
    else:
        _explain_method(name, shown[name])


def _list_methods() -> None:
    table = Table(title="Methods", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", style="bold", no_wrap=True)
    table.add_column("what it does")
    for name, row in METHODS.items():
        table.add_row(name, row.about)
    TEXT.print(table)
    TEXT.print("`esacl methods NAME` explains the options of a method.", style="dim")


def _explain_method(name: str, row: Method) -> None:
    flags = {path: f" ({flag})" for path, flag in FLAGS.items()}
    table = Table(title=f"{name}: {row.about}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("option", style="bold", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("what it is, and what is allowed")
    for path, told in _options(row).items():
        words = Text.assemble(told.help, (f" [{told.allowed}]", "dim"))
        table.add_row(f"{path}{flags.get(path, '')}", _shown(told.default), words)
    TEXT.print(table)
    TEXT.print("Set any of them with --set part.key=value.", style="dim")


def _options(row: Method) -> dict[str, Told]:
    """What is told of every option of a method, by part.key."""
    return {f"{slot}.{key}": told for slot in SLOTS for key, told in helps(row.part(slot).Options).items()}


def _shown(default: Any) -> str:
    return "auto" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


def streams_command(*, json: Json = False) -> None:
    """List the streams, their tasks, and what has to be downloaded for them."""
    if json:
        print(json_text.dumps([asdict(stream) for stream in available()], indent=1))
        return
    table = Table(title="Streams", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    narrow = TEXT.width < NARROW
    table.add_column("stream", min_width=max(len(stream.name) for stream in available()))
    if not narrow:
        table.add_column("what it is")
    for name in ("tasks", "classes", "image", "download"):
        table.add_column(name, justify="right", no_wrap=True)
    for stream in available():
        image = "–" if stream.image is None else "×".join(map(str, stream.image))
        download = "–" if stream.size is None else f"{stream.size / 1e6:.0f} MB"
        counts = ("yours" if count is None else str(count) for count in (stream.tasks, stream.classes))
        title, about = Text(stream.name, style="bold"), Text(stream.description)
        named = [Text("\n").join([title, about])] if narrow else [title, about]
        table.add_row(*named, *counts, image, download)
    TEXT.print(table)
    TEXT.print("Download with `esacl data get NAME`; `esacl data check` says what is there.", style="dim")
