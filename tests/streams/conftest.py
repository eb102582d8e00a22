"""Data shared by the tests of streams; whatever needs the real archives skips, with the reason, where they are not."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from esacl.streams.base import Source
from esacl.streams.locate import find, read_official
from esacl.streams.official import official


@pytest.fixture(scope="session")
def real_folder() -> Path:
    """The folder of real data sets."""
    if not os.environ.get("ESACL_DATA"):
        pytest.skip("needs real data: set ESACL_DATA to the folder that holds the archives")
    return Path(os.environ["ESACL_DATA"])


@pytest.fixture(scope="session")
def real_source(real_folder: Path) -> Callable[[str], Source]:
    """Reads a real data set once for all tests, by name."""
    loaded: dict[str, Source] = {}

    def read(name: str) -> Source:
        data = official(name)
        if find(data, real_folder) is None:
            pytest.skip(f"needs real data: {real_folder} (ESACL_DATA) has no {data.archive}")
        if name not in loaded:
            loaded[name] = read_official(data, real_folder)
        return loaded[name]

    return read


@pytest.fixture(autouse=True)
def _no_data_folder_of_the_user(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of made files must not find real ones."""
    if "real_folder" not in request.fixturenames:
        monkeypatch.delenv("ESACL_DATA", raising=False)
