"""Docstrings as Markdown: lines `name : text` and `name: text` become lists (an extension of griffe in mkdocs.yml)."""

import re
from typing import Any

from griffe import Extension, Object

TITLE = re.compile(r"^(\w+)\n-{3,}$", flags=re.MULTILINE)
NAMED = re.compile(r"^(\w+(?:, \w+)*) ?: (?=\S)", flags=re.MULTILINE)


def paragraph(text: str) -> str:
    """A list where every line has a name or goes on from the line before; code where it is an example."""
    if text.startswith(">>>"):
        return f"```pycon\n{text}\n```"
    lines = text.splitlines()
    listed = len(lines) > 1 and all(NAMED.match(line) or line.startswith(" ") for line in lines)
    return NAMED.sub(r"- `\1`: ", text) if listed else text


def as_markdown(text: str) -> str:
    """The docstring with titles in bold, its named lines as a list, and examples as code.

    >>> print(as_markdown("Adds.\\n\\na: the first.\\nb: the second,\\n    or none."))
    Adds.
    <BLANKLINE>
    - `a`: the first.
    - `b`: the second,
        or none.
    """
    return "\n\n".join(paragraph(part) for part in re.split(r"\n\n+", TITLE.sub(r"**\1**\n", text)))


class AsMarkdown(Extension):
    """Called by griffe with every object it has read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring, where there is one."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
