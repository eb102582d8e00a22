"""The command line is a promise: this test freezes it. A change here belongs into the changelog."""

import pytest

from esacl.cli import app

SURFACE = {
    "run": [
        "--augment",
        "--augment-copies",
        "--average",
        "--backbone",
        "--backbone-lr",
        "--batch-size",
        "--budget",
        "--buffer",
        "--cache",
        "--class-order",
        "--classes-per-task",
        "--code",
        "--columns",
        "--config",
        "--constraint",
        "--data-dir",
        "--device",
        "--epochs",
        "--feature-cache",
        "--fit-loss",
        "--freeze",
        "--gradient",
        "--image-size",
        "--json",
        "--keep",
        "--limit-per-class",
        "--logit-mask",
        "--lr",
        "--method",
        "--out",
        "--overwrite",
        "--precision",
        "--preset",
        "--processes",
        "--readout",
        "--resize",
        "--rho",
        "--scenario",
        "--seed",
        "--selection",
        "--set",
        "--sparsity",
        "--split",
        "--stream",
        "--tasks",
        "--tensorboard",
        "--threads",
        "--unpruned",
        "--update",
        "--weights",
        "--width",
    ],
    "resume": ["--backbone", "--code", "--json", "--method", "--processes", "--tensorboard", "DIRECTORY"],
    "report": ["--figures", "--out", "-o", "DIRECTORIES"],
    "grid": [
        "--code",
        "--dry-run",
        "--insecure",
        "--jobs",
        "--only",
        "--out",
        "--scheduler",
        "--seeds",
        "--tflops",
        "RECIPE",
    ],
    "tune": [
        "--all",
        "--code",
        "--dry-run",
        "--insecure",
        "--jobs",
        "--json",
        "--out",
        "--scheduler",
        "--score",
        "--seeds",
        "RECIPE",
    ],
    "table": ["--against", "--format", "--out", "--paper", "-o", "DIRECTORIES"],
    "leaderboard": ["--against", "--figures", "--format", "--out", "-o", "DIRECTORIES"],
    "landscape": [
        "--backbone",
        "--code",
        "--examples",
        "--json",
        "--out",
        "--rho",
        "--sparsity",
        "--steps",
        "-o",
        "DIRECTORIES",
    ],
    "readouts": ["--backbone", "--code", "--json", "--readout", "--set", "--split", "DIRECTORIES"],
    "inspect": ["--backbone", "--code", "--json", "MODEL"],
    "predict": ["--backbone", "--code", "--json", "--task", "--top", "IMAGES", "MODEL"],
    "evaluate": [
        "--backbone",
        "--code",
        "--data-dir",
        "--json",
        "--out",
        "--task",
        "-o",
        "DATA",
        "MODEL",
    ],
    "learn": [
        "--backbone",
        "--buffer",
        "--code",
        "--epochs",
        "--expected-tasks",
        "--freeze",
        "--holdout",
        "--image-size",
        "--max-classes",
        "--method",
        "--out",
        "--resize",
        "--seed",
        "--sparsity",
        "--weights",
        "--width",
        "-o",
        "FOLDER",
        "MODEL",
    ],
    "export": ["--backbone", "--code", "--compact", "--format", "--out", "--task", "-o", "MODEL"],
    "methods": ["--json", "NAME"],
    "parts": ["--json", "SLOT"],
    "streams": ["--json"],
    "data get": ["--data-dir", "--url", "NAME"],
    "data check": ["--data-dir", "--json"],
}


def collect(command):
    place = app
    for word in command.split():
        place = place[word]
    return place.assemble_argument_collection()


@pytest.mark.parametrize("command", SURFACE)
def test_the_command_line_is_as_promised(command):
    assert sorted(name for argument in collect(command) for name in argument.names) == SURFACE[command]


@pytest.mark.parametrize("command", SURFACE)
def test_every_option_has_a_help_line(command):
    for argument in collect(command):
        assert argument.parameter.help, argument.names


def test_there_are_no_other_commands():
    visible = [name for name in app if not name.startswith("-")]
    nested = [f"data {name}" for name in app["data"] if not name.startswith("-")]
    assert sorted([name for name in visible if name != "data"] + nested) == sorted(SURFACE)
