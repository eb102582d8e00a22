"""Runs a notebook from top to bottom and keeps what it shows: python docs/site/notebooks.py docs/notebooks/NAME.ipynb

A kernel is not needed: cells are plain Python in one namespace, `print` and `plt.show()` are all that they show with.
"""

import json
import sys
from base64 import b64encode
from contextlib import redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

DOTS_PER_INCH = 80


def lines(text: str) -> list[str]:
    """Text as notebooks store it."""
    return text.splitlines(keepends=True)


def picture() -> dict[str, Any]:
    """The present figure as an output; it is closed."""
    data = BytesIO()
    plt.savefig(data, format="png", dpi=DOTS_PER_INCH, bbox_inches="tight", metadata={"Software": None})
    plt.close()
    return {"output_type": "display_data", "metadata": {}, "data": {"image/png": b64encode(data.getvalue()).decode()}}


def execute(cells: list[dict[str, Any]], session: dict[str, Any]) -> None:
    """Run code cells in order and replace their outputs; what fails, fails here."""
    for number, cell in enumerate(cells, start=1):
        if cell["cell_type"] != "code":
            continue
        outputs: list[dict[str, Any]] = []
        showing, told = plt.show, StringIO()
        plt.show = lambda *_, outputs=outputs, **__: outputs.append(picture())
        try:
            with redirect_stdout(told):
                exec(compile("".join(cell["source"]), f"cell {number}", "exec"), session)
        finally:
            plt.show = showing
        if told.getvalue():
            outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": lines(told.getvalue())})
        cell["outputs"] = outputs


def main(path: Path) -> None:
    """Run the notebook at `path` and write it back with what it showed."""
    document = json.loads(path.read_text(encoding="utf-8"))
    execute(document["cells"], {})
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
