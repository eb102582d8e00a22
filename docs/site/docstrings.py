"""Docstrings as Markdown: lines `name : text` and `name: text` become lists (an extension of griffe in mkdocs.yml)."""

import re
from typing import Any

from griffe import Extension, Object

TITLE = re.compile(r"^(\w+)\n-{3,}$", flags=re.MULTILINE)
NAMED = re.compile(r"^([a-z_][\w, ]*?) ?: (?=\S)", flags=re.MULTILINE)


def as_markdown(text: str) -> str:
    """The docstring with titles in bold and its named lines as a list, and examples as code.

    >>> print(as_markdown("Adds.\\n\\na: the first.\\nb: the second,\\n    or none."))
    Adds.
    <BLANKLINE>
    - `a`: the first.
    - `b`: the second,
        or none.
    """
    text = TITLE.sub(r"**\1**\n", text)
    parts = re.split(r"\n\n+", text)
    return "\n\n".join(
        f"```pycon\n{part}\n```" if part.startswith(">>>") else NAMED.sub(r"- `\1`: ", part) for part in parts
    )


class AsMarkdown(Extension):
    """Called by griffe with every object it has read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite the docstring, where there is one."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
