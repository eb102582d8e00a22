"""Kill it at any moment and it resumes to the same bits."""

import os
import random
import signal
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from esacl.training.checkpoint import Checkpoints
from tests.forks import forks
from tests.kills.bits import of_run
from tests.kills.fronts import run_command, strike_itself
from tests.kills.moments import Moment

RUN = ["run", "--method", "der++", "--epochs", "2", "--buffer", "40", "--limit-per-class", "60", "--threads", "1"]
KILLS = 12
FOLDER = TemporaryDirectory()  # what processes print


def launch(*arguments, die_at=None):
    """The command line in a process of its own; it may be killed at the n-th write that reaches the disk."""
    folder = Path(FOLDER.name)
    moment = None if die_at is None else Moment("write", die_at)
    process = forks.Process(
        target=run_command, args=([str(a) for a in arguments], folder, moment, partial(strike_itself, folder / "kills"))
    )
    process.start()
    return process


def complete(*arguments):
    process = launch(*arguments)
    process.join()
    assert process.exitcode == 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that nobody interrupts: what it leaves behind, and how long it trains."""
    directory = tmp_path_factory.mktemp("whole") / "run"
    complete("methods")  # warms the server up
    began = time.monotonic()
    complete(*RUN, "--out", directory)
    return of_run(directory), time.monotonic() - began


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a signal of POSIX systems")
@pytest.mark.parametrize("kill", range(KILLS))
def test_a_run_killed_at_a_random_moment_resumes_to_the_same_bits(whole, tmp_path, kill):
    expected, seconds = whole
    directory = tmp_path / "run"
    process = launch(*RUN, "--out", directory)
    moment = seconds * random.Random(kill).uniform(kill / KILLS, (kill + 1) / KILLS)
    process.join(moment)
    process.kill()
    process.join()
    if (directory / "config.toml").exists():
        complete("resume", directory)
    else:
        complete(*RUN, "--out", directory)
    assert of_run(directory) == expected


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a signal of POSIX systems")
def test_a_run_killed_again_and_again_while_it_writes_resumes_to_the_same_bits(whole, tmp_path):
    """Every process dies at a write a little later than the one before it; each leaves a directory that can go on."""
    expected, _ = whole
    directory = tmp_path / "run"
    arguments, deaths = (*RUN, "--out", directory), 0
    for die_at in range(3, 40):
        process = launch(*arguments, die_at=die_at)
        process.join()
        arguments = ("resume", directory)
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        deaths += 1
    assert deaths >= 4
    assert of_run(directory) == expected


def test_a_second_process_on_the_same_directory_is_refused(tmp_path):
    directory = tmp_path / "run"
    first = launch("run", "--epochs", "200", "--out", directory)
    while not list(directory.glob("checkpoint/*.safetensors")):
        assert first.is_alive()
        time.sleep(0.02)
    second = launch("resume", directory)
    second.join()
    assert second.exitcode not in (0, None)
    assert first.is_alive()
    first.kill()
    first.join()


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before_and_says_so(whole, tmp_path, capfd):
    expected, _ = whole
    directory = tmp_path / "run"
    complete(*RUN, "--out", directory)
    for name in ("results.json", "report.html", "model.safetensors"):
        (directory / name).unlink()
    newest = directory / "checkpoint" / f"{Checkpoints(directory / 'checkpoint').numbers()[-1]:06d}.safetensors"
    data = bytearray(newest.read_bytes())
    data[len(data) // 2] ^= 1
    newest.write_bytes(data)

    from esacl.cli import app

    app(["resume", str(directory)], result_action="return_value")
    told = capfd.readouterr().err
    assert "is damaged" in told
    assert "Continuing from the one before it" in told
    assert of_run(directory) == expected
