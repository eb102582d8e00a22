"""Actions that do harm, to show that the oracle notices."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.faults import child, engine
from tests.faults.case import Case, Kind, Place


def refuse(text: str = "error: it cannot be read.", code: int = 2) -> None:
    print(text, file=sys.stderr)
    raise SystemExit(code)


def swallowed(function: Callable[[], object]) -> None:
    """As by code that hides what the system says, and then reports success."""
    with suppress(OSError):
        function()


def through_a_link() -> None:
    os.symlink("../outside", "link")
    folder = os.open("link", os.O_RDONLY | os.O_DIRECTORY)
    swallowed(lambda: os.open("kept", os.O_WRONLY | os.O_TRUNC, dir_fd=folder))


def truncate_below_python() -> None:
    ctypes.CDLL(None).truncate(b"../outside/kept", 0)


def eat_memory() -> None:
    held = bytearray(2 * child.MEMORY_GROWTH // 3)
    held[::4096] = b"x" * len(held[::4096])
    more = bytearray(2 * child.MEMORY_GROWTH // 3)
    more[::4096] = b"x" * len(more[::4096])


def wait() -> None:
    while True:
        with suppress(Exception):
            time.sleep(60)


HARM: dict[str, tuple[Callable[[], object], str]] = {
    "raises": (lambda: {}["x"], "traceback"),
    "saves a traceback": (lambda: refuse("error: KeyError: 'x'. The traceback is in the file x."), "traceback"),
    "writes outside": (lambda: swallowed(lambda: open("../outside/new", "w")), "forbidden: open"),  # noqa: SIM115
    "writes outside through a link": (through_a_link, "forbidden: open"),
    "removes outside": (lambda: swallowed(lambda: os.remove("../outside/kept")), "forbidden: os.remove"),
    "renames to outside": (lambda: swallowed(lambda: os.rename("canary.py", "../outside/kept")), "os.rename"),
    "changes outside below Python": (truncate_below_python, "something outside"),
    "starts a process": (lambda: swallowed(lambda: subprocess.run(["true"], check=False)), "subprocess.Popen"),
    "connects": (lambda: swallowed(lambda: socket.create_connection(("127.0.0.1", 9))), "forbidden: socket"),
    "never ends": (lambda: exec("while True: pass"), "ended by SIG"),
    "waits for ever": (wait, "ended by SIGALRM"),
    "eats memory": (eat_memory, "of memory"),
    "crashes": (lambda: os.kill(os.getpid(), signal.SIGSEGV), "SIGSEGV"),
    "ends without a word": (lambda: sys.exit(2), "0 lines"),
    "ends with two errors": (lambda: refuse("error: one.\nerror: two."), "2 lines"),
    "says something after the error": (lambda: refuse("error: one.\nand more"), "1 lines"),
    "gives an empty message": (lambda: refuse("error: "), "empty message"),
    "gives an endless message": (lambda: refuse("error: " + "x" * 10**5), " characters"),
    "colours the terminal": (lambda: refuse("error: \x1b[31m."), "control characters"),
    "shows a warning of a library": (lambda: warnings.warn_explicit("w", UserWarning, "x.py", 3), "a warning"),
    "answers with no number": (lambda: print("NaN"), "not JSON"),
    "answers for a damaged file": (lambda: print("2"), "another answer"),
    "runs code that a file names": (lambda: __import__("canary"), "code was started"),
    "leaves by another code": (lambda: refuse(code=7), "exit code 7"),
}  # fmt: skip
HARMLESS: dict[str, Callable[[], object]] = {
    "refuses": refuse,
    "answers": lambda: print("1"),
    "writes inside": lambda: print(Path("new").write_text("x")),
    "writes where it was told": lambda: Path("../told/new").write_text("x"),
    "uses a temporary folder": lambda: print(len([tempfile.mkdtemp()])),
}


def attempt_all() -> dict[str, tuple[str, ...]]:
    """What the oracle finds in each of them."""
    child.CPU_SECONDS, child.WALL_SECONDS, child.MEMORY_GROWTH = 1, 3, 1 << 26
    found = {}
    with tempfile.TemporaryDirectory() as root:
        lab = engine.Laboratory(Path(root))
        lab.specimens.mkdir()
        (lab.specimens / "canary.py").write_text("open('ran', 'w').close()\n")
        for name, action in {**{name: action for name, (action, _) in HARM.items()}, **HARMLESS}.items():

            def prepare(rng: Random, place: Place, action: Callable[[], object] = action) -> Case:
                return Case(action, (), json=True, same_as="1\n", named=("../told", "\ud800"))

            found[name] = lab.attempt(Kind(name, prepare), 0).problems
    return found
