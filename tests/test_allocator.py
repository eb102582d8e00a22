import os
import platform
import subprocess
import sys

import pytest

from esacl.allocator import keep_freed_memory

FAULTS = """
import resource, sys
import torch
from esacl.config import MachineConfig
from esacl.machine import machine
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def step():
    blocks = [torch.zeros(2_000_000) for _ in range(12)]
    del blocks
def count():
    step(), step()
    before = faults()
    for _ in range(5):
        step()
    return faults() - before
plain = count()
with machine(MachineConfig(device="cpu", threads=1)):
    print(plain, count())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to keep memory")
def test_a_run_does_not_ask_the_system_for_the_same_memory_at_every_step():
    given = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "LD_PRELOAD"))}
    done = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True, env=given)
    plain, kept = map(int, done.stdout.split())
    assert kept < plain / 10


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD"])
def test_who_has_settings_of_the_allocator_keeps_them(name):
    assert not keep_freed_memory({name: "1"})
