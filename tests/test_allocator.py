import os
import platform
import subprocess
import sys

import pytest

from esacl.allocator import keep_freed_memory

COUNT = """
def count(before):
    import resource, torch
    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    def step():
        blocks = [torch.zeros(2_000_000) for _ in range(12)]
        del blocks
    for _ in range(before):
        step()
    counted = faults()
    for _ in range(5):
        step()
    return faults() - counted
"""
OF_A_RUN = """
from esacl.config import MachineConfig
from esacl.machine import machine
plain = count(2)
with machine(MachineConfig(device="cpu", threads=1)):
    print(plain, count(2))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to keep memory")
def test_who_trains_does_not_ask_the_system_for_the_same_memory_at_every_step():
    own = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
    given = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    words = [sys.executable, "-c", COUNT + OF_A_RUN]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=given)
    plain, kept = map(int, done.stdout.split())
    assert kept < plain / 10


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD"])
def test_who_has_settings_of_the_allocator_keeps_them(name):
    assert not keep_freed_memory({name: "1"})
