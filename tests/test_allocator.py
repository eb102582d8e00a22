import os
import platform
import subprocess
import sys

import dask
import pytest

from esacl.allocator import ENVIRONMENT, keep_freed_memory
from esacl.grid.cluster import connect

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
OF_A_WORKER = """
import os
from distributed import LocalCluster, Client
from esacl.grid.cluster import connect
given = dict(os.environ)
with connect(1) as client:
    kept = client.submit(count, 4).result()
assert dict(os.environ) == given
with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster) as client:
    print(client.submit(count, 4).result(), kept)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to keep memory")
@pytest.mark.parametrize("which", [OF_A_RUN, OF_A_WORKER], ids=["run", "worker of a grid"])
def test_who_trains_does_not_ask_the_system_for_the_same_memory_at_every_step(which):
    own = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
    given = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    words = [sys.executable, "-c", COUNT + which]
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=given)
    plain, kept = map(int, done.stdout.split())
    assert kept < plain / 10


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES", "LD_PRELOAD"])
def test_who_has_settings_of_the_allocator_keeps_them(name):
    assert not keep_freed_memory({name: "1"})


def test_a_worker_keeps_settings_of_the_allocator_that_its_user_has(monkeypatch):
    monkeypatch.setenv("MALLOC_ARENA_MAX", "3")
    with connect(1) as client:
        assert client.submit(os.environ.get, "MALLOC_ARENA_MAX").result() == "3"
        assert client.submit(os.environ.get, "MALLOC_MMAP_THRESHOLD_").result() == ENVIRONMENT["MALLOC_MMAP_THRESHOLD_"]
        assert client.submit(dask.config.get, "distributed.worker.profile.enabled").result() is False
