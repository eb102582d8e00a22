"""The site's pages, and its tools in docs/site, which are not a package."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def tool(name):
    """A module of docs/site."""
    spec = spec_from_file_location(f"docs_site_{name}", DOCS / "site" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page):
    """Language and text of the blocks of a page that claim to be runnable, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```(python|console)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
