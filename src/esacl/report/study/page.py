"""What the page of a study says, in the order it says it."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from esacl.config import SHORT_NAMES
from esacl.paper import STREAMS
from esacl.report.columns import ALL_FIGURES, Column, columns
from esacl.report.differences import difference_sheet
from esacl.report.figures import Drawing
from esacl.report.groups import differing, settings_of
from esacl.report.html import pages, write_html
from esacl.report.record import RunRecord
from esacl.report.sheet import Line, Sheet, every_seed, sheets, tables_of
from esacl.report.study.families import family_of
from esacl.report.study.plots import themes
from esacl.report.view import GLOSSARY

_SHOWN = ("Task-IL", "Class-IL", "executed", "Capacity", "Training")
_ALWAYS = ("train.epochs", "train.batch_size", "update.lr", "objective.buffer", "sparsity.level", "gradient.rho")
_FLAGS = {path: name.replace("_", " ") for name, path in SHORT_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Study:
    """Many runs that answer one question, as far as they are."""

    title: str
    about: str
    lines: Sequence[Line]
    wanted: int
    finished: int
    failures: Sequence[tuple[str, str]] = ()  # run and reason
    stopped: Sequence[tuple[str, str]] = ()  # run and reason
    against: str | None = None  # row that the others are compared with; None: the first dense one


@dataclass(frozen=True, slots=True)
class RowView:
    """What a point of a plot tells: the settings of its runs, what they reached and what they cost."""

    id: str
    label: str
    summary: str
    facts: str
    seeds: tuple[tuple[int, str], ...]  # with the link to the run's own report, or nothing
    figures: tuple[tuple[str, ...], ...]  # name, mean, then each seed


@dataclass(frozen=True, slots=True)
class Part:
    """Plots under a heading."""

    title: str
    note: str
    drawings: tuple[Drawing, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """All about lines that may be compared."""

    main: Sheet
    everything: Sheet
    seeds: Sheet
    differences: Sheet | None  # from one of the rows
    targets: tuple[str, ...]  # id of the row of each line; empty where it has no run
    parts: tuple[Part, ...]
    rows: tuple[RowView, ...]


def write_page(study: Study, out: Path) -> Path:
    """Write the page of a study; an existing file is replaced at once."""
    return write_html(out, render(study, out.parent))


def render(study: Study, folder: Path) -> str:
    """The page as text, with links to the reports of those runs that are below its folder."""
    script = files("esacl.report").joinpath("templates/hover.js").read_text(encoding="utf-8")
    digest = "sha256-" + b64encode(sha256(script.encode()).digest()).decode()
    sections = [
        _section(members, folder, f"s{place}", study.against)
        for place, members in enumerate(tables_of(study.lines), start=1)
    ]
    facts = [("runs finished", f"{study.finished} of {study.wanted}"), ("rows", len(study.lines))]
    facts += [("failed", len(study.failures))] if study.failures else []
    facts += [("stopped", len(study.stopped))] if study.stopped else []
    given = {"study": study, "facts": facts, "sections": sections, "glossary": GLOSSARY}
    return pages().get_template("grid.html").render(**given, script=script, digest=digest)


def _section(lines: Sequence[Line], folder: Path, prefix: str, against: str | None) -> Section:
    paper = lines[0].stream in STREAMS
    ids = {id(line): f"{prefix}-row-{place}" for place, line in enumerate(lines, start=1)}
    parts = [
        Part(theme.title, theme.note, tuple(chart.drawing(prefix, ids) for chart in theme.charts))
        for theme in themes(lines)
    ]
    return Section(
        main=sheets(lines, paper, everything=False)[0],
        everything=sheets(lines, paper)[0],
        seeds=every_seed(lines)[0],
        differences=difference_sheet(lines, against),
        targets=tuple(ids[id(line)] if line.records else "" for line in lines),
        parts=tuple(parts),
        rows=tuple(_row(line, lines, folder, ids[id(line)]) for line in lines if line.records),
    )


def _row(line: Line, lines: Sequence[Line], folder: Path, name: str) -> RowView:
    chosen = [figure for figure in ALL_FIGURES if figure.name in _SHOWN and figure.family != "Forgetting"]
    shown = columns([record for other in lines for record in other.records], chosen)
    seeds = tuple((record.seed, _link(record, folder)) for record in line.records)
    figures = [(c.heading, c.mean(line.records), *(c.cell(record) for record in line.records)) for c in shown]
    return RowView(name, line.label, _summary(line, shown), _facts(line, lines), seeds, tuple(figures))


def _link(record: RunRecord, folder: Path) -> str:
    """Where the run's own report is, as seen from the page; empty where the two would not move together."""
    report, here = (record.path / "report.html").resolve(), folder.resolve()
    return quote(report.relative_to(here).as_posix()) if report.is_file() and report.is_relative_to(here) else ""


def _summary(line: Line, shown: Sequence[Column]) -> str:
    return ", ".join(f"{column.figure.name} {column.mean(line.records)}" for column in shown[:2])


def _facts(line: Line, lines: Sequence[Line]) -> str:
    """Family, method, and the settings that matter: the usual ones, and what tells it apart from its like."""
    record = line.records[0]
    settings = settings_of(record)
    twins = [settings_of(other.records[0]) for other in lines if other.records]
    names = {*_ALWAYS, "selection.keep", *differing([twin for twin in twins if twin["method"] == record.method])}
    told = [f"{_FLAGS.get(name, name)} {settings[name]}" for name in sorted(names) if name in settings]
    return ", ".join([f"{record.method} ({family_of(record).name})", *told])
