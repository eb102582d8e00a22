import subprocess

import pytest
import torch

from esacl import machine as machine_module
from esacl import machine as module
from esacl.config import MachineConfig
from esacl.errors import ConfigError
from esacl.machine import machine, resolve_machine


@pytest.fixture
def only_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_present", lambda name: name == "cpu")


def test_auto_takes_the_best_device_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for present, chosen in ((("cpu", "cuda", "mps"), "cuda"), (("cpu", "mps"), "mps"), (("cpu",), "cpu")):
        monkeypatch.setattr(module, "_present", present.__contains__)
        assert resolve_machine(MachineConfig("auto")).device == chosen


@pytest.mark.usefixtures("only_cpu")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps"])
def test_a_device_that_is_absent_is_refused_with_those_that_are_there(device: str) -> None:
    with pytest.raises(ConfigError) as error:
        resolve_machine(MachineConfig(device))
    assert f"machine.device = {device!r} is not available here. Allowed: auto, cpu. Use machine.device = 'auto'" in str(
        error.value
    )


def test_an_unknown_device_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown device 'cud'\. Did you mean 'cuda'\? Allowed: auto, cpu, cuda, cuda:NUMBER, mps"
    ):
        resolve_machine(MachineConfig("cud"))


def test_the_number_of_threads_is_recorded_and_resolving_twice_changes_nothing() -> None:
    resolved = resolve_machine(MachineConfig("cpu"))
    assert resolved.threads == torch.get_num_threads()
    assert resolve_machine(resolved) == resolved
    assert resolve_machine(MachineConfig("cpu", threads=7)).threads == 7


def test_threads_and_determinism_hold_inside_and_are_restored_even_after_an_error() -> None:
    before = torch.get_num_threads(), torch.backends.cudnn.deterministic

    def fail() -> None:
        with machine(MachineConfig("cpu", threads=before[0] + 1)) as device:
            assert device == torch.device("cpu")
            assert torch.get_num_threads() == before[0] + 1
            assert torch.backends.cudnn.deterministic
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (torch.get_num_threads(), torch.backends.cudnn.deterministic) == before


@pytest.mark.parametrize("device", ["cpu:x", "cpu:7", "cuda:", "cuda:x"])
def test_a_malformed_device_is_refused(device: str) -> None:
    with pytest.raises(ConfigError, match="unknown device"):
        resolve_machine(MachineConfig(device))


def test_bf16_is_refused_where_it_kills_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe runs in a process of its own, so that only the probe dies."""
    probes = []

    def died(command: list[str], **more: object) -> subprocess.CompletedProcess[bytes]:
        probes.append(command)
        return subprocess.CompletedProcess(command, -4)

    monkeypatch.setattr("subprocess.run", died)
    machine_module._probe_bf16.cache_clear()
    with pytest.raises(ConfigError, match="ONEDNN_MAX_CPU_ISA"):
        resolve_machine(MachineConfig("cpu", "bf16"))
    resolve_machine(MachineConfig("cpu", "32"))
    assert len(probes) == 1
