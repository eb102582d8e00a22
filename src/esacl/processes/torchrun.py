"""Runs that torchrun starts, on one machine or on several: every process is given the same command."""

from contextlib import suppress
from dataclasses import replace

from esacl.config import Config
from esacl.errors import ConfigError
from esacl.nets.data_parallel import Unreachable
from esacl.processes.group import joined, torchrun_rank
from esacl.processes.job import send
from esacl.processes.worker import LOST, serve


def serve_if_worker() -> bool:
    """Whether this process is there to help the first, and has done so."""
    place = torchrun_rank()
    if place is None or place.rank == 0:
        return False
    try:
        with joined(place.rank, place.size, place.local, None):
            serve(place.rank, place.size)
    except Unreachable:
        raise SystemExit(LOST) from None  # the first process says what happened
    return True


def dismiss() -> None:
    """Tell the processes that torchrun started that there is nothing to do; called by the first."""
    place = torchrun_rank()
    if place is not None and place.size > 1:
        with suppress(Unreachable), joined(0, place.size, place.local, None):
            send({})


def helpers(asked: int | None) -> int | None:
    """How many processes there are: as many as torchrun started, or as asked for."""
    place = torchrun_rank()
    if place is None:
        return asked
    if asked not in (None, place.size):
        raise ConfigError(
            "{given} was given, but torchrun has started {size}.",
            "machine.processes",
            asked,
            remedy="Leave {machine.processes} out, or start the command without torchrun.",
            size=place.size,
        )
    return place.size


def with_helpers(config: Config) -> Config:
    """The run on the processes that torchrun started, if it has started any."""
    own = config.machine.processes
    number = helpers(None if own == 1 else own)
    return config if number is None else replace(config, machine=replace(config.machine, processes=number))
