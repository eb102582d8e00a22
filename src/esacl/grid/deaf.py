"""Loaded by workers of this machine: Ctrl-C is for the client, which ends them in good order."""

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Leave the interrupt of the terminal to the client."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
