"""The documentation tells the truth: snippets run, links lead somewhere, every method has its page."""

import re
import tomllib
from dataclasses import asdict
from pathlib import Path

import pytest

from esacl.cli import app
from esacl.methods import METHODS
from esacl.nets import NetTraits
from esacl.options import helps

ROOT = Path(__file__).parents[1]
NETS = [NetTraits(batchnorm, batchnorm, 1) for batchnorm in (False, True)]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_the_python_of_the_readme_runs_as_one_session(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    session = {}
    for block in blocks(ROOT / "README.md", "python"):
        exec(block, session)
    told = capsys.readouterr().out
    assert "when the task is known" in told
    assert "after task 3" in told
    assert session["results"].class_il > 0.6


def test_the_python_of_the_method_pages_runs():
    ran = 0
    for page in sorted((ROOT / "docs" / "methods").glob("*.md")):
        for block in blocks(page, "python"):
            exec(block, {})
            ran += 1
    assert ran >= 1


def test_every_option_that_the_page_of_esacl_names_is_one_and_has_the_default_it_says():
    text = (ROOT / "docs" / "methods" / "esacl.md").read_text(encoding="utf-8")
    method = METHODS["esacl-der++"]
    named = set(re.findall(r"`((?:sparsity|gradient|selection|update)\.\w+)", text))
    assert len(named) >= 20
    for path in named:
        slot, _, name = path.partition(".")
        assert name in method.options(slot), path
    rows = re.findall(r"^\| (?:`--[\w]+` \()?`(\w+)\.(\w+)`\)? \| ([^|]+) \|", text, flags=re.MULTILINE)
    assert len(rows) >= 12
    for slot, name, shown in rows:
        part = method.part(slot)
        default = helps(part.Options)[name].default
        suited = [part.defaults(net, asdict(part.Options())).get(name) for net in NETS]
        texts = [str(default).lower(), f"{default:g}" if isinstance(default, float) else ""]
        if default is None:
            texts = ["by network"] if None not in suited else []
            texts += [str(suited[0])] if len(set(suited)) == 1 else []
        assert shown.strip("` ") in texts, f"{slot}.{name}"


def test_the_first_two_commands_of_the_readme_are_demo_and_test():
    first = blocks(ROOT / "README.md", "console")[0]
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]


def test_every_command_of_the_readme_is_one_the_command_line_accepts():
    commands = [
        line.split("#")[0].removeprefix("$ esacl ").split()
        for block in blocks(ROOT / "README.md", "console")
        for line in block.splitlines()
        if line.startswith("$ esacl")
    ]
    assert len(commands) >= 5
    for words in commands:
        command, _, ignored = app.parse_args(words, exit_on_error=False, print_error=False)
        assert command is not None
        assert not ignored


def test_every_extra_that_a_page_or_a_message_names_exists():
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    )
    texts = [path.read_text(encoding="utf-8") for path in (*PAGES, *(ROOT / "src").rglob("*.py"))]
    named = {
        name
        for text in texts
        for names in re.findall(r"(?:esacl|\.)\[([a-z,]+)\]['`]", text)
        for name in names.split(",")
    }
    assert {"sweep", "export", "tensorboard"} <= named <= extras


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page):
    text = re.sub(r"`[^`\n]+`", "", page.read_text(encoding="utf-8"))
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", text) if not target.startswith(("http", "#"))]
    for target in targets:
        path, _, anchor = target.partition("#")
        linked = page.parent / path
        assert linked.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_a_page(method):
    text = (ROOT / "docs" / "methods" / f"{method}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# `{method}`")


def test_folders_of_studies_that_pages_name_are_those_of_recipes():
    named = {name for page in PAGES for name in re.findall(r"runs/studies/([a-z0-9/-]+)", page.read_text("utf-8"))}
    assert named
    assert [name for name in sorted(named) if not (ROOT / "recipes" / f"{name}.toml").is_file()] == []
