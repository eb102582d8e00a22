"""The site's navigation names what is there, and all of it; what its pages are made of is whole."""

import re
from xml.etree import ElementTree

import pytest
import yaml

import esacl
from esacl.config import SHORT_NAMES
from tests.site.pages import DOCS, PAGES, ROOT, tool

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def named(entries):
    """Pages of a part of the navigation, in order."""
    found = []
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            found += named(value) if isinstance(value, list) else [value]
    return found


def test_the_navigation_has_every_page_once_and_nothing_else():
    assert sorted(named(SITE["nav"])) == PAGES


def test_files_that_the_site_is_built_from_are_there():
    handler = SITE["plugins"][1]["mkdocstrings"]["handlers"]["python"]
    for file in (*SITE["hooks"], *handler["options"]["extensions"], *handler["paths"], *SITE["watch"]):
        assert (ROOT / file).exists(), file
    for file in SITE["extra_css"]:
        assert (DOCS / file).exists(), file


def test_nothing_is_fetched_from_elsewhere():
    assert SITE["theme"]["font"] is False
    assert "http" not in (DOCS / "site" / "site.css").read_text(encoding="utf-8")
    assert not {"extra_javascript", "repo_url"} & set(SITE)


def test_the_api_page_has_every_public_name():
    shown = re.findall(r"^::: esacl\.(\w+)$", (DOCS / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(shown) == sorted(set(esacl.__all__) - {"__version__"})


def test_the_api_page_has_every_setting_that_has_a_name_of_its_own():
    told = (DOCS / "api.md").read_text(encoding="utf-8").split("`Config.of` takes")[1].split(". `esacl run")[0]
    assert sorted(re.findall(r"`(\w+)`", told)) == sorted(SHORT_NAMES)


def test_pictures_are_as_their_script_draws_them():
    for path, drawn in tool("pictures").drawn().items():
        assert path.read_text(encoding="utf-8") == drawn, f"{path.name}: run python docs/site/pictures.py"
        ElementTree.fromstring(drawn)


def test_the_figures_of_the_pictures_are_those_of_the_measured_results():
    pictures, text = tool("pictures"), (DOCS / "results" / "digits-main.md").read_text(encoding="utf-8")
    head, *body = [
        [cell.strip().strip("*") for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line[:1] == "|"
    ]
    rows = {cells[0]: dict(zip(head, cells)) for cells in reversed(body)}  # the first table has the costs
    for method, figures in pictures.COSTS.items():
        found = [rows[method][f"FLOPs {count} (GFLOP)"] for count in ("executed", "sparse", "paper")]
        assert found == [f"{figure:.2f}" for figure in figures], method
    for method, (formula, measured) in pictures.CAPACITY.items():
        assert float(rows[method]["Capacity (%)"]) == formula
        assert float(rows[method]["Capacity measured (%)"]) == pytest.approx(measured, abs=0.5)


@pytest.mark.parametrize("page", PAGES)
def test_includes_are_found_and_their_links_lead_somewhere(page):
    path = DOCS / page
    pages = tool("pages")
    text = pages.expanded(path.read_text(encoding="utf-8"), path)
    assert not pages.INCLUDE.search(text)
    prose = re.sub(r"```.*?```|`[^`\n]+`", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", prose):
        assert re.match(r"\w+:", target) or (path.parent / target).exists(), target


def test_an_include_brings_the_section_and_mends_its_links():
    pages = tool("pages")
    links = "[b](docs/grids.md#tables) ![p](docs/images/x.svg) [s](src/esacl) [w](https://w.org) `[c](d)`"
    text = f"# A\n\n## One two\n\n{links}\n\n## C\nno"
    section = pages.section(text, "one-two")
    assert "no" not in section
    moved = pages.relocated(section, ROOT / "README.md", DOCS / "howto" / "page.md")
    assert moved == "[b](../grids.md#tables) ![p](../images/x.svg) s [w](https://w.org) `[c](d)`"
    with pytest.raises(ValueError, match="no heading"):
        pages.section(text, "three")


def test_a_picture_in_a_page_styles_only_itself():
    pages = tool("pages")
    for path in sorted((DOCS / "images").glob("*.svg")):
        style = re.search(r"<style>(.*?)</style>", pages.inlined(path))[1]
        rules = re.findall(r"([^{}]+)\{", style)
        assert len(rules) > 5
        assert all(rule.startswith(".picture ") for rule in rules)


def test_a_docstring_has_its_named_lines_as_a_list_and_examples_as_code():
    pytest.importorskip("griffe")
    written = [
        "y: labels of\nsome: kind, or\nnone.",
        "Parameters\n----------\na, b : numbers,\n    or none.\nc: more.",
        ">>> 1\n1",
    ]
    shown = [written[0], "**Parameters**", "- `a, b`: numbers,\n    or none.\n- `c`: more.", "```pycon\n>>> 1\n1\n```"]
    assert tool("docstrings").as_markdown("\n\n".join(written)) == "\n\n".join(shown)
