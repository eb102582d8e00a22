"""Words that the command line cannot make sense of, each told in one line with what to do instead."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from tempfile import NamedTemporaryFile
from traceback import format_exception
from typing import TextIO

from cyclopts import App, CycloptsError, MissingArgumentError, UnknownCommandError, UnusedCliTokensError
from rich.console import Console

PACKAGE = Path(__file__).parents[1]


def message(error: CycloptsError, app: App) -> str:
    """What is wrong, and where the right words are found."""
    command = " ".join(["esacl", *(error.command_chain or ())])
    if isinstance(error, UnknownCommandError):
        return _unknown_command(str((error.unused_tokens or [""])[0]), command, app, tuple(error.command_chain or ()))
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        what = (error.argument.parameter.help or "").replace("`", "")
        return f"{command} needs {error.keyword or error.argument.name}: {what}. `{command} --help` tells more."
    if isinstance(error, UnusedCliTokensError):
        words = " ".join(map(str, error.unused_tokens or ()))
        return f"{command} has no place for {words!r}. `{command} --help` lists what it takes; options begin with --."
    return f"{' '.join(str(error).split())} `{command} --help` lists what is allowed."


def _unknown_command(word: str, command: str, app: App, chain: tuple[str, ...]) -> str:
    """The nearest command, and all of them."""
    place = app
    for name in chain:
        place = place[name]
    names = sorted(name for name in place if not name.startswith("-"))
    near = get_close_matches(word.lower(), names, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    return f'Unknown command "{word}".{hint} Allowed: {", ".join(names)}. `{command} --help` explains them.'


def saved_traceback(error: Exception) -> str:
    """What was not foreseen in one line, with the file that holds the rest of it."""
    what = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ").rstrip(".")
    try:
        with NamedTemporaryFile("w", prefix="esacl-", suffix=".txt", delete=False, errors="replace") as file:
            file.writelines(format_exception(error))
    except OSError:
        return f"esacl failed: {what}."
    return f"esacl failed: {what}. Please report it with the traceback in {file.name!r}."


@contextmanager
def warnings_as_notes(console: Console) -> Iterator[None]:
    """Warnings of this library as one line each, without the line of code that gave them."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, UserWarning) and Path(filename).is_relative_to(PACKAGE):
                console.print(f"note: {message}", style="yellow", markup=False, highlight=False, soft_wrap=True)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        warnings.filterwarnings("ignore", module=r"PIL\.")  # of damaged images, which are told one by one
        yield
