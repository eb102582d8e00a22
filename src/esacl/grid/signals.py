"""Signals that mean: stop. They are for the command; the processes that it started ignore them, and it ends those."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from threading import current_thread, main_thread
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def terminable() -> Iterator[None]:
    """Take the signal that batch systems send for what it means: stop in good order."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def held_back() -> Iterator[None]:
    """Keep an interrupt to the end: what is half built cannot be closed in good order, and may swallow it.

    Processes that are started meanwhile have it blocked: who started them closes them.
    """
    if current_thread() is not main_thread():
        yield
        return
    heard: list[int] = []

    def keep(number: int, frame: Any) -> None:
        heard.append(number)

    before = [signal.signal(number, keep) for number in STOPS]
    try:
        with _blocked():
            yield
    except Exception:
        if not heard:  # what an interrupt has broken is no error of its own
            raise
    finally:
        for number, handler in zip(STOPS, before):
            signal.signal(number, handler)
    if heard:
        raise KeyboardInterrupt


@contextmanager
def _blocked() -> Iterator[None]:
    """Block the interrupt, as processes inherit that; here it is answered at the end."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # before: it lifts the block of the thread that starts it
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
