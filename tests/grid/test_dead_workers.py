"""On a cluster, a worker that is killed costs nothing but the time since its last checkpoint."""

import logging
import os
import signal
from collections import Counter

import pytest

import esacl
from esacl.errors import RunError
from esacl.grid.cluster import connect
from esacl.grid.events import RunFailed, RunFinished, RunNote, RunProgress
from esacl.grid.plan import lay_out
from esacl.grid.recipe import read_recipe
from esacl.grid.scheduler import ATTEMPTS, ClusterGrid, _Open
from esacl.grid.scheduler_worker import train
from tests.forks import start_server
from tests.grid.test_local import RECIPE, bits

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is a signal of POSIX systems")


class Counting(ClusterGrid):
    """Counts the runs that workers trained to their end, whether or not anybody wanted to know."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.ends = Counter()

    def _take(self, message):
        self.ends[message["run"]] += message["kind"] == "done"
        yield from super()._take(message)


@pytest.fixture
def cells(recipe, tmp_path):
    return lay_out(read_recipe(recipe(RECIPE)), tmp_path / "out")


@pytest.fixture(scope="module")
def processes():
    """A cluster of two worker processes, started again when they die, by a server that has imported all."""
    from dask import config
    from distributed import LocalCluster

    start_server()  # before dask would, with less in it
    options = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL, "memory_limit": 0}
    with (
        config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **options) as running,
    ):
        yield running


def kill_worker_of(cell, number, cluster, client):
    """SIGKILL to the process that trains a run."""
    busy = [address for address, keys in client.processing().items() if any(f"-{number}-" in key for key in keys)]
    pids = {nanny.worker_address: nanny.pid for nanny in cluster.workers.values()}
    os.kill(pids[busy[0]], signal.SIGKILL)


def test_a_killed_worker_loses_nothing_and_nothing_is_trained_twice(cells, processes, brief, tmp_path):
    told, killed_at = [], None
    with connect(processes.scheduler_address) as client:
        drive = Counting(client, cells)
        for news in drive.events():
            told.append(news)
            if killed_at is None and isinstance(news, RunProgress) and news.share > 0:
                number, killed_at = cells.index(news.cell), news.share
                kill_worker_of(news.cell, number, processes, client)
    assert drive.ends == Counter({0: 1, 1: 1})
    assert sorted(cells.index(news.cell) for news in told if isinstance(news, RunFinished)) == [0, 1]
    assert [cells.index(news.cell) for news in told if isinstance(news, RunNote)] == [number]
    again = [news for news in told if isinstance(news, RunProgress) and news.words == "continued"]
    assert [cells.index(news.cell) for news in again] == [number]
    assert again[0].share >= killed_at
    esacl.run(cells[number].config(), tmp_path / "whole")
    assert bits(cells[number].path) == bits(tmp_path / "whole")


def test_a_run_whose_workers_die_again_and_again_is_given_up(cells, cluster):
    with connect(cluster) as client:
        drive = ClusterGrid(client, cells[:1])
        drive._open[0] = _Open(cells[0], cells[0].directory, client.submit(sorted, []))
        told = []
        for start in range(ATTEMPTS + 1):
            asked = {
                "kind": "ask",
                "run": 0,
                "token": f"start {start}",
                "worker": "tcp://w",
                "version": esacl.__version__,
            }
            told += drive._take(asked)
    assert [type(news) for news in told] == [RunNote] * (ATTEMPTS - 1) + [RunFailed]
    assert f"its worker died {ATTEMPTS} times without a new checkpoint" in told[-1].reason
    assert not drive._open


def test_a_worker_does_not_wait_for_the_answer_of_a_client_that_is_gone(cluster, monkeypatch):
    from distributed import Queue

    monkeypatch.setattr("esacl.grid.scheduler_worker.LOOK", 0.1)
    with connect(cluster) as client:
        asking = client.submit(train, "esacl-silent", 0, pure=False)
        assert Queue("esacl-silent-mail", client=client).get(timeout=30)["kind"] == "ask"
        asking.cancel()
        assert client.submit(sum, [1, 2]).result(timeout=30) == 3


def test_a_worker_with_another_version_is_refused(cells, cluster):
    with connect(cluster) as client:
        drive = ClusterGrid(client, cells[:1])
        drive._open[0] = _Open(cells[0], cells[0].directory, client.submit(sorted, []))
        asked = {"kind": "ask", "run": 0, "token": "t", "worker": "tcp://w", "version": "0.0.1"}
        (news,) = drive._take(asked)
    assert isinstance(news, RunFailed)
    assert f"worker tcp://w has esacl 0.0.1, but this is {esacl.__version__}" in news.reason
    assert cells[0].state() == "new"


def test_words_of_a_start_that_was_given_up_are_not_heard(cells, cluster):
    with connect(cluster) as client:
        drive = ClusterGrid(client, cells[:1])
        drive._open[0] = _Open(cells[0], cells[0].directory, client.submit(sorted, []), token="the second start")
        said = {"kind": "done", "run": 0, "token": "the first start", "files": {"results.json": b"{}"}}
        assert list(drive._take(said)) == []
    assert not cells[0].path.exists()


def test_a_scheduler_that_is_gone_is_told_and_what_had_arrived_is_kept(cells, brief, monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr("esacl.grid.cluster.PATIENCE", 1)  # otherwise half a minute for it to come back

    def end_the_scheduler_at_the_first_checkpoint():
        with connect(running.scheduler_address) as client:
            for news in ClusterGrid(client, cells[:1]).events():
                if isinstance(news, RunProgress) and news.share > 0:
                    running.close()

    options = {"processes": False, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, **options) as running,
        pytest.raises(RunError) as error,
    ):
        end_the_scheduler_at_the_first_checkpoint()
    assert "the dask scheduler does not answer any more" in str(error.value)
    assert cells[0].state() == "begun"
    assert cells[0].directory.checkpoints.numbers()
