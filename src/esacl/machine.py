"""The machine a run computes on: device, threads, determinism."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from re import fullmatch

import torch

from esacl.allocator import keep_freed_memory
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
    if not fullmatch(r"cpu|mps|cuda(:\d+)?", name):
        raise unknown_name("device", name, ["auto", "cuda:NUMBER", *DEVICES])
    if name.split(":")[0] not in present:
        raise ConfigError(
            f"device {name!r} is not available here. Available: {', '.join(present)}. Use --device auto, or for a run "
            f"that was started elsewhere set machine.device in its config.toml."
        )
    if name == "cpu" and config.precision == "bf16":
        _probe_bf16()
    return replace(config, device=name, threads=config.threads or (1 if small else torch.get_num_threads()))


@contextmanager
def machine(config: MachineConfig) -> Iterator[torch.device]:
    """Set threads and determinism as the run asks, and restore them afterwards; freed memory stays with the process."""
    if config.device == "cpu":
        keep_freed_memory()
    threads = torch.get_num_threads()
    cudnn = torch.backends.cudnn
    before = cudnn.deterministic, cudnn.benchmark
    torch.set_num_threads(config.threads or threads)
    cudnn.deterministic, cudnn.benchmark = True, False
    try:
        yield torch.device(config.device)
    finally:
        torch.set_num_threads(threads)
        cudnn.deterministic, cudnn.benchmark = before


@cache
def _probe_bf16() -> None:
    """Refuse bf16 where it kills the process: some virtual machines announce instructions that they do not have."""
    code = "import torch\nwith torch.autocast('cpu', torch.bfloat16): torch.nn.Linear(64, 64)(torch.ones(64, 64))"
    if subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode < 0:
        raise ConfigError(
            "precision 'bf16' kills the process on this processor. Use --precision 32, or forbid the instructions "
            "that fail: ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 esacl run ..."
        )


def _present(name: str) -> bool:
    if name == "cuda":
        return torch.cuda.is_available()
    if name == "mps":
        return torch.backends.mps.is_available()
    return True
