"""Pages of docs/results from the runs behind them.

docs/results/data/NAME.tar.xz holds the settings and results of every run of recipes/SIZE/REST.toml (NAME is SIZE-REST).
Without arguments all pages are written anew from there: nothing is trained, and a recipe that asks for other runs than
the data hold is refused. With folders of `make study-NAME` or `make tune-NAME` (runs/studies/SIZE/REST) their runs are
packed first. Run: make results, or make results RUNS="runs/studies/digits/main"
"""

import argparse
import io
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import readout_page

from esacl.files import write_atomic
from esacl.grid.choice import choose
from esacl.grid.plan import Cell, lay_out
from esacl.grid.recipe import read_recipe
from esacl.grid.tables import as_page, write_tables
from esacl.grid.tuning import read_tuning
from esacl.grid.tuning_tables import PAGE, write_tuning

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "results"
DATA = PAGES / "data"
KEPT = ("config.toml", "results.json", ".asked.json", ".failed", ".stopped", f".{readout_page.ENDING}")
"""How the names of files end that are kept of a run."""


def pack(folder: Path) -> bytes:
    """The small files of all runs in a folder, as an archive that is the same for the same content."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:xz") as archive:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and path.name.endswith(KEPT) and "checkpoint" not in name.parts:
                entry = tarfile.TarInfo(str(name))
                content = path.read_bytes()
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return raw.getvalue()


def recipe_of(name: str) -> Path:
    """The recipe of a page: recipes/digits/main.toml of digits-main."""
    size, _, rest = name.partition("-")
    return ROOT / "recipes" / size / f"{rest}.toml"


def page(name: str, data: Path = DATA) -> str:
    """The page of a study, from its recipe and the archive of its runs."""
    recipe = recipe_of(name)
    command = f"make {'tune' if _tunes(recipe) else 'study'}-{name}"
    with TemporaryDirectory() as place:
        out = Path(place)
        with tarfile.open(data / f"{name}.tar.xz") as archive:
            archive.extractall(out, filter="data")
        if _tunes(recipe):
            tuning = read_tuning(recipe)
            cells = lay_out(tuning.recipe, out)
            _check(name, cells)
            write_tuning(tuning, choose(tuning, cells, "both"), cells, "both", out, command)
            return (out / PAGE).read_text(encoding="utf-8")
        read = read_recipe(recipe)
        cells = lay_out(read, out)
        _check(name, cells)
        write_tables(read, cells, out, command)
        parts = [(out / "table.md").read_text(encoding="utf-8"), readout_page.section(cells)]
        return as_page([part.strip() for part in parts])


def _tunes(recipe: Path) -> bool:
    """Whether a recipe says what to try."""
    tables = tomllib.loads(recipe.read_text(encoding="utf-8"))
    return "tune" in tables or any("tune" in row for row in tables.get("rows", ()))


def _check(name: str, cells: Sequence[Cell]) -> None:
    """Refuse data that are not those of the recipe of today."""
    for cell in cells:
        if cell.state() in ("new", "changed", "begun") and not cell.beside("failed").exists():
            raise SystemExit(
                f"{name}: {cell.point.name}, seed {cell.seed} is {cell.state()}: the recipe asks for other runs than "
                f"{name}.tar.xz holds. Run it and pack it again."
            )


def names(data: Path = DATA) -> Iterator[str]:
    """The studies whose runs are kept."""
    for path in sorted(data.glob("*.tar.xz")):
        yield path.name.removesuffix(".tar.xz")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="folders of grids whose runs to pack, SIZE/REST")
    for folder in parser.parse_args(arguments).folders:
        name = "-".join(folder.absolute().parts[-2:])
        if not recipe_of(name).is_file():
            parser.error(f"{folder} belongs to no recipe: there is no {recipe_of(name).relative_to(ROOT)}")
        with TemporaryDirectory() as place:  # a study that is not complete leaves what is kept as it is
            (Path(place) / f"{name}.tar.xz").write_bytes(packed := pack(folder))
            page(name, Path(place))
        write_atomic(DATA / f"{name}.tar.xz", packed)
    for name in names():
        write_atomic(PAGES / f"{name}.md", page(name))
        print(f"written: docs/results/{name}.md", file=sys.stderr)


if __name__ == "__main__":
    main()
