"""`esacl methods`, `esacl parts` and `esacl streams`: what there is."""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from esacl.cli.consoles import STATUS, TEXT
from esacl.cli.flags import OUTPUT, described
from esacl.config import CHOSEN, SLOTS
from esacl.errors import unknown_name
from esacl.options import OptionHelp, helps
from esacl.short_names import SHORT_NAMES, as_flags

if TYPE_CHECKING:
    from esacl.methods import Method
    from esacl.part import Part

NARROW = 80  # columns below which a description stands under its name

Json = Annotated[bool, described("print JSON", OUTPUT, negative="")]


def methods_command(
    name: Annotated[str | None, Parameter(help="method whose options to explain")] = None, /, *, json: Json = False
) -> None:
    """List the methods and what they do; with a NAME, explain every option of that method.

    Any sparsity may stand before any base that fits: esacl-icarl, packnet-er, nispa-der++.
    """
    from esacl.methods import METHODS, method
    from esacl.methods.names import plugin_methods

    offered, problems = plugin_methods() if name is None else ({}, [])
    for problem in problems:
        STATUS.print(f"note: {problem}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    shown = {**METHODS, **offered} if name is None else {name: method(name)}
    shown = {key: row.with_default_readout() for key, row in shown.items()}
    if json:
        rows = {
            key: {
                "about": row.about,
                "columns": row.columns(row.default_options()) or "all",
                "parts": {slot: row.part(slot).__name__ for slot in SLOTS},
                "options": {path: told._asdict() for path, told in _options(row).items()},
            }
            for key, row in shown.items()
        }
        print(json_text.dumps(rows, indent=1))
    elif name is None:
        _list_methods(shown)
    else:
        _explain_method(name, shown[name])


def _list_methods(shown: Mapping[str, Method]) -> None:
    from esacl.methods.names import above_names, base_names

    table = Table(title="Methods", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", style="bold", no_wrap=True)
    table.add_column("what it does")
    for name, row in shown.items():
        table.add_row(name, row.about)
    TEXT.print(table)
    TEXT.print(
        f"Two in one name: one of {', '.join(above_names())}, then one of {', '.join(base_names())}, such as "
        f"esacl-icarl or packnet-er. Two that do not fit are refused with the reason. Single parts are chosen by flag: "
        f"`esacl parts`.",
        style="dim",
        markup=False,
    )
    TEXT.print("`esacl methods NAME` explains the options of a method.", style="dim")


def _explain_method(name: str, row: Method) -> None:
    flags = {path: f" ({as_flags()(path)})" for path in SHORT_NAMES.values()}
    table = Table(title=f"{name}: {row.about}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("option", style="bold", no_wrap=True)
    table.add_column("default", no_wrap=True)
    table.add_column("what it is, and what is allowed")
    for path, told in _options(row).items():
        words = Text.assemble(told.help, (f" [{told.allowed}]", "dim"))
        table.add_row(f"{path}{flags.get(path, '')}", _shown(told.default), words)
    TEXT.print(table)
    declared = row.columns(row.default_options())
    rule = "all columns" if declared is None else f"{declared}, as its authors have it"
    TEXT.print(f"Training columns (--columns): {rule}.")
    TEXT.print("Set any of them with --set part.key=value.", style="dim")


def parts_command(
    slot: Annotated[str | None, Parameter(help=f"one of {', '.join(CHOSEN)}, objective, sparsity")] = None,
    /,
    *,
    json: Json = False,
) -> None:
    """List the parts that can fill a slot, with the options of each.

    Example: esacl parts gradient; then esacl run --method der++ --gradient sharpness --rho 0.05
    """
    if slot is not None and slot not in SLOTS:
        raise unknown_name("slot", slot, SLOTS)
    from esacl.methods.method import about_part
    from esacl.methods.names import part, part_names

    slots = SLOTS if slot is None else (slot,)
    found = {each: {name: part(each, name) for name in part_names(each)} for each in slots}
    if json:
        rows = {
            each: {name: {"about": about_part(kind), "options": _told(kind)} for name, kind in parts.items()}
            for each, parts in found.items()
        }
        print(json_text.dumps(rows, indent=1))
        return
    for each, parts in found.items():
        _list_parts(each, parts)
    TEXT.print("Choose one with its flag, such as --readout nearest-mean; set options with --set slot.key=value.")


def _list_parts(slot: str, parts: Mapping[str, type[Part]]) -> None:
    from esacl.methods.method import about_part

    flag = f" (--{slot})" if slot in CHOSEN else " (by the name of a method)"
    table = Table(title=f"{slot}{flag}", title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("part", style="bold", no_wrap=True)
    table.add_column("what it does, and its options")
    for name, kind in parts.items():
        told = Text(about_part(kind))
        for key, one in helps(kind.Options).items():
            told.append(f"\n{slot}.{key} = {_shown(one.default)}", style="bold").append(f": {one.help}", style="dim")
        table.add_row(name, told)
    TEXT.print(table)


def _told(kind: type[Part]) -> dict[str, Any]:
    return {key: one._asdict() for key, one in helps(kind.Options).items()}


def _options(row: Method) -> dict[str, OptionHelp]:
    """What is told of every option of a method, by part.key."""
    return {f"{slot}.{key}": told for slot in SLOTS for key, told in helps(row.part(slot).Options).items()}


def _shown(default: Any) -> str:
    return "auto" if default is None else str(default).lower() if isinstance(default, bool) else str(default)


def streams_command(*, json: Json = False) -> None:
    """List the streams, their tasks, and what has to be downloaded for them."""
    from esacl.streams import available

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
