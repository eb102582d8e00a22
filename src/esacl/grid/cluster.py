"""Where a grid computes: worker processes of this machine, or a dask cluster that is already there."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esacl.allocator import ENVIRONMENT
from esacl.errors import ConfigError

if TYPE_CHECKING:
    from distributed import Client

ENCRYPTED = ("tls", "wss")

PATIENCE = 30
"""Seconds to wait for a scheduler."""

SETTINGS = {
    "distributed.worker.profile.enabled": False,  # stacks sampled a hundred times a second for a page nobody opens
    "distributed.scheduler.http.routes": [],  # no pages: what listens for them answers nothing
    "distributed.worker.http.routes": [],
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


def check_safe(scheduler: str | None, insecure: bool) -> None:
    """Refuse a cluster that others could read or command, unless the user takes that risk."""
    if insecure:
        return
    if scheduler is None:
        if find_spec("cryptography") is None:
            raise ConfigError(
                "a grid encrypts what its processes send each other, for which the package 'cryptography' is missing "
                "here. Install it with `pip install 'esacl[sweep]'`, or add --insecure on a machine whose users you "
                "all trust."
            )
        return
    address = _address(scheduler)
    scheme, _, place = address.rpartition("://")
    if scheme not in ENCRYPTED and not _is_local(scheme, place):
        raise ConfigError(
            f"--scheduler {scheduler!r} is not encrypted ({address}): whoever can reach it can run code on every "
            f"worker. Use tls:// (docs/grids.md says how), or add --insecure in a network that you trust."
        )


def _address(scheduler: str) -> str:
    """The address itself, or the one in a scheduler file."""
    if not scheduler.endswith(".json"):
        return scheduler
    try:
        return str(json.loads(Path(scheduler).read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(
            f"--scheduler {scheduler!r} is not a scheduler file ({error}). Give the one of `dask scheduler "
            f"--scheduler-file`, or an address."
        ) from None


def _is_local(scheme: str, place: str) -> bool:
    """Whether an address stays on this machine."""
    host = place.rpartition(":")[0].strip("[]") or place
    try:
        return scheme == "inproc" or host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@contextmanager
def connect(jobs: int, scheduler: str | None = None, insecure: bool = False) -> Iterator["Client"]:
    """A client of the cluster at an address, else of `jobs` processes of one thread each on this machine."""
    check_installed()
    check_safe(scheduler, insecure)
    with _quiet():
        if scheduler is not None:
            with _existing(scheduler) as client:
                yield client
        else:
            from dask import config
            from distributed import Client, LocalCluster
            from distributed.security import Security

            secrets = {} if insecure else {"security": Security.temporary(), "protocol": "tls://"}
            local: dict[str, Any] = {
                "n_workers": jobs,
                "threads_per_worker": 1,
                "processes": True,
                "host": "127.0.0.1",
                "dashboard_address": "127.0.0.1:0",
                "scheduler_kwargs": {"dashboard": False},
                "memory_limit": 0,  # a run takes what it takes: killing it at a share of the memory helps nobody
                "silence_logs": logging.CRITICAL,
                "preload": ["esacl.grid.deaf"],
            }
            with (
                _environment(),
                config.set(SETTINGS),
                LocalCluster(**local, **secrets) as cluster,
                Client(cluster) as client,
            ):
                yield client


def _existing(scheduler: str) -> "Client":
    """The cluster at an address, or the one that a scheduler file tells of."""
    from distributed import Client

    try:
        if scheduler.endswith(".json"):
            return Client(scheduler_file=scheduler, timeout=PATIENCE, set_as_default=False)
        return Client(scheduler, timeout=PATIENCE, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:  # a TypeError: tls:// without certificates
        raise ConfigError(
            f"no dask scheduler answers at --scheduler {scheduler!r} ({error or 'no answer'}). Give its address as "
            f"`dask scheduler` prints it, such as tls://host:8786, or its scheduler file (.json). For "
            f"tls:// dask's settings name the certificates (docs/grids.md)."
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
