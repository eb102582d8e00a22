"""The machine a run computes on: device, threads, determinism."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache, partial
from re import fullmatch

import torch
from torch import distributed

from esacl.allocator import keep_freed_memory
from esacl.budget import parse_budget
from esacl.config import Config, MachineConfig
from esacl.errors import ConfigError, unknown_name
from esacl.options import parse

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
            "{given} is not available here.",
            "machine.device",
            name,
            allowed=", ".join(["auto", *present]),
            remedy="Use {machine.device:auto}, or for a run that was started elsewhere set machine.device in its "
            "config.toml.",
        )
    if name == "cpu" and config.precision == "bf16":
        _probe_bf16()
    return replace(config, device=name, threads=config.threads or _usual_threads(config.processes, small))


def _usual_threads(processes: int, small: bool) -> int:
    """How many each process has where nobody asked for a number."""
    return 1 if small else max(1, torch.get_num_threads() // processes)


def divided(config: MachineConfig, processes: int, small: bool = False) -> MachineConfig:
    """The same machine for another number of processes: they share the threads that there were.

    Where these are as many as nobody asked for, they will be so again: a rest that was lost in dividing comes back.
    """
    if processes == config.processes:
        return config
    threads = config.threads
    if threads is not None:
        usual = threads == _usual_threads(config.processes, small)
        threads = None if usual else max(1, threads * config.processes // max(1, processes))
    return parse(MachineConfig, {**asdict(config), "processes": processes, "threads": threads}, "machine")


def check_processes(config: Config) -> None:
    """Refuse more processes than there is work or hardware for; the device is resolved."""
    count, device = config.machine.processes, config.machine.device
    if count == 1:
        return
    refused = partial(ConfigError, setting="machine.processes", value=count)
    if count > config.train.batch_size:
        raise refused(
            "{given} is more than {train.batch_size:{batch}}, and each process needs an example of every batch.",
            remedy="Use {batch} processes or fewer, or a larger {train.batch_size}.",
            batch=config.train.batch_size,
        )
    if config.train.budget is not None and parse_budget(config.train.budget).unit == "s":
        raise refused(
            "{given} would each stop at another step under {train.budget}: their clocks differ.",
            remedy="Use {machine.processes:1}, or a budget in flops.",
        )
    if not distributed.is_available():
        raise refused(
            "{given} needs torch.distributed, which this torch lacks.",
            remedy="Use {machine.processes:1}.",
        )
    if device not in ("cpu", "cuda"):
        raise refused(
            "{given} on {machine.device:{device}} is not possible: processes share the cpu, or have a GPU each.",
            allowed="cpu, cuda",
            remedy="Use {machine.device:cpu}, or {machine.processes:1}.",
            device=device,
        )
    here = int(os.environ.get("LOCAL_WORLD_SIZE", count))  # torchrun's, where there are several machines
    if device == "cuda" and here > torch.cuda.device_count():
        raise refused(
            "{given} needs a GPU for each process of a machine, but there are {gpus}.",
            remedy="Use fewer processes, or {machine.device:cpu}.",
            gpus=torch.cuda.device_count(),
        )


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
            "{given} kills the process on this processor.",
            "machine.precision",
            "bf16",
            remedy="Use {machine.precision:32}, or forbid the instructions that fail by the environment variable "
            "ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16.",
        )


def _present(name: str) -> bool:
    if name == "cuda":
        return torch.cuda.is_available()
    if name == "mps":
        return torch.backends.mps.is_available()
    return True
