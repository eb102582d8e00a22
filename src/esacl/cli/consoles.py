"""Where the command line writes: results to standard output, news to standard error."""

import os
import sys
from io import TextIOWrapper
from typing import NoReturn

from rich.console import Console


class Pipe(Console):
    """A console that ends quietly where nobody reads any more, as in `esacl methods | head -1`."""

    def on_broken_pipe(self) -> NoReturn:
        """End without a word, with the code that a shell expects."""
        leave_quietly()


def leave_quietly() -> NoReturn:
    """End a command whose reader has gone."""
    for stream in (sys.stdout, sys.stderr):  # what is left in buffers has somewhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise SystemExit(141) from None


def print_anything() -> None:
    """Let a terminal show what it has no letters for as question marks: Greek on ASCII, names that are not UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


TEXT = Pipe()
STATUS = Pipe(stderr=True)
