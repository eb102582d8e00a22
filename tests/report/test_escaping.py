"""What a row is called is text in every format: no formula, no markup, no command."""

import csv
from io import StringIO

import pytest
from rich.console import Console

from esacl.report.formats import as_csv, as_latex, as_markdown, as_rich, markdown_code
from esacl.report.table import Entry, Table


def table(name):
    return Table("title", ("row", "x"), ((Entry(name), Entry("1")),), "caption")


@pytest.mark.parametrize("text", ['=HYPERLINK("x")', "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_is_a_formula_and_numbers_stay_numbers(text):
    (row,) = csv.reader(StringIO(as_csv([[text, -1.5, 2, None, "plain"]]), newline=""))
    told = text.replace("\r", " ")
    assert row == [f"'{told}", "-1.5", "2", "", "plain"]


def test_no_html_reaches_markdown_and_no_link_either():
    told = as_markdown([table("<img src=x onerror=alert(1)> & [a](javascript:b) `c`\n| d")])
    assert "<img" not in told
    assert "&lt;img src=x onerror=alert(1)&gt; &amp; \\[a\\](javascript:b) \\`c\\` \\| d" in told


def test_latex_takes_no_name_for_a_command_or_an_option():
    told = as_latex([table("[1pt] *a\n\n\\input{x} <b>|")])
    assert "{[}1pt{]} {*}a \\textbackslash{}input\\{x\\} \\textless{}b\\textgreater{}\\textbar{} & 1" in told


@pytest.mark.parametrize("name", ["a`b.toml", "``", "a\n\n<b>.toml"])
def test_no_command_leaves_its_code_span(name):
    told = markdown_code(f"esacl grid {name}")
    fence = told[: len(told) - len(told.lstrip("`"))]
    assert told.endswith(fence)
    assert fence not in told[len(fence) : -len(fence)]
    assert "\n" not in told


@pytest.mark.parametrize("write", [as_markdown, as_latex, lambda tables: as_csv([[tables[0].rows[0][0].text, 1]])])
def test_no_document_has_characters_that_hide_or_command(write):
    told = write([table("a\0b \x1b[31m \u202ec")])
    assert told.replace("\n", "").isprintable()
    assert "a\N{REPLACEMENT CHARACTER}b" in told


def test_a_title_is_no_markup_to_a_terminal():
    console = Console(file=StringIO(), width=80)
    console.print(as_rich([Table("folder:[red]x", ("row", "b"), ((Entry("a" * 20), Entry("1")),))]))
    assert "folder:[red]x" in console.file.getvalue()
