"""What a grid found: the lines of its tables, and the files that are written when it ends."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from shlex import quote

from esacl.documents import as_record, parse_json
from esacl.errors import RunError
from esacl.files import write_atomic
from esacl.grid.plan import Cell, failures, lay_out, stops
from esacl.grid.points import Point
from esacl.grid.recipe import Recipe, checked_seeds
from esacl.report import load_run
from esacl.report.differences import difference_table
from esacl.report.formats import as_csv, as_markdown, markdown_code, markdown_text, without_html
from esacl.report.leaderboard import BASELINE, leaderboard
from esacl.report.metrics import METRICS
from esacl.report.rows import Row, rows_of, tables_of
from esacl.report.table import seed_tables, tables
from esacl.report.units import clean
from esacl.streams import absolute

RECIPE = "grid.json"
"""The recipe of a grid as it was expanded, in the folder of the grid: what its tables are made from."""

FILES = (RECIPE, "table.md", "figures.csv")
"""What a grid writes into its folder, besides its page."""


def write_recipe(recipe: Recipe, seeds: Sequence[int], out: Path) -> None:
    """Leave in the folder of a grid what it compares."""
    points = [asdict(point) for point in recipe.points]
    about = {"title": recipe.title, "about": recipe.about, "against": recipe.against}
    document = {**about, "seeds": list(seeds), "points": points}
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / RECIPE, json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n")


def read_grid(out: Path) -> tuple[Recipe, list[Cell]]:
    """The grid in a folder, and its runs."""
    path = out / RECIPE
    try:
        found = as_record(parse_json(path.read_bytes()), Recipe)
        checked_seeds(found.seeds)
        recipe = replace(found, points=[replace(point, code=()) for point in found.points])  # no file starts code
    except (OSError, ValueError) as error:
        raise RunError(
            f"{str(path)!r} is damaged ({error}). Repeat `esacl grid` with its recipe: it writes the file anew."
        ) from None
    return recipe, lay_out(recipe, out)


def grid_lines(cells: Sequence[Cell]) -> list[Row]:
    """A line for each point, over its finished runs."""
    points = {id(cell.point): cell.point for cell in cells}
    return [_line(point, [cell for cell in cells if cell.point is point]) for point in points.values()]


def _line(point: Point, cells: Sequence[Cell]) -> Row:
    records = tuple(load_run(cell.path) for cell in cells if cell.state() == "finished")
    config = point.config(cells[0].seed)
    stream = records[0].stream if records else clean(absolute(config.stream).name)
    stopped = sum(cell.state() == "stopped" for cell in cells)
    axes = {clean(name): clean(value) if isinstance(value, str) else value for name, value in point.axes.items()}
    return Row(point.name, records, len(cells), stream, config.train.split, stopped, axes)


def found_lines(places: Sequence[Path]) -> list[Row]:
    """The lines of grids, run directories, and folders that hold some."""
    lines: list[Row] = []
    alone: list[Path] = []
    for place in places:
        if (place / RECIPE).is_file():
            lines += grid_lines(read_grid(place)[1])
        elif (place / "config.toml").is_file() or not place.is_dir():
            alone.append(place)
        elif place.resolve() == place.resolve().parent:
            raise RunError(f"{str(place)!r} holds all files of the system. Give the folder that holds the runs.")
        else:
            runs = sorted(path.parent for path in place.rglob("results.json") if (path.parent / "config.toml").exists())
            if not runs:
                raise RunError(
                    f"there is no finished run in {str(place)!r}. Give a directory of `esacl run` or `esacl grid`, or "
                    f"train one: `esacl run --out {quote(str(place))}`."
                )
            alone += runs
    return lines + rows_of([load_run(path) for path in alone])


def figures(cells: Sequence[Cell]) -> str:
    """One line for each finished run, as CSV."""
    axes = list(dict.fromkeys(axis for cell in cells for axis in cell.point.axes))
    rows: list[list[object]] = [["row", *axes, "seed", *METRICS]]
    for cell in cells:
        if cell.state() == "finished":
            run = load_run(cell.path)
            place = [cell.point.row, *(cell.point.axes.get(axis) for axis in axes)]
            rows.append([*place, cell.seed, *(metric.of(run) for metric in METRICS.values())])
    return as_csv(rows)


def write_tables(recipe: Recipe, cells: Sequence[Cell], out: Path, command: str) -> list[Row]:
    """Write table.md and figures.csv into the folder of a grid; returns what they show."""
    lines = grid_lines(cells)
    parts = page_head(recipe.title, recipe.about)
    parts.append(as_markdown(tables(lines)).strip())
    ranked = [leaderboard(members, recipe.against or BASELINE) for members in tables_of(lines)]
    if boards := [table for table in ranked if table is not None]:
        parts.append(f"## Equal budgets\n\n{as_markdown(boards).strip()}")
    compared = [difference_table(members, recipe.against) for members in tables_of(lines)]
    if found := [table for table in compared if table is not None]:
        parts.append(f"## Differences\n\n{as_markdown(found).strip()}")
    parts.append(f"## Every seed\n\n{as_markdown(seed_tables(lines)).strip()}")
    parts += [failed_section(cells), stopped_section(cells), measured_with(command, lines)]
    write_atomic(out / "table.md", as_page(parts))
    write_atomic(out / "figures.csv", figures(cells))
    return lines


def failed_section(cells: Sequence[Cell]) -> str:
    """The runs that failed and why, as Markdown; empty where none did."""
    told = [f"- {markdown_text(name)}: {markdown_text(why)}" for name, why in failures(cells)]
    return "\n".join(["## Failed\n", *told]) if told else ""


def stopped_section(cells: Sequence[Cell]) -> str:
    """The runs that were stopped and why, as Markdown; empty where none was."""
    told = [f"- {markdown_text(name)}: {markdown_text(why)}" for name, why in stops(cells)]
    return "\n".join(["## Stopped\n", *told]) if told else ""


def measured_with(command: str, lines: Sequence[Row]) -> str:
    """What gave the figures."""
    records = [record for line in lines for record in line.records]
    versions = sorted({f"{name} {record.versions[name]}" for record in records for name in record.versions})
    return f"Measured with {markdown_code(command)}" + (
        f" ({markdown_text(', '.join(versions))})." if versions else "."
    )


def page_head(title: str, about: str) -> list[str]:
    """What a recipe says of itself; its author may mark up, but not write HTML."""
    return [f"# {markdown_text(title)}", without_html(about)]


def as_page(parts: Sequence[str]) -> str:
    """The parts of a Markdown page that have something to say."""
    return "\n\n".join(part for part in parts if part) + "\n"
