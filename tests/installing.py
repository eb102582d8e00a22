"""Packages that are installed for the length of a test: a folder on the path with the metadata that pip would write."""

import tomllib
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"


def install_example(folder, monkeypatch):
    """The package in examples/plugin."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    install(folder, monkeypatch, project["name"], project["entry-points"])
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))


def install(folder, monkeypatch, name, points, code=None):
    """A package that offers entry points by group and name; `code` is its module, if it has one of its own."""
    place = folder / f"{name.replace('-', '_')}-0.1.0.dist-info"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in own.items()) for group, own in points.items()
    ]
    (place / "entry_points.txt").write_text("\n".join(lines))
    if code is not None:
        (folder / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))
