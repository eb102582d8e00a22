"""Where a grid computes: worker processes of this machine, or a dask cluster that is already there."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from esacl.allocator import ENVIRONMENT
from esacl.errors import ConfigError

if TYPE_CHECKING:
    from distributed import Client

PATIENCE = 30
"""Seconds to wait for a scheduler."""

SETTINGS = {
    "distributed.worker.profile.enabled": False,  # stacks sampled a hundred times a second for a page nobody opens
    **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in ENVIRONMENT.items()},
}
"""Of workers of this machine. Dask would have them give all freed memory back at once; who trains needs it again."""


def check_installed() -> None:
    """Say what to install where dask is missing."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise ConfigError(
            "grids run on dask.distributed, which is not installed here. Install it with "
            "`pip install 'esacl[sweep]'`, or train runs one by one with `esacl run`."
        ) from None


@contextmanager
def connect(jobs: int, scheduler: str | None = None) -> Iterator["Client"]:
    """A client of the cluster at an address, else of `jobs` processes of one thread each on this machine."""
    check_installed()
    with _quiet():
        if scheduler is not None:
            with _existing(scheduler) as client:
                yield client
        else:
            from dask import config
            from distributed import Client, LocalCluster

            local: dict[str, Any] = {
                "n_workers": jobs,
                "threads_per_worker": 1,
                "processes": True,
                "dashboard_address": ":0",
                "memory_limit": 0,  # a run takes what it takes: killing it at a share of the memory helps nobody
                "silence_logs": logging.CRITICAL,
                "preload": ["esacl.grid.deaf"],
            }
            with _environment(), config.set(SETTINGS), LocalCluster(**local) as cluster, Client(cluster) as client:
                yield client


def _existing(scheduler: str) -> "Client":
    """The cluster at an address, or the one that a scheduler file tells of."""
    from distributed import Client

    try:
        if scheduler.endswith(".json"):
            return Client(scheduler_file=scheduler, timeout=PATIENCE, set_as_default=False)
        return Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"no dask scheduler answers at --scheduler {scheduler!r} ({error or 'no answer'}). Give its address as "
            f"`dask scheduler` prints it, such as tcp://host:8786, or its scheduler file (.json)."
        ) from None


@contextmanager
def _environment() -> Iterator[None]:
    """What dask sets for workers, it sets in this process too: for no longer than they are there."""
    before = dict(os.environ)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """What dask logs of workers that come and go is told in our words."""
    logger = logging.getLogger("distributed")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
