"""What the site does to pages before MkDocs renders them (a hook of mkdocs.yml).

- A line `[title](file)<!-- include -->` is replaced by the file, or by the section that an anchor names, with links
  that are right where it is put. On other readers of Markdown it is a link. A notebook is shown with its outputs.
- SVG pictures become part of the page, so that they take the colours of its light or dark scheme.
"""

import json
import re
from os.path import relpath
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
STANDS_FOR = {
    ROOT / "README.md": DOCS / "index.md",
    ROOT / "CONTRIBUTING.md": DOCS / "contributing.md",
    ROOT / "SECURITY.md": DOCS / "security.md",
    ROOT / "CHANGELOG.md": DOCS / "changelog.md",
    DOCS / "methods": DOCS / "methods" / "README.md",
}
"""Files that are not pages of the site, and the page to go to instead."""

INCLUDE = re.compile(r"^\[[^\]]*\]\(([^)#]+)(?:#([^)]+))?\)<!-- include -->$", flags=re.MULTILINE)
LINK = re.compile(r"```.*?```|`[^`\n]+`|(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)]*)?\)", flags=re.DOTALL)  # code is skipped
PICTURE = re.compile(r'<img alt="[^"]*" src="([^"]+\.svg)"[^>]*>')


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site have it."""
    return re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-")


def section(text: str, name: str) -> str:
    """What is below the heading of that anchor, up to the next that is as high."""
    for found in re.finditer(r"^(#+) (.*)$", text, flags=re.MULTILINE):
        if anchor(found[2]) == name:
            below = text[found.end() :]
            end = re.search(rf"^#{{1,{len(found[1])}}} ", below, flags=re.MULTILINE)
            return below[: end.start() if end else None].strip("\n")
    raise ValueError(f"there is no heading with the anchor {name!r}")


def relocated(text: str, source: Path, page: Path) -> str:
    """The text of a file with its links as they are from a page; what the site does not have is named, not linked."""

    def link(found: re.Match[str]) -> str:
        picture, words, target, place = found.groups()
        if target is None or re.match(r"\w+:", target):
            return found[0]
        goal = (source.parent / target).resolve()
        goal = STANDS_FOR.get(goal, goal)
        if DOCS not in goal.parents:
            return words
        return f"{picture}[{words}]({relpath(goal, page.parent)}{place or ''})"

    return LINK.sub(link, text)


def notebook(text: str) -> str:
    """A notebook as Markdown, with its outputs."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
        for output in cell.get("outputs", []):
            data = output.get("data", {"text/plain": output.get("text", [])})
            if "image/png" in data:
                parts.append(f"![]({'data:image/png;base64,' + ''.join(data['image/png']).strip()})")
            else:
                parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts)


def expanded(text: str, page: Path) -> str:
    """The text of a page with everything that it includes."""

    def content(found: re.Match[str]) -> str:
        source = (page.parent / found[1]).resolve()
        told = source.read_text(encoding="utf-8")
        if source.suffix == ".ipynb":
            return notebook(told)
        return relocated(section(told, found[2]) if found[2] else told, source, page)

    return INCLUDE.sub(content, text)


def inlined(path: Path) -> str:
    """A picture as part of a page; its style is for itself only."""
    text = path.read_text(encoding="utf-8")
    style = re.search(r"<style>(.*?)</style>", text, flags=re.DOTALL)
    if style is None:
        raise ValueError(f"{path} has no <style>: draw it as docs/site/pictures.py does")
    own = re.sub(r"([^{}]+)\{", r".picture \1{", style[1])
    return f'<span class="picture">{text.replace(style[1], own).replace(chr(10), "")}</span>'


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by MkDocs with the text of every page."""
    return expanded(markdown, DOCS / page.file.src_uri)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called by MkDocs with every rendered page."""
    return PICTURE.sub(lambda found: inlined(DOCS / "images" / Path(found[1]).name), html)
