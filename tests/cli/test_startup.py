"""What needs no training answers without importing torch, and what people read goes where it belongs."""

import os
import pty
import subprocess
import sys
from inspect import signature
from pydoc import plaintext, render_doc

import pytest

import esacl
from esacl.cli import app
from esacl.cli.flags import OF_METHODS
from esacl.config import SHORT_NAMES, Config
from esacl.errors import ConfigError
from esacl.methods import method
from esacl.options import helps
from tests.cli.commands import QUICK
from tests.cli.commands import esacl as command

QUIET = """
import sys
from esacl.__main__ import main
sys.argv[1:] = {words!r}
try:
    main()
except SystemExit as ended:
    code = ended.code or 0
else:
    code = 0
print("torch" in sys.modules, code, file=sys.stderr)
"""


def python(code, **more):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **more)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["methods", "--help"], 0),
        (["run", "--help"], 0),
        (["run", "--epcohs", "3"], 2),
        (["grid", "--job", "3"], 2),
        (["lern"], 2),
    ],
)
def test_help_and_mistakes_are_answered_without_torch(words, code):
    done = python(QUIET.format(words=words))
    assert done.stderr.splitlines()[-1] == f"False {code}"
    assert (done.stdout if code == 0 else done.stderr).strip()


def test_the_package_is_imported_without_torch():
    done = python("import esacl, sys; dir(esacl); print('torch' in sys.modules)")
    assert done.stdout.strip() == "False"


def test_plotting_is_imported_only_when_a_page_is_drawn():
    done = python("import esacl.report, esacl.grid.study, sys; print({'matplotlib', 'jinja2'} & sys.modules.keys())")
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("path", OF_METHODS)
def test_flags_of_a_method_say_what_its_options_say(path):
    slot, key = path.split(".")
    told = helps(method("esacl-er").part(slot).Options)[key] if path != "update.lr" else None
    told = told or helps(method("er").part(slot).Options)[key]
    assert OF_METHODS[path] == (told.default, told.help)


def test_the_keywords_of_a_config_are_the_short_names():
    *known, unknown = signature(Config.of).parameters.values()
    assert [each.name for each in known] == list(SHORT_NAMES)
    assert all(each.kind is each.KEYWORD_ONLY and each.default is None for each in known)
    assert unknown.kind is unknown.VAR_KEYWORD
    with pytest.raises(ConfigError, match=r"unknown setting 'epoch'\. Did you mean 'epochs'\?"):
        Config.of(epoch=3)


def test_the_public_names_are_listed_and_explained():
    assert dir(esacl) == sorted(esacl.__all__)
    page = render_doc(esacl, renderer=plaintext)
    for name in ("ContinualClassifier", "as_stream(", "open_stream(", "run("):
        assert name in page


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_knows_commands_and_options(shell):
    script = app.generate_completion(shell=shell)
    assert "landscape" in script
    assert "batch-size" in script
    assert "--install-completion" in list(app)


def test_a_closed_pipe_ends_quietly():
    words = f"{sys.executable} -m esacl streams --json | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] in ("0", "141")


@pytest.mark.parametrize("words", [["methods"], ["streams", "--json"], ["--help"]])
def test_nobody_reading_is_no_error(words):
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "esacl", *words], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_result_fits_a_terminal_of_80_columns(tmp_path):
    command("run", "--method", "er", *QUICK, "--out", tmp_path / "run")
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "esacl", "report", str(tmp_path / "run"), "-o", str(tmp_path / "page.html")]
    subprocess.run(words, stdout=theirs, stdin=theirs, env={**os.environ, "COLUMNS": "80"}, check=True)
    os.close(theirs)
    table = os.read(ours, 100_000).decode().partition("report:")[0]
    assert "Task-IL" in table
    assert max(len(line) for line in table.splitlines() if "\x1b" not in line) <= 80


def test_a_dry_run_of_a_grid_is_a_result(tmp_path, capsys):
    (tmp_path / "small.toml").write_text('methods = ["er", "finetune"]\n')
    command("grid", tmp_path / "small.toml", "--out", tmp_path / "runs", "--dry-run")
    told = capsys.readouterr()
    assert "2 of 2 runs to do." in told.out
    assert told.err == ""
