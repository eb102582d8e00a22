"""Where the command line writes: results to standard output, news to standard error."""

import os
import sys
from io import TextIOWrapper
from typing import Any, NoReturn
from unicodedata import category

from rich.console import Console

NARROWEST = 20
"""Columns that are written to however few a terminal has: libraries break words for ever in no room at all."""


class Pipe(Console):
    """A console that ends quietly where nobody reads any more, as in `esacl methods | head -1`."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, with what a name may hide or do to a terminal made visible."""
        super().print(*(visible(each) if isinstance(each, str) else each for each in objects), **options)

    def on_broken_pipe(self) -> NoReturn:
        """End without a word, with the code that a shell expects."""
        leave_quietly()


def visible(text: str) -> str:
    """Text whose control characters are replaced: they could move the cursor, set colours or turn the reading around.

    >>> visible("two\\nlines, one \\x1b[31mred")
    'two\\nlines, one �[31mred'
    """
    hidden = {char for char in set(text) - {"\n", "\t"} if category(char) in ("Cc", "Cf", "Cs")}
    return "".join("\N{REPLACEMENT CHARACTER}" if char in hidden else char for char in text) if hidden else text


def leave_quietly() -> NoReturn:
    """End a command whose reader has gone."""
    drop_output()
    raise SystemExit(141) from None


def drop_output() -> None:
    """Let output that cannot be written go nowhere, so that Python does not try again, and fail again, when it ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def print_anything() -> None:
    """Let a terminal show what it has no room for, and as question marks what it has no letters for: Greek on ASCII."""
    for console in (TEXT, STATUS):
        if console.width < NARROWEST:
            console.width = NARROWEST
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


TEXT = Pipe()
STATUS = Pipe(stderr=True)
