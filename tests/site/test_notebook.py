"""The notebook runs from top to bottom, and is kept small."""

import json

import pytest

from tests.site.pages import DOCS, tool

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def test_the_first_steps_run_from_top_to_bottom():
    cells = json.loads((DOCS / "notebooks" / "first-steps.ipynb").read_text(encoding="utf-8"))["cells"]
    shortened = [
        ["EPOCHS = 1\n" if line.startswith("EPOCHS = ") else line for line in cell["source"]] for cell in cells
    ]
    assert shortened != [cell["source"] for cell in cells]
    for cell, source in zip(cells, shortened, strict=True):
        cell.update(source=source, outputs=[])
    session = {}
    tool("notebooks").execute(cells, session)
    outputs = [output for cell in cells for output in cell["outputs"]]
    told = "".join("".join(output.get("text", [])) for output in outputs)
    assert session["results"].density == pytest.approx(0.2, abs=0.01)
    assert session["history"] == sorted(session["history"])
    assert len(session["history"]) == 5
    assert "the same answers: True" in told
    assert sum("data" in output for output in outputs) == 3
    assert session["small"].stat().st_size < 0.3 * session["dense"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_has_a_page_and_small_outputs(path):
    assert path.stat().st_size < 200_000
    assert f"]({path.name})<!-- include -->" in path.with_suffix(".md").read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert all(output["output_type"] != "error" for cell in cells for output in cell.get("outputs", []))
    assert str(path.parents[2]) not in path.read_text(encoding="utf-8")
