"""An interrupt is heard at any moment, and acted upon where that can be done in good order."""

import os
import signal
import subprocess
import sys
from multiprocessing import resource_tracker

import pytest

from esacl.grid.signals import held_back, terminable


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_a_cluster_starts_is_kept_to_the_end(number):
    reached = []

    def build():
        with held_back():
            signal.raise_signal(number)  # to this thread: other threads do not block it and may hear it later
            reached.append("the end")

    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt):
        build()
    assert reached == ["the end"]
    assert signal.getsignal(number) is before
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_without_an_interrupt_nothing_is_raised_and_errors_pass():
    with held_back():
        pass
    with pytest.raises(ZeroDivisionError), held_back():
        raise ZeroDivisionError


def test_what_an_interrupt_breaks_is_an_interrupt():
    def build():
        with held_back():
            signal.raise_signal(signal.SIGINT)
            raise RuntimeError("a worker did not start")

    with pytest.raises(KeyboardInterrupt):
        build()


def test_processes_that_are_started_meanwhile_do_not_hear_an_interrupt():
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('deaf')"
    with held_back():
        resource_tracker.ensure_running()  # as starting a process by multiprocessing does
        told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert told.stdout == "deaf\n"


def test_the_signal_of_batch_systems_is_an_interrupt():
    with pytest.raises(KeyboardInterrupt), terminable():
        os.kill(os.getpid(), signal.SIGTERM)


def test_an_interrupt_during_imports_ends_the_process_whoever_catches_exceptions():
    code = (
        "import os, signal\n"
        "from esacl.__main__ import _leaving_at_once\n"
        "with _leaving_at_once():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except BaseException:\n"
        "        pass\n"
        "    print('swallowed')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "interrupted.\n")
