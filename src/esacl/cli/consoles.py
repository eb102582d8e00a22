"""Where the command line writes: results to standard output, news to standard error."""

import os
import sys
from typing import NoReturn

from rich.console import Console


class Pipe(Console):
    """A console that ends quietly where nobody reads any more, as in `esacl methods | head -1`."""

    def on_broken_pipe(self) -> NoReturn:
        """End without a word, with the code that a shell expects."""
        leave_quietly()


def leave_quietly() -> NoReturn:
    """End a command whose reader has gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in buffers has somewhere to go
    raise SystemExit(141) from None


TEXT = Pipe()
STATUS = Console(stderr=True)
