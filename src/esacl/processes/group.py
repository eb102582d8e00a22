"""The group that the processes of a run form: on one machine by themselves, or as torchrun says."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from esacl.errors import ConfigError
from esacl.nets.data_parallel import Unreachable

PATIENCE = timedelta(minutes=30)
"""How long a process waits for an answer of another before it gives up."""

TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
INTERFACE = "GLOO_SOCKET_IFNAME"


@dataclass(frozen=True, slots=True)
class Place:
    """One of the processes that torchrun started."""

    rank: int
    size: int
    local: int  # number of this process on its machine, and so of its GPU


def torchrun_rank() -> Place | None:
    """Which of torchrun's processes this is; None where nobody but us starts processes."""
    if not all(os.environ.get(name) for name in TORCHRUN):
        return None
    try:
        rank, size, local = (int(os.environ.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    except ValueError:
        raise ConfigError(
            "the environment has RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them, but they are "
            "not numbers. Start the run with torchrun, or unset them."
        ) from None
    return Place(rank, size, local)


def rendezvous(folder: Path, size: int) -> Any:
    """Where processes of one machine find each other: a file, so that no port is open to others."""
    return distributed.FileStore(str(folder / "store"), size)  # type: ignore[attr-defined]


@contextmanager
def joined(rank: int, size: int, local: int, store: Any) -> Iterator[None]:
    """Be a member of the group: by a store on this machine, or without one by torchrun's address."""
    gpus = torch.cuda.is_available() and distributed.is_nccl_available()
    if gpus:
        torch.cuda.set_device(local % torch.cuda.device_count())
    backend = "cpu:gloo,cuda:nccl" if gpus else "gloo"
    try:
        with nullcontext() if store is None else _loopback():
            distributed.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
    except RuntimeError as error:
        raise Unreachable(str(error)) from None
    try:
        yield
    finally:
        distributed.destroy_process_group()


@contextmanager
def _loopback() -> Iterator[None]:
    """Talk over the interface that no other machine can reach, where one is known and no other was chosen."""
    names = (
        [name for _, name in socket.if_nameindex() if name.startswith("lo")] if hasattr(socket, "if_nameindex") else []
    )
    if INTERFACE in os.environ or not names:
        yield
        return
    os.environ[INTERFACE] = names[0]
    try:
        yield
    finally:
        del os.environ[INTERFACE]
