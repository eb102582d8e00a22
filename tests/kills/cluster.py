"""One worker process for all grids, started again when it is killed, by a server that has imported all."""

import logging
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import ClassVar

from tests.forks import start_server
from tests.kills.moments import Moment, strike, watch

PATIENCE = 60
"""Seconds after which a worker is given up."""


class Cluster:
    """A dask cluster of this machine; there is one, started by whoever asks for it first."""

    _one: ClassVar["Cluster | None"] = None

    def __init__(self) -> None:
        from dask import config
        from distributed import Client, LocalCluster

        start_server()  # before dask would, with less in it
        self._held = ExitStack()
        self._held.enter_context(config.set({"distributed.worker.multiprocessing-method": "forkserver"}))
        options = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL, "memory_limit": 0}
        cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=True, **options)
        self.address = self._held.enter_context(cluster).scheduler_address
        self._client = self._held.enter_context(Client(self.address, set_as_default=False))

    @classmethod
    def running(cls) -> "Cluster":
        """The one, with a worker; one whose worker does not come back after a kill is replaced."""
        cls._one = cls._one or cls()
        try:
            cls._one._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            cls.stop()
            cls._one = cls()
        return cls._one

    @classmethod
    def stop(cls) -> None:
        """End it, if it was started."""
        if cls._one is not None:
            cls._one._held.close()
            cls._one = None

    def arm(self, moment: Moment | None, diary: Path, victim: int | None) -> None:
        """The worker kills a process, or itself, when its own moment has come; None: never."""
        self._client.run(_arm, moment, diary, victim)


def _arm(moment: Moment | None, diary: Path, victim: int | None) -> None:
    import os

    watch(moment, partial(strike, victim or os.getpid(), diary))
