"""The report: one HTML file that needs nothing else."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from esacl.errors import RunError
from esacl.files import write_atomic
from esacl.report.groups import contests
from esacl.report.load import load_run
from esacl.report.record import RunRecord
from esacl.report.view import GLOSSARY, view_contest, view_run


def write_report(run_dirs: Sequence[Path], out: Path) -> Path:
    """Write the report of one run, or the comparison of several, to `out`; an existing file is replaced at once."""
    directories = list({path.resolve(): path for path in run_dirs}.values())
    if not directories:
        raise RunError(
            "there is nothing to report: no run directory was given. Give one or more that `esacl run` made."
        )
    return write_html(out, render([load_run(path) for path in directories]))


def write_html(out: Path, page: str) -> Path:
    """Write a page; an existing file is replaced at once."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, page)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(
            f"cannot write the report to {str(out)!r}: {reason}. The results are saved: put that right, or write the "
            f"report elsewhere with `esacl report DIR --out FILE`."
        ) from None
    return out


def render(records: Sequence[RunRecord]) -> str:
    """The page as text: always the same for the same runs."""
    found = contests(records)
    labelled = [(record, group.label) for contest in found for group in contest.groups for record in group.records]
    ids = {id(record): f"run-{place + 1}" for place, (record, _) in enumerate(labelled)}
    runs = {ids[id(record)]: view_run(record, label, ids[id(record)]) for record, label in labelled}
    compared = [view_contest(contest, ids, f"stream-{place + 1}") for place, contest in enumerate(found)]
    template = "comparison.html" if len(records) > 1 else "single.html"
    return pages().get_template(template).render(runs=runs, contests=compared, glossary=GLOSSARY)


def pages() -> Environment:
    """The templates."""
    loader = PackageLoader("esacl.report")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
