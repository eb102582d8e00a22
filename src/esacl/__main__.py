"""The entry of the command line, also as `python -m esacl`."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


def main() -> None:
    """Import and run the command line; an interrupt is answered from the first moment on."""
    try:
        with _leaving_at_once():
            from esacl.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        raise SystemExit(130) from None


@contextmanager
def _leaving_at_once() -> Iterator[None]:
    """Let an interrupt end the process while libraries are imported: some take it for an error of their own."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.getsignal(number) for number in usual}
    if current_thread() is not main_thread() or before != usual:
        yield  # somebody else has decided what an interrupt does
        return
    for number in usual:
        signal.signal(number, _leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(*_: Any) -> None:
    os.write(2, b"interrupted.\n")
    os._exit(130)  # nothing was begun, so there is nothing to put in order


if __name__ == "__main__":
    main()
