"""Where every task has the same classes, one figure is shown and named."""

from io import StringIO

import pytest
from rich.console import Console

import esacl
from esacl.config import StreamConfig
from esacl.report import load_run, summary_table, write_report
from esacl.report.figures.themes import themes
from esacl.report.formats import as_markdown
from esacl.report.rows import rows_of
from esacl.report.table import seed_tables, tables
from esacl.streams import open_stream


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    place = tmp_path_factory.mktemp("same") / "run"
    stream = open_stream(StreamConfig("rotated-digits", tasks=2, limit_per_class=6))
    return place, esacl.run(esacl.Config.of(method="er", epochs=1, width=8), place, stream=stream)


def test_results_have_a_short_repr_with_one_figure(run):
    _, results = run
    assert repr(results) == f"Results(er on rotated-digits, seed 0: Domain-IL {results.task_il:.1%})"
    assert results.class_il == results.task_il, "programs find it under both names"


def test_tables_and_reports_show_one_figure_and_say_what_it_is(run):
    place, _ = run
    record = load_run(place)
    text = StringIO()
    Console(width=80, file=text).print(summary_table([record]))
    lines = rows_of([record])
    page = write_report([place], place / "page.html").read_text()
    for shown in (text.getvalue(), as_markdown(tables(lines)), as_markdown(seed_tables(lines))):
        assert "Domain-IL" in shown
        assert "Class-IL" not in shown
        assert "Task-IL" not in shown
    charts = [chart for theme in themes(lines) for chart in theme.charts if theme.title != "Training FLOPs"]
    assert charts
    assert all("Domain-IL" in f"{chart.title} {chart.label}" for chart in charts), "one panel, by its name"
    assert "Domain-IL" in page
    assert "must be told the task" not in page
