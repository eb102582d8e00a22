"""A function in a process that others can be forked from: one without threads, with everything imported."""

from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from tests.forks import forks


def forked(function: Callable[..., Any], *given: Any) -> Any:
    """What a function of a module returns there."""
    receiver, sender = forks.Pipe(duplex=False)
    process = forks.Process(target=_answer, args=(sender, function, given))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    finally:
        process.join()


def _answer(sender: Connection, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    sender.send(function(*given))
