"""What the site shows runs: each page as one session, in order, with few epochs."""

import re
import shlex

import pytest

from esacl.cli import app
from tests.cli.commands import esacl
from tests.site.pages import DOCS, PAGES, blocks

SESSIONS = {
    "plugins.md": "<Er + Gpm>",
    "budgets.md": "esacl-er",
    "which-method.md": "esacl-der++",
    "quickstart.md": "of the weights in use",
    "ideas.md": "GFLOP",
    "readouts.md": "refit decay=0.1",
    "howto/own-data.md": "3 tasks",
    "howto/resume.md": "True",
    "howto/add-a-method.md": "esacl-anchor: ",
    "methods/grow.md": "grow-er",
}
"""Pages that are run here, and what they must have printed."""

TESTED_ELSEWHERE = {
    "deploy.md": "tests/deploy/test_page.py",
    "estimator.md": "tests/estimator/test_page.py",
    "distributed.md": "tests/processes/test_runs.py",
    "methods/esacl.md": "tests/test_docs.py",
    "own-network.md": "tests/cli/test_pages.py",
    "trackers.md": "tests/cli/test_pages.py",
}

NEEDS_MORE = {"grids.md": "starts workers of a SLURM cluster"}
"""Pages whose Python cannot run, and why."""

NOT_RUN = {
    "make demo": "installs an environment",
    "pip install": "installs",
    "esacl data get": "downloads",
    "esacl data check": "reports what is missing on this machine as an error",
    "esacl run --method er --stream split-cifar10": "needs CIFAR-10",
    "esacl resume runs/first": "there is no interrupted run; the Python below it makes one",
    "dask": "needs several machines",
    "srun": "needs SLURM",
    "helm": "needs Kubernetes",
    "kubectl": "needs Kubernetes",
    "esacl run --method slda --stream split-cifar10": "needs CIFAR-10, and a package of weights",
    "esacl learn animals.esacl": "needs photos; tests/test_pretrained.py teaches a classifier",
    "esacl grid": "tests/grid trains grids",
    "esacl tune": "tests/grid tunes",
    "esacl table": "tests/grid tabulates grids",
    "esacl report runs/digits/bounds": "tests/report draws the pages of grids",
}
"""Commands, by their beginning, that only have to be well-formed, and why."""


PROMPTED = re.compile(r"^\w*\$ (?:[A-Z_]+=\S+ )*(.*)$", flags=re.MULTILINE)


def commands(block):
    return [command.split("#")[0].strip() for command in PROMPTED.findall(block)]


def runs(command):
    return not command.startswith(tuple(NOT_RUN))


def quick(text):
    """The same with one epoch, or a tenth of the budget."""
    return re.sub(r"(--epochs |\bepochs=)\d+", r"\g<1>1", text).replace("2e10flops", "2e9flops")


@pytest.mark.parametrize("page", SESSIONS)
def test_a_page_runs_as_one_session(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    session = {}
    for language, block in blocks(page):
        if language == "python":
            exec(compile(quick(block), page, "exec"), session)
            continue
        for command in filter(runs, commands(block)):
            esacl(*shlex.split(quick(command))[1:])
    assert SESSIONS[page] in capsys.readouterr().out


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_every_block_is_run_or_listed_with_the_reason(page):
    for language, block in blocks(page):
        if language == "python":
            assert page in SESSIONS or page in TESTED_ELSEWHERE or page in NEEDS_MORE
            continue
        assert commands(block), "a console block shows commands: lines that begin with `$ `"
        for command in commands(block):
            assert not runs(command) or page in SESSIONS or page in TESTED_ELSEWHERE, command


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)])
def test_every_command_is_one_the_command_line_accepts(page):
    for language, block in blocks(page):
        for command in commands(block) if language == "console" else []:
            if command.startswith("esacl "):
                _, bound, ignored = app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)
                assert bound is not None
                assert not ignored


def test_no_reason_is_left_over():
    shown = [command for page in PAGES for language, block in blocks(page) for command in commands(block)]
    for beginning in NOT_RUN:
        assert any(command.startswith(beginning) for command in shown), beginning
    for page in (*SESSIONS, *TESTED_ELSEWHERE, *NEEDS_MORE):
        assert blocks(page), page
        assert (DOCS / page).exists()
