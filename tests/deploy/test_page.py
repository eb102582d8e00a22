"""The page about using a model tells the truth: its snippets and the commands around them run in order."""

import re
from pathlib import Path

import pytest

from esacl.cli import app
from tests.cli.commands import esacl

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
BLOCKS = re.compile(r"```(python|console)\n(.*?)```", flags=re.DOTALL)


def commands(block):
    return [line.removeprefix("$ esacl ").split() for line in block.splitlines()]


def test_the_section_on_exports_runs_as_one_session(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    session = {}
    for language, block in BLOCKS.findall(PAGE.read_text(encoding="utf-8").split("## Export\n")[1]):
        if language == "python":
            exec(block, session)
        else:
            for words in commands(block):
                esacl(*words)
    lines = capsys.readouterr().out.splitlines()
    assert lines.count("True") == 3
    sizes = [(tmp_path / name).stat().st_size for name in ("digits.safetensors", "dense.safetensors")]
    assert sizes[0] < 0.25 * sizes[1]


def test_every_command_of_the_page_is_one_the_command_line_accepts():
    found = [
        words
        for language, block in BLOCKS.findall(PAGE.read_text())
        if language == "console"
        for words in commands(block)
    ]
    assert len(found) >= 8
    for words in found:
        command, _, ignored = app.parse_args(words, exit_on_error=False, print_error=False)
        assert command is not None
        assert not ignored
