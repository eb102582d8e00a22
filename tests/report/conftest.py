"""A grid of all methods, made up once."""

import pytest

from tests.report.fabricate import NASTY
from tests.report.fabricate_grid import EVERY_METHOD, write_grid

REASON = f"the disk is full {NASTY}"


@pytest.fixture(scope="session")
def every_method(tmp_path_factory):
    """Its folder: the last two runs are not finished, one of them failed; the first has a report of its own."""
    folder = tmp_path_factory.mktemp("every") / "grid"
    cells = write_grid(folder, EVERY_METHOD, skip=2)
    cells[-1].fail(REASON)
    (cells[0].path / "report.html").write_text("its own")
    return folder
