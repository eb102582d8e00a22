"""Pages of HTML that need nothing else: made from the templates, and put in their place in one step."""

from pathlib import Path
from typing import Any

from esacl.errors import RunError
from esacl.files import write_atomic


def filled(template: str, **values: Any) -> str:
    """A template with its values, every one of which is escaped unless the template says otherwise."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(loader=PackageLoader("esacl.report"), autoescape=True, undefined=StrictUndefined)
    pages.trim_blocks = pages.lstrip_blocks = True
    return pages.get_template(template).render(**values)


def write_html(page: str, out: Path, remedy: str) -> Path:
    """Write a page; an existing file is replaced at once."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(out, page)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"cannot write the report to {str(out)!r}: {reason}. {remedy}") from None
    return out
