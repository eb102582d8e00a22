"""Sheets as people and programs take them: for a terminal, as Markdown, as LaTeX; numbers as CSV."""

import csv
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from esacl.report.sheet import Entry, Sheet

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_MARKUP = "\\`*[]|"
LEAST = 12  # characters for the name of a row, whatever the width
EDGES = 3  # characters that a table has around its columns
BETWEEN = 2  # ... and between them

_LATEX = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{char: f"{{{char}}}" for char in "[]*"},  # after the end of a row they would be taken for its options
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "–": "--",
    "†": r"$\dagger$",
    **{char: f"$\\{name}$" for char, name in zip("αβγλρτ", ("alpha", "beta", "gamma", "lambda", "rho", "tau"))},
}


def as_rich(sheets: Sequence[Sheet]) -> RenderableType:
    """Tables for a terminal."""
    return Group(*(part for sheet in sheets for part in (_Pieces(sheet), Text(sheet.caption, style="dim"))))


def as_markdown(sheets: Sequence[Sheet]) -> str:
    """Tables whose columns are aligned in the file too."""
    return (
        "\n\n".join(
            f"**{markdown_text(sheet.title)}**\n\n{_markdown(sheet)}\n\n{markdown_text(sheet.caption)}"
            for sheet in sheets
        )
        + "\n"
    )


def as_latex(sheets: Sequence[Sheet]) -> str:
    """Tables for a paper, with the rules of booktabs."""
    return "\n".join(map(_latex, sheets))


def as_csv(lines: Iterable[Sequence[Any]]) -> str:
    """Lines of values; what is not known is empty, and no text is a formula to a spreadsheet."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([_no_formula(value) for value in line] for line in lines)
    return text.getvalue()


def _no_formula(value: Any) -> Any:
    """Text that a spreadsheet would compute, with an apostrophe before it; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    return (f"'{value}" if value.startswith(_FORMULA) else value).replace("\r", " ")  # which would end the line


def markdown_text(text: str) -> str:
    """Words as Markdown shows them: no markup, no HTML, in one line.

    >>> markdown_text("<b>a|b</b> [x](y)")
    '&lt;b&gt;a\\\\|b&lt;/b&gt; \\\\[x\\\\](y)'
    """
    marked = "".join(f"\\{char}" if char in _MARKUP else char for char in " ".join(text.split()))
    return without_html(marked)


def markdown_code(text: str) -> str:
    """A command as Markdown shows it: in one line, between more backticks than it has itself.

    >>> markdown_code("esacl grid 'a`b.toml'")
    "``esacl grid 'a`b.toml'``"
    """
    shown = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


def without_html(text: str) -> str:
    """Markdown whose author may mark up, but not write HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _Pieces:
    """A sheet for a terminal: in several tables below each other where one would be too wide."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As many columns side by side as fit; each piece says what its rows are."""
        names = [row[0].text for row in self._sheet.rows]
        first = min(max(map(len, [self._sheet.head[0], *names])), max(LEAST, options.max_width // 3))
        pieces: list[list[int]] = []
        room = 0
        for column in range(1, len(self._sheet.head)):
            width = self._width(column) + BETWEEN
            if not pieces or width > room:
                pieces.append([])
                room = options.max_width - first - EDGES
            pieces[-1].append(column)
            room -= width
        for piece in pieces:
            yield self._table(piece, first, title=self._sheet.title if piece is pieces[0] else None)

    def _width(self, column: int) -> int:
        return max(map(len, [*_heading(self._sheet.head[column]), *(row[column].text for row in self._sheet.rows)]))

    def _table(self, piece: Sequence[int], first: int, title: str | None) -> Table:
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column(Text(self._sheet.head[0]), overflow="fold", max_width=first)
        for column in piece:
            heading = Text("\n".join(_heading(self._sheet.head[column])))
            table.add_column(heading, justify="right", no_wrap=True)
        for row in self._sheet.rows:
            cells = [Text(row[n].text, style="bold" if row[n].bold else "") for n in piece]
            table.add_row(Text(row[0].text), *cells)
        return table


def _heading(text: str) -> list[str]:
    """A heading in one line, or in two where it has more than a name and a unit."""
    return [text] if text.count(" ") < 2 else text.split(" ", 1)


def _markdown(sheet: Sheet) -> str:
    def written(entry: Entry) -> str:
        text = markdown_text(entry.text)
        return f"**{text}**" if entry.bold else text

    cells = [[written(Entry(name)) for name in sheet.head], *([written(entry) for entry in row] for row in sheet.rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))] for row in cells
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (lines[0], rule, *lines[1:]))


def _latex(sheet: Sheet) -> str:
    def written(entry: Entry) -> str:
        text = "".join(_LATEX.get(char, char) for char in " ".join(entry.text.split()))
        return f"\\textbf{{{text}}}" if entry.bold else text

    head = [written(Entry(name)) for name in sheet.head]
    rows = [[written(entry) for entry in row] for row in sheet.rows]
    body = [f"{' & '.join(row)} \\\\" for row in (head, *rows)]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{written(Entry(f'{sheet.title}. {sheet.caption}'))}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            r"\toprule",
            body[0],
            r"\midrule",
            *body[1:],
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )
