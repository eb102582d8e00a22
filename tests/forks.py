"""Processes for tests that start in milliseconds: everything was imported once, by the server that they fork from."""

import multiprocessing
from multiprocessing import forkserver

forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(["esacl.cli", "sklearn.datasets", "torch._dynamo", "matplotlib.backends.backend_svg"])


def start_server() -> None:
    """Now, for whoever forks from it without this module."""
    forkserver.ensure_running()
