"""What is done with a damaged input: a command, or a call of the library."""

import sys
import warnings
from collections.abc import Callable


def command(*words: object) -> Callable[[], object]:
    """The command line with these words."""

    def action() -> None:
        from esacl.cli import main

        main([str(word) for word in words])

    return action


def call(function: Callable[[], object]) -> Callable[[], object]:
    """A call of the library; its own errors, and those that scikit-learn asks for, are refusals in one line."""

    def action() -> None:
        from esacl import EsaclError

        warnings.simplefilter("ignore")  # in Python they are for the caller to show
        try:
            function()
        except EsaclError as error:
            _refuse(error)
        except (ValueError, TypeError) as error:
            if "sklearn" not in _raised_in(error):
                raise
            _refuse(error)

    return action


def _refuse(error: Exception) -> None:
    print(f"error: {str(error).splitlines()[0] if str(error) else ''}", file=sys.stderr)
    raise SystemExit(2) from None


def _raised_in(error: Exception) -> str:
    """The file that esacl called last: what goes on below is the business of that library."""
    step, found = error.__traceback__, ""
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        below, step = step.tb_next, step.tb_next
        if "/esacl/" in file and below is not None:
            found = below.tb_frame.f_code.co_filename
    return found
