"""The pages about networks of one's own and about watching runs tell the truth: all that they show runs in order."""

import re
import sys
from pathlib import Path

import pytest

from tests.cli.commands import esacl

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = re.compile(r"```(python|console)\n(.*?)```", flags=re.DOTALL)


def session(page, skip=0):
    """Run the snippets and commands of a page, but for the first ones; what Python knows afterwards."""
    known = {}
    for language, block in BLOCKS.findall((DOCS / page).read_text(encoding="utf-8"))[skip:]:
        if language == "python":
            exec(block, known)
        else:
            for line in block.splitlines():
                if line.startswith("$ esacl "):
                    esacl(*line.removeprefix("$ esacl ").split())
    return known


def test_the_page_about_networks_of_ones_own_runs_as_one_session(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    code = BLOCKS.findall((DOCS / "own-network.md").read_text(encoding="utf-8"))[0][1]
    (tmp_path / "mynets.py").write_text(code)
    monkeypatch.delitem(sys.modules, "mynets", raising=False)  # that of another folder
    session("own-network.md", skip=1)
    told = capsys.readouterr().out
    assert "20.0% of the weights of esacl-der++ are in use" in told
    assert "backbone.block.self_attn.in_proj_weight" in told
    assert (tmp_path / "rows.safetensors").exists()


def test_the_page_about_watching_a_run_runs_as_one_session(tmp_path, monkeypatch, capsys):
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    session("trackers.md")
    told = capsys.readouterr().out
    assert "task 2, epoch 2: loss" in told
    assert "task 3" not in told, "the loop was left"
    assert "when the task is known; all is in runs/watched" in told
    assert len(re.findall(r"^\{'task': \d, 'mean'", told, flags=re.MULTILINE)) == 5
    assert (tmp_path / "runs" / "watched" / "tensorboard").is_dir()
