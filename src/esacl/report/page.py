"""The page of a study: one run, several side by side, or a grid. One HTML file that needs nothing else."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from esacl.config import SHORT_NAMES
from esacl.errors import RunError
from esacl.paper import STREAMS
from esacl.report.differences import difference_table
from esacl.report.html import filled, write_html
from esacl.report.leaderboard import BASELINE, leaderboard
from esacl.report.load import load_run
from esacl.report.metrics import columns
from esacl.report.rows import Row, differing, records_of, rows_of, settings_of, tables_of
from esacl.report.run_page import GLOSSARY, RunView
from esacl.report.table import seed_tables, tables

_SHOWN = ("task_il", "class_il", "flops_executed", "capacity", "seconds_train")
_ALWAYS = ("train.epochs", "train.batch_size", "update.lr", "objective.buffer", "sparsity.level", "gradient.rho")
_FLAGS = {path: name.replace("_", " ") for name, path in SHORT_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Study:
    """Runs that answer one question, as far as they are."""

    title: str
    about: str
    rows: Sequence[Row]
    wanted: int
    finished: int
    failures: Sequence[tuple[str, str]] = ()  # run and reason
    stopped: Sequence[tuple[str, str]] = ()  # run and reason
    against: str | None = None  # row that the others are compared with; None: the first dense one
    whole: bool = False  # whether the page has all about each run; else it links to the runs' own pages


def study_of_runs(run_dirs: Sequence[Path]) -> Study:
    """A study of these runs alone; each is taken once."""
    directories = list({path.resolve(): path for path in run_dirs}.values())
    if not directories:
        raise RunError(
            "there is nothing to report: no run directory was given. Give one or more that `esacl run` made."
        )
    rows = rows_of([load_run(path) for path in directories])
    count, streams = len(directories), ", ".join(dict.fromkeys(row.stream for row in rows))
    title = f"{count} runs on {streams}" if count > 1 else f"{rows[0].label} on {streams}"
    return Study(title, "", rows, count, count, whole=True)


def write_report(run_dirs: Sequence[Path], out: Path) -> Path:
    """Write the page of one run, or of several side by side, to `out`; an existing file is replaced at once."""
    return write_page(study_of_runs(run_dirs), out)


def write_page(study: Study, out: Path) -> Path:
    """Write the page of a study; an existing file is replaced at once."""
    again = "The results are saved: put that right, or write the report elsewhere with `esacl report DIR --out FILE`."
    return write_html(render(study, out.parent), out, again)


def render(study: Study, folder: Path) -> str:
    """The page as text: always the same for the same runs. Links lead to reports of runs that are below its folder."""
    runs = _runs(study) if study.whole else []
    if study.whole and len(runs) == 1:
        return filled("run.html", run=runs[0])
    script = files("esacl.report").joinpath("templates/hover.js").read_text(encoding="utf-8")
    digest = "sha256-" + b64encode(sha256(script.encode()).digest()).decode()
    targets = {id(run.record): f"#{run.id}" for run in runs}
    sections = [
        _section(members, f"s{place}", study.against, targets or _links(members, folder))
        for place, members in enumerate(tables_of(study.rows), start=1)
    ]
    facts = [("runs finished", f"{study.finished} of {study.wanted}"), ("rows", len(study.rows))]
    facts += [("failed", len(study.failures))] if study.failures else []
    facts += [("stopped", len(study.stopped))] if study.stopped else []
    given = {"study": study, "facts": facts, "sections": sections, "runs": runs, "glossary": GLOSSARY}
    return filled("study.html", **given, script=script, digest=digest)


def _runs(study: Study) -> list[RunView]:
    from esacl.report.figures.themes import run_themes

    named = [(record, row.label) for row in study.rows for record in row.records]
    return [
        RunView(f"run-{place}", record, label, *run_themes(record))
        for place, (record, label) in enumerate(named, start=1)
    ]


def _section(rows: Sequence[Row], name: str, against: str | None, links: Mapping[int, str]) -> dict[str, Any]:
    """All about rows that may be compared; `ids` names what the page tells about each, by the row's own identity."""
    from esacl.report.figures.themes import themes

    paper = rows[0].stream in STREAMS
    ids = {id(row): f"{name}-row-{place}" for place, row in enumerate(rows, start=1)}
    return {
        "id": name,
        "main": tables(rows, paper, everything=False)[0],
        "everything": tables(rows, paper)[0],
        "seeds": seed_tables(rows)[0],
        "leaderboard": leaderboard(rows, against or BASELINE),
        "differences": difference_table(rows, against),
        "themes": themes(rows),
        "ids": ids,
        "targets": [ids[id(row)] if row.records else "" for row in rows],
        "rows": [_row(row, rows, ids[id(row)], links) for row in rows if row.records],
    }


def _row(row: Row, rows: Sequence[Row], name: str, links: Mapping[int, str]) -> dict[str, Any]:
    """What a point of a plot tells: the settings of its runs, what they reached and what they cost."""
    shown = columns(records_of(rows), _SHOWN)
    scores = [f"{column.name} {column.mean(row.records)}" for column in shown if column.metric.learning]
    return {
        "id": name,
        "label": row.label,
        "summary": ", ".join(scores),
        "facts": _facts(row, rows),
        "seeds": [(record.seed, links.get(id(record), "")) for record in row.records],
        "figures": [(c.heading, c.mean(row.records), *(c.cell(record) for record in row.records)) for c in shown],
    }


def _links(rows: Sequence[Row], folder: Path) -> dict[int, str]:
    """Where each run's own report is, as seen from the page; nothing where the two would not move together."""
    reports = {id(record): (record.path / "report.html").resolve() for record in records_of(rows)}
    here = folder.resolve()
    near = {key: path for key, path in reports.items() if path.is_file() and path.is_relative_to(here)}
    return {key: quote(path.relative_to(here).as_posix()) for key, path in near.items()}


def _facts(row: Row, rows: Sequence[Row]) -> str:
    """Family, method, and the settings that matter: the usual ones, and what tells it apart from its like."""
    from esacl.report.figures.families import family_of

    record = row.records[0]
    settings = settings_of(record)
    others = [other.records[0] for other in rows if other.records]
    twins = [settings_of(other) for other in others if other.method == record.method]
    names = {*_ALWAYS, "selection.keep", *differing(twins)}
    told = [f"{_FLAGS.get(name, name)} {settings[name]}" for name in sorted(names) if name in settings]
    return ", ".join([f"{record.method} ({family_of(row).name})", *told])
