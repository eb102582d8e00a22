"""Tables as people and programs take them: for a terminal, as Markdown, as LaTeX; numbers as CSV."""

import csv
import re
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table as RichTable
from rich.text import Text

from esacl.report.record import RunRecord
from esacl.report.rows import rows_of
from esacl.report.table import Entry, Table, run_tables
from esacl.report.units import clean

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


def as_rich(tables: Sequence[Table]) -> RenderableType:
    """Tables for a terminal."""
    return Group(*map(_Fitted, tables))


def summary_table(records: Sequence[RunRecord]) -> RenderableType:
    """Every run, then mean ± sample standard deviation where the same settings have several seeds, for a terminal."""
    return as_rich(run_tables(rows_of(records)))


def as_markdown(tables: Sequence[Table]) -> str:
    """Tables whose columns are aligned in the file too."""
    return (
        "\n\n".join(
            f"**{markdown_text(table.title)}**\n\n{_markdown(table)}\n\n{markdown_text(table.caption)}"
            for table in tables
        )
        + "\n"
    )


def as_latex(tables: Sequence[Table]) -> str:
    """Tables for a paper, with the rules of booktabs."""
    return "\n".join(map(_latex, tables))


def as_csv(lines: Iterable[Sequence[Any]]) -> str:
    """Lines of values; what is not known is empty, and no text is a formula to a spreadsheet."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([_no_formula(value) for value in line] for line in lines)
    return text.getvalue()


def _no_formula(value: Any) -> Any:
    """Text that a spreadsheet would compute, with an apostrophe before it; numbers stay numbers."""
    if not isinstance(value, str):
        return value
    text = clean(value.replace("\r", " "), keep="\t\n")  # a return would end the line
    return f"'{text}" if value.startswith(_FORMULA) else text


def markdown_text(text: str) -> str:
    """Words as Markdown shows them: no markup, no HTML, in one line.

    >>> markdown_text("<b>a|b</b> [x](y)")
    '&lt;b&gt;a\\\\|b&lt;/b&gt; \\\\[x\\\\](y)'
    """
    marked = "".join(f"\\{char}" if char in _MARKUP else char for char in _line(text))
    return without_html(marked)


def markdown_code(text: str) -> str:
    """A command as Markdown shows it: in one line, between more backticks than it has itself.

    >>> markdown_code("esacl grid 'a`b.toml'")
    "``esacl grid 'a`b.toml'``"
    """
    shown = _line(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


def _line(text: str) -> str:
    """In one line, without characters that no document can hold."""
    return clean(" ".join(text.split()))


def without_html(text: str) -> str:
    """Markdown whose author may mark up, but not write HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class _Fitted:
    """A table for a terminal: where it is too wide, in several below each other, or without what comes last."""

    def __init__(self, table: Table) -> None:
        self._shown = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As many columns side by side as fit; each piece says what its rows are."""
        table = self._shown
        names = [row[0].text for row in table.rows]
        first = min(max(map(len, [table.head[0], *names])), max(LEAST, options.max_width // 3))
        pieces: list[list[int]] = []
        room = 0
        for column in table.first or range(1, len(table.head)):
            width = self._width(column) + BETWEEN
            if not pieces or width > room:
                if pieces and table.first:
                    break
                pieces.append([])
                room = options.max_width - first - EDGES
            pieces[-1].append(column)
            room -= width
        for piece in pieces:
            yield self._piece(sorted(piece), first, title=table.title if piece is pieces[0] else None)
        if table.caption:
            yield Text(table.caption, style="dim")

    def _width(self, column: int) -> int:
        return max(map(len, [*_heading(self._shown.head[column]), *(row[column].text for row in self._shown.rows)]))

    def _piece(self, columns: Sequence[int], first: int, title: str | None) -> RichTable:
        named = None if title is None else Text(title, style="table.title")  # a name is no markup
        table = RichTable(title=named, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
        table.add_column(Text(self._shown.head[0]), overflow="fold", max_width=first)
        for column in columns:
            heading = Text("\n".join(_heading(self._shown.head[column])))
            table.add_column(heading, justify="right", no_wrap=True)
        for row in self._shown.rows:
            table.add_row(*(Text(row[n].text, style="bold" if row[n].bold else "") for n in (0, *columns)))
        return table


def _heading(text: str) -> list[str]:
    """A heading in lines: its first word, the others, and its unit.

    >>> _heading("Task-IL in the paper (%)"), _heading("seeds")
    (['Task-IL', 'in the paper', '(%)'], ['seeds'])
    """
    name, bracket, unit = text.rpartition(" (")
    return [*name.split(" ", 1), f"({unit}"] if bracket else text.split(" ", 1)


def _markdown(table: Table) -> str:
    def written(cell: Entry) -> str:
        text = markdown_text(cell.text)
        return f"**{text}**" if cell.bold else text

    cells = [[written(Entry(name)) for name in table.head], *([written(cell) for cell in row] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))] for row in cells
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (lines[0], rule, *lines[1:]))


def _latex(table: Table) -> str:
    def written(cell: Entry) -> str:
        text = "".join(_LATEX.get(char, char) for char in _line(cell.text))
        return f"\\textbf{{{text}}}" if cell.bold else text

    head = [written(Entry(name)) for name in table.head]
    rows = [[written(cell) for cell in row] for row in table.rows]
    first, *body = (f"{' & '.join(row)} \\\\" for row in (head, *rows))
    lines = "\n".join(body)
    caption = written(Entry(f"{table.title}. {table.caption}"))
    return rf"""\begin{{table}}
\caption{{{caption}}}
\begin{{tabular}}{{l{"r" * (len(head) - 1)}}}
\toprule
{first}
\midrule
{lines}
\bottomrule
\end{{tabular}}
\end{{table}}
"""
