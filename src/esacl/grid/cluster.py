"""The dask cluster that a grid computes on where there is one already."""

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esacl.errors import ConfigError
from esacl.grid.signals import held_back

if TYPE_CHECKING:
    from distributed import Client

ENCRYPTED = ("tls", "wss")

PATIENCE = 30
"""Seconds to wait for a scheduler."""


def check_cluster(scheduler: str, insecure: bool) -> None:
    """Say what to install where dask is missing; refuse a cluster that others could read or command.

    The latter unless the user takes that risk.
    """
    if find_spec("distributed") is None:
        raise ConfigError(
            f"--scheduler {scheduler!r} needs dask.distributed, which is not installed here. Install it with "
            f"`pip install 'esacl[sweep]'`, or leave --scheduler out to train on this machine."
        )
    address = _address(scheduler)
    scheme, _, place = address.rpartition("://")
    if not insecure and scheme not in ENCRYPTED and not _is_local(scheme, place):
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
def connect(scheduler: str, insecure: bool = False) -> Iterator["Client"]:
    """A client of the cluster at an address, or of the one that a scheduler file tells of."""
    check_cluster(scheduler, insecure)
    from distributed import Client

    where: dict[str, Any] = {"scheduler_file" if scheduler.endswith(".json") else "address": scheduler}
    with ExitStack() as held:
        held.enter_context(_quiet())
        try:
            with held_back():
                client = held.enter_context(Client(**where, timeout=PATIENCE, set_as_default=False))
        except (OSError, ValueError, TypeError) as error:  # a TypeError: tls:// without certificates
            raise ConfigError(
                f"no dask scheduler answers at --scheduler {scheduler!r} ({error or 'no answer'}). Give its address as "
                f"`dask scheduler` prints it, such as tls://host:8786, or its scheduler file (.json). For "
                f"tls:// dask's settings name the certificates (docs/grids.md)."
            ) from None
        yield client


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
