"""The machine a run computes on: device, threads, determinism."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from esacl.config import MachineConfig
from esacl.errors import ConfigError, unknown_name

DEVICES = ("cpu", "cuda", "mps")


def resolve_machine(config: MachineConfig, small: bool = False) -> MachineConfig:
    """Device and threads that are meant; a small network has too little work for more than one thread.

    Threads are recorded, because they decide the order of summation.
    """
    present = [name for name in DEVICES if _present(name)]
    name = config.device
    if name == "auto":
        name = "cuda" if "cuda" in present else "mps" if "mps" in present else "cpu"
    if name.split(":")[0] not in DEVICES:
        raise unknown_name("device", name, ["auto", *DEVICES])
    if name.split(":")[0] not in present:
        raise ConfigError(f"device {name!r} is not available here. Available: {', '.join(present)}. Use --device auto.")
    return replace(config, device=name, threads=config.threads or (1 if small else torch.get_num_threads()))


@contextmanager
def machine(config: MachineConfig) -> Iterator[torch.device]:
    """Set threads and determinism as the run asks, and restore them afterwards."""
    threads = torch.get_num_threads()
    deterministic = torch.backends.cudnn.deterministic
    torch.set_num_threads(config.threads or threads)
    torch.backends.cudnn.deterministic = True
    try:
        yield torch.device(config.device)
    finally:
        torch.set_num_threads(threads)
        torch.backends.cudnn.deterministic = deterministic


def _present(name: str) -> bool:
    if name == "cuda":
        return torch.cuda.is_available()
    if name == "mps":
        return torch.backends.mps.is_available()
    return True
