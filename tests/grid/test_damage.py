"""The file of a grid, as anyone may send it."""

import json
import tomllib
from pathlib import Path

import pytest
import tomli_w

from esacl.errors import ConfigError, RunError
from esacl.grid.recipe import read_recipe
from esacl.grid.tables import figures, found_lines, grid_lines, read_grid, write_recipe
from esacl.grid.twins import check_kinds
from esacl.report import load_run
from tests.report.fabricate_grid import write_grid


@pytest.mark.parametrize(
    "change",
    [
        lambda document: document["points"][0].update(row=[0]),
        lambda document: document["points"][0].update(axes=3),
        lambda document: document.update(seeds=["a"]),
        lambda document: document.update(seeds=[-1]),
        lambda document: document.update(title=None),
        lambda document: document.update(points={}),
    ],
)
def test_a_damaged_file_of_a_grid_is_refused(recipe, tmp_path, change):
    wanted = read_recipe(recipe())
    write_recipe(wanted, wanted.seeds, tmp_path / "grid")
    path = tmp_path / "grid" / "grid.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(RunError, match="is damaged"):
        read_grid(tmp_path / "grid")


@pytest.mark.parametrize("kinds", [[["weights"]], [{"x": "weights"}], [None]])
def test_twins_that_are_no_names_are_refused(kinds):
    with pytest.raises(ConfigError, match="unknown twin"):
        check_kinds(kinds, "the row")


def test_bytes_that_are_no_text_beside_a_run_count_as_other_settings(recipe, tmp_path):
    (cell, *_) = write_grid(tmp_path / "grid", recipe().read_text())
    cell.beside("asked.json").write_bytes(b"\xff\xfe")
    assert cell.state() == "changed"


@pytest.mark.parametrize("line", ['net = "mlp"', "[selection]\nkeep = 'most'"])
def test_a_run_whose_settings_cannot_be_shown_is_refused(recipe, tmp_path, line):
    (cell, *_) = write_grid(tmp_path / "grid", recipe().read_text())
    path = cell.path / "config.toml"
    tables = {**tomllib.loads(path.read_text()), **tomllib.loads(line)}
    path.write_text(tomli_w.dumps(tables))
    with pytest.raises(RunError, match="is damaged"):
        load_run(cell.path)


def test_the_file_of_a_grid_gives_the_same_points_but_no_consent_to_code(recipe, tmp_path):
    wanted = read_recipe(recipe(), code=["mine:open"])
    write_recipe(wanted, wanted.seeds, tmp_path / "grid")
    found, _ = read_grid(tmp_path / "grid")
    assert [(point.label, point.settings) for point in found.points] == [
        (point.label, point.settings) for point in wanted.points
    ]
    assert {point.code for point in found.points} == {()}


def test_no_character_of_a_name_commands_a_terminal_or_hides_a_row(recipe, tmp_path):
    wanted = read_recipe(recipe())
    write_recipe(wanted, wanted.seeds, tmp_path / "grid")
    path = tmp_path / "grid" / "grid.json"
    document = json.loads(path.read_text())
    document["points"][0].update(row="a\x1b[31m", axes={"rho": "a\0b", "\u202e": 1})
    path.write_text(json.dumps(document))
    _, cells = read_grid(tmp_path / "grid")
    line = grid_lines(cells)[0]
    for told in (cells[0].name, line.label, *map(str, [*line.axes, *line.axes.values()])):
        assert told.isprintable(), ascii(told)
    assert figures(cells).replace("\n", "").isprintable()


def test_the_whole_system_is_not_searched_for_runs():
    with pytest.raises(RunError, match="holds all files of the system"):
        found_lines([Path("/")])
