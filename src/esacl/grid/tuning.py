"""The recipe of a tuning: a grid's rows, and for each of them the settings to try, equally many for every row."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from esacl.config import SHORT_NAMES, Scenario
from esacl.errors import ConfigError
from esacl.grid.points import Point, dotted
from esacl.grid.recipe import Recipe, checked_seeds, expand, read_tables, recipe_of, rows_of
from esacl.methods import check_settings, compose

SPLIT = "train.split"
LEAST_SEEDS = 2


@dataclass(frozen=True, slots=True)
class TunedRow:
    """A row of the comparison to be: what is tried for it, and every trial."""

    name: str
    tried: Mapping[str, Sequence[Any]]
    trials: Sequence[Point]

    def settings(self, trial: Point) -> dict[str, Any]:
        """What a trial has that others of its row do not."""
        return {name: trial.axes[name] for name in self.tried}


@dataclass(frozen=True, slots=True)
class Tuning:
    """What is tuned: the trials as a grid, by row, and what all runs share."""

    recipe: Recipe
    base: Mapping[str, Any]  # by dotted name
    rows: Sequence[TunedRow]

    @property
    def trials_a_row(self) -> int:
        """How many settings each row may try."""
        return len(self.rows[0].trials)


def read_tuning(
    path: Path, seeds: Sequence[int] | None = None, score: Scenario = "both", code: Collection[str] = ()
) -> Tuning:
    """The tuning in a file; whatever would make it unfair or meaningless is told before anything starts.

    `code` are names of code that may be started: what only the file names is refused.
    """
    given = read_tables(path)
    shared = given.pop("tune", {})
    rows = [row for table in rows_of(given, path) for row in _tuned(table, shared, given, path, code)]
    _check_equal(rows)
    recipe = recipe_of(given, [trial for row in rows for trial in row.trials], path)
    recipe = replace(recipe, seeds=_enough(recipe.seeds if seeds is None else checked_seeds(seeds)))
    _check_answers(rows, score)
    return Tuning(recipe, dotted(given.get("base", {}), "base"), rows)


def _tuned(table: Any, shared: Any, given: Mapping[str, Any], path: Path, code: Collection[str]) -> list[TunedRow]:
    """A row at every point of its axes, each with the same trials: they are the axes that vary fastest."""
    row = dict(table) if isinstance(table, dict) else {}
    where = f"row {row.get('name', 'without a name')!r}"
    tried = row.pop("tune", shared)
    if not isinstance(tried, dict):
        raise ConfigError(f"tune = {tried!r} in {where} is not allowed. Allowed: a table of lists.")
    axes = row.get("axes", given.get("axes", {}))
    if isinstance(axes, dict):  # what else it is, the grid tells
        _check_tried(tried, axes, row, where)
        row["axes"] = {**axes, **tried}
    trials: dict[str, list[Point]] = {}
    for point in expand({**given, "rows": [row]}, path, code):
        rest = {name: value for name, value in point.axes.items() if name not in tried}
        trials.setdefault(Point(point.row, rest, {}).label, []).append(_on_validation(point))
    return [TunedRow(name, tried, members) for name, members in trials.items()]


def _check_tried(tried: Mapping[str, Any], axes: Mapping[str, Any], row: Mapping[str, Any], where: str) -> None:
    """Refuse what is given twice, and trials that could not be compared."""
    for name in tried:
        place = SHORT_NAMES.get(name, name)
        if name in row:
            raise ConfigError(f"{where} sets {name} = {row[name]!r} and tunes it too. Leave it out of one of the two.")
        if name in axes:
            raise ConfigError(f"{where} has {name!r} in axes and in tune. Tune it, or keep it as an axis; not both.")
        if place in (SPLIT, "train.scenario") or (place.startswith("stream.") and place != "stream.augment"):
            raise ConfigError(
                f"{where} tunes {name!r}, but trials with other data or another measure cannot be compared. Write "
                f"axes = {{ {name} = [...] }} instead: each value is then tuned for itself."
            )


def _on_validation(point: Point) -> Point:
    """The same trial, judged on the validation split."""
    split = point.settings.get(SPLIT, "validation")
    if split != "validation":
        raise ConfigError(
            f"{point.label!r} has split = {split!r}, but settings chosen on the images that are reported make the "
            f"result too good. A tuning is judged on validation: leave split out. The chosen.toml that it writes "
            f"says split = 'test'."
        )
    return replace(point, settings={**point.settings, SPLIT: "validation"})


def _check_equal(rows: Sequence[TunedRow]) -> None:
    """Refuse a tuning in which some rows may try more than others."""
    if len({len(row.trials) for row in rows}) > 1:
        told = [
            f"{row.name} {len(row.trials)} "
            f"({' × '.join(str(len(values)) for values in row.tried.values()) or 'nothing to tune'})"
            for row in rows
        ]
        raise ConfigError(
            f"the rows do not have the same number of trials: {', '.join(told)}. A row that may try more looks better "
            f"than it is. Give every row as many trials."
        )
    if len(rows[0].trials) == 1:
        raise ConfigError(
            "there is nothing to choose from: every row has one trial. Write [tune], or tune = { lr = [0.01, 0.03] } "
            "in each row."
        )


def _enough(seeds: list[int]) -> list[int]:
    """The same seeds, if a mean over them says more than luck."""
    if len(seeds) < LEAST_SEEDS:
        raise ConfigError(
            f"seeds = {seeds!r} is one seed, and the best of several trials with one seed is mostly the luckiest. "
            f"Give at least {LEAST_SEEDS}, such as seeds = [0, 1], or --seeds 0 1."
        )
    return seeds


def _check_answers(rows: Sequence[TunedRow], score: Scenario) -> None:
    """Refuse a score that a row will not have."""
    for row in rows if score == "class-il" else ():
        config = row.trials[0].config(seed=0)
        chosen = compose(config, code=row.trials[0].code)
        if chosen.needs_task(check_settings(config, chosen)) or config.train.scenario == "task-il":
            raise ConfigError(
                f"row {row.name!r} has no Class-IL accuracy, as it must be told the task, so --score class-il cannot "
                f"choose for it. Use --score both, which then is Task-IL, or leave the row out."
            )
