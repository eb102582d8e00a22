"""The client looks into its mailbox often while there is mail, and less and less often while there is none."""

import pytest

from esacl.grid.cluster import connect
from esacl.grid.plan import lay_out
from esacl.grid.recipe import read_recipe
from esacl.grid.scheduler import POLL, ClusterGrid


class Scripted(ClusterGrid):
    """Receives what is written down; the last message ends the only run."""

    def __init__(self, client, cells, script):
        super().__init__(client, cells)
        self._script = iter(script)

    def _submit(self, number):
        return self._client.submit(sorted, [])

    def _receive(self, mail):
        return next(self._script)

    def _take(self, message):
        if message == "end":
            self._open.clear()
        yield message

    def _look(self, silent):
        return iter(())


@pytest.fixture
def pauses(monkeypatch):
    taken = []
    monkeypatch.setattr("esacl.grid.scheduler.sleep", taken.append)
    return taken


def test_an_empty_mailbox_is_looked_into_less_and_less_often_until_something_comes(recipe, cluster, pauses, tmp_path):
    cells = lay_out(read_recipe(recipe()), tmp_path / "out")[:1]
    empty = []
    with connect(cluster) as client:
        drive = Scripted(client, cells, [empty] * 7 + [["word", "word"], ["word"]] + [empty] * 2 + [["end"]])
        told = list(drive.events())
    assert told == ["word", "word", "word", "end"]
    first, longest = POLL
    assert pauses == [first, 2 * first, 4 * first, 8 * first, 16 * first, longest, longest, first, 2 * first]
