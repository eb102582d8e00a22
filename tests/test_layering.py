"""Data flows one way: a module imports only from layers to its left, and the axes never see each other."""

import ast
from pathlib import Path

import pytest

import esacl

ROOT = Path(esacl.__file__).parent
LAYERS = [
    {
        "allocator",
        "budget",
        "code",
        "columns",
        "documents",
        "errors",
        "plugins",
        "problem",
        "short_names",
        "slots",
        "toml",
        "options",
        "pickles",
        "ranking",
        "presets",
        "rng",
        "run_lock",
        "sealed",
        "types",
        "files",
        "net_settings",
        "stream_settings",
        "version",
        "paper",
    },
    {"config"},
    {"machine", "streams"},
    {"nets"},
    {"part"},
    {"objectives", "optim", "sparsity", "selection", "readouts"},
    {"training"},
    {"metrics"},
    {"results", "artifacts"},
    {"report"},
    {"methods"},
    {"assembly"},
    {"processes"},
    {"runner"},
    {"events", "grid", "landscape", "testing", "trackers"},
    {"estimator"},
    {"deploy"},
    {"__init__"},
    {"cli"},
    {"__main__"},
]
AXES = {"objectives", "optim", "sparsity", "selection", "readouts"}
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
SEES_ALL_AXES = {"__init__", "methods", "training", "cli"}
MODULES = sorted(ROOT.rglob("*.py"))


def top(path: Path) -> str:
    """The layer's member that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Members of the library that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names] if node.module == "esacl" else [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name and name.startswith("esacl.")}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_from_layers_to_its_left(path):
    member = top(path)
    for other in imported(path) - {member}:
        assert RANK[other] < RANK[member] or (RANK[other] == RANK[member] and member not in AXES), (
            f"{path.relative_to(ROOT)} imports esacl.{other}, which is not to its left"
        )


def test_only_the_composition_sees_all_axes():
    seers = {top(path) for path in MODULES if len(imported(path) & AXES) > 1}
    assert seers <= SEES_ALL_AXES


def test_no_file_is_longer_than_300_lines():
    files = [*MODULES, *Path(__file__).parent.rglob("*.py")]
    long = {str(path): count for path in files if (count := len(path.read_text(encoding="utf-8").splitlines())) > 300}
    assert not long
