"""`--processes`: the results of one process, a run that ends as a whole and goes on by any number of processes."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

import esacl
from esacl.artifacts import RunDirectory
from esacl.cli import app
from esacl.errors import ConfigError, RunError
from esacl.grid.recipe import read_recipe
from esacl.machine import divided, resolve_machine
from esacl.processes import team as starting
from esacl.runner import entry, reopen, start
from esacl.training.events import EpochDone
from tests.builders import stream
from tests.forks import forks

PAGE = Path(__file__).parents[2] / "docs" / "distributed.md"
SMALL = {"epochs": 2, "limit_per_class": 20, "tasks": 2, "batch_size": 15, "threads": 1, "width": 32}
HOSTS = ["{}", "{}/elsewhere"]  # what the first of two hosts has, and the other has not
PATIENT = 120  # seconds, for a test that fails


@pytest.fixture
def workers(monkeypatch):
    """The processes that were started, in order."""
    seen, real = [], subprocess.Popen

    def start_one(*arguments, **settings):
        seen.append(real(*arguments, **settings))
        return seen[-1]

    monkeypatch.setattr(starting.subprocess, "Popen", start_one)
    return seen


def weights(directory):
    return load_file(directory / "model.safetensors")


def assert_alike(one, other):
    """The same up to the order of sums: far less than a step that is wrong would make of it."""
    for name, value in weights(one).items():
        np.testing.assert_allclose(weights(other)[name], value, atol=2e-5, err_msg=name)


def test_the_page_is_true_and_two_processes_give_the_results_of_one(tmp_path, monkeypatch, workers, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "random.py").write_text("raise SystemExit('a module of the current folder was imported')")
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    session = {}
    exec(block, session)
    assert capsys.readouterr().out == "True\n"
    one, two = tmp_path / "runs" / "one", tmp_path / "runs" / "two"
    assert_alike(one, two)
    assert session["two"].flops == session["one"].flops
    assert session["two"].density == session["one"].density
    assert len(workers) == 1
    assert workers[0].returncode is not None, "no process is left"
    assert {path.name for path in two.iterdir()} == {path.name for path in one.iterdir()}


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a signal of POSIX systems")
def test_a_killed_process_ends_the_run_by_name_and_any_number_of_processes_goes_on(tmp_path, workers):
    """The stream is one of Python's memory, so the others have it from the first process."""
    of, settings = stream(), {"method": "er", "buffer": 10, "epochs": 3, "batch_size": 8, "threads": 1}
    esacl.run(esacl.Config.of(**settings), tmp_path / "whole", stream=of)

    def until_killed():
        with start(esacl.Config.of(**settings, processes=2), tmp_path / "run", of) as opened:
            for event in opened.events():
                if isinstance(event, EpochDone) and event.task == 1:
                    workers[-1].kill()

    with pytest.raises(RunError, match=r"process 1 of 0 to 1 \(pid \d+\) was killed by SIGKILL.*esacl resume"):
        until_killed()
    assert workers[-1].returncode == -signal.SIGKILL
    assert not torch.distributed.is_initialized()

    with suppress(KeyboardInterrupt):  # as Ctrl-C in the terminal, on the way
        esacl.resume(tmp_path / "run", of, listen=interrupt)
    assert workers[-1].returncode is not None
    assert len(workers) == 2

    esacl.resume(tmp_path / "run", of, processes=1)
    assert len(workers) == 2
    assert_alike(tmp_path / "whole", tmp_path / "run")


def interrupt(event):
    if isinstance(event, EpochDone):
        raise KeyboardInterrupt


def commanded(rank, port, arguments):
    """The command line as torchrun starts it."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    app(arguments, result_action="return_value")


def under_torchrun(*commands):
    """The exit codes of the processes that these commands are given to; None of one that is still waiting."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    members = [forks.Process(target=commanded, args=(rank, port, each)) for rank, each in enumerate(commands)]
    for member in members:
        member.start()
    for member in members:
        member.join(PATIENT)
    codes = [member.exitcode for member in members]
    for member in members:
        member.kill()
    return codes


@pytest.mark.skipif(sys.platform != "linux", reason="the loopback interface has another name elsewhere")
def test_processes_that_torchrun_started_train_one_run_and_only_the_first_needs_files(tmp_path):
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    (tmp_path / "settings.toml").write_text('method = "finetune"')
    commands = [["run", *flags, "--config", f"{host}/settings.toml", "--out", f"{host}/run"] for host in HOSTS]
    assert under_torchrun(*([word.format(tmp_path) for word in command] for command in commands)) == [0, 0]
    assert "processes = 2" in (tmp_path / "run" / "config.toml").read_text()
    esacl.run(esacl.Config.of(**SMALL, method="finetune"), tmp_path / "one")
    assert_alike(tmp_path / "one", tmp_path / "run")
    assert under_torchrun(*(["resume", f"{host}/run".format(tmp_path)] for host in HOSTS)) == [0, 0], "nothing to do"


@pytest.mark.parametrize("installed", [True, False])
def test_the_others_look_for_installed_packages_after_the_standard_library(installed, monkeypatch, tmp_path):
    root = str(Path(esacl.__file__).resolve().parents[1])
    monkeypatch.setattr(starting.site, "getsitepackages", lambda: [root if installed else str(tmp_path)])
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    expected = [str(tmp_path)] if installed else [root, str(tmp_path)]
    assert starting._environment()["PYTHONPATH"].split(os.pathsep) == expected
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), root]))
    assert starting._environment()["PYTHONPATH"] == os.environ["PYTHONPATH"]


def test_what_a_process_said_before_it_failed_is_the_reason(tmp_path):
    left_alone = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    failed = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
    (tmp_path / "word-2").write_text("MemoryError: no more.")
    reason = starting._reason([left_alone, failed], tmp_path)
    assert reason == f"process 2 of 0 to 2 (pid {failed.pid}) failed: MemoryError: no more"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"processes": 0}, "processes=0 is not allowed"),
        ({"processes": 4, "batch_size": 3}, "processes=4 is more than batch_size=3"),
    ],
)
def test_more_processes_than_examples_in_a_batch_or_none_are_refused(settings, message, tmp_path, workers):
    with pytest.raises(ConfigError, match=message):
        esacl.run(esacl.Config.of(**settings), tmp_path / "run")
    assert not workers
    assert not (tmp_path / "run").exists()


def test_a_gpu_by_its_number_cannot_be_shared(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ConfigError, match="processes=2 on device='cuda:1' is not possible"):
        esacl.run(esacl.Config.of(processes=2, device="cuda:1"), tmp_path / "run")


def test_a_grid_trains_every_run_in_one_process(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('methods = ["er"]\n[base]\nprocesses = 2\n')
    with pytest.raises(ConfigError, match="Leave it out"):
        read_recipe(recipe)


def test_another_number_of_processes_than_torchrun_started_is_refused(monkeypatch, tmp_path):
    for name, value in {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "here", "MASTER_PORT": 1}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(ConfigError, match="torchrun has started 2"):
        app(["run", "--processes", "3", "--out", str(tmp_path / "run")], result_action="return_value")


def test_processes_share_the_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    machine = esacl.Config.of(processes=3, device="cpu").machine
    assert resolve_machine(machine).threads == 2
    assert resolve_machine(divided(machine, 16)).threads == 1
    assert resolve_machine(divided(resolve_machine(machine), 1)).threads == 8, "as one process would have had"
    assert resolve_machine(divided(resolve_machine(machine, small=True), 1, small=True), small=True).threads == 1
    asked = esacl.Config.of(processes=3, threads=4, device="cpu").machine
    assert divided(asked, 2).threads == 6
    assert divided(asked, 3) == asked


@pytest.mark.parametrize(("settings", "threads"), [({}, 1), ({"threads": 3}, 3)])
def test_a_number_of_processes_that_saved_nothing_does_not_stand_in_the_way_of_the_one_before(
    tmp_path, monkeypatch, settings, threads
):
    """The MLP has one thread by default, and three do not divide by two."""
    of, settings = stream(), {"method": "finetune", "epochs": 2, "batch_size": 8, **settings}
    with suppress(KeyboardInterrupt):
        esacl.run(esacl.Config.of(**settings), tmp_path / "run", stream=of, listen=interrupt)
    with monkeypatch.context() as patched:
        patched.setattr(entry, "team", lambda *of: nullcontext())  # interrupted at once: no process is needed
        with reopen(tmp_path / "run", of, processes=2):
            pass
    assert "processes = 2" in (tmp_path / "run" / "config.toml").read_text()
    esacl.resume(tmp_path / "run", of, processes=1)
    assert RunDirectory(tmp_path / "run").config().machine.threads == threads
    esacl.run(esacl.Config.of(**settings), tmp_path / "whole", stream=of)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == (
        tmp_path / "whole" / "model.safetensors"
    ).read_bytes()


def test_one_process_is_a_run_without_any_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.distributed, "init_process_group", None)
    with start(esacl.Config.of(**SMALL, method="finetune", backbone="cnn", processes=1), tmp_path / "run") as opened:
        assert opened.trainer.net.shares is None
        norms = [module for module in opened.trainer.net.model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
        assert {type(norm) for norm in norms} == {torch.nn.BatchNorm2d}
        for _ in opened.events():
            pass
