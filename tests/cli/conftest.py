import pytest

from esacl.cli import main
from tests.cli.commands import QUICK, esacl


@pytest.fixture
def fails(capsys):
    """Run a command that must fail as a user would see it: one line, a code, no traceback."""

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        assert ended.value.code == 2
        told = capsys.readouterr()
        assert "Traceback" not in told.err + told.out
        return " ".join(told.err.split())

    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cli") / "er"
    esacl("run", "--method", "er", *QUICK, "--buffer", 30, "--seed", 3, "--out", directory)
    return directory
