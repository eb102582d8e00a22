"""What a tuning found, for people and for programs: the choice for every row, and every trial."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from esacl.config import Scenario
from esacl.files import write_atomic
from esacl.grid.choice import Choice, Trial
from esacl.grid.chosen import chosen_recipe
from esacl.grid.plan import Cell
from esacl.grid.tables import RECIPE as GRID
from esacl.grid.tables import as_page, failed_section, measured_with, page_head
from esacl.grid.tuning import Tuning
from esacl.report.formats import as_markdown, markdown_code
from esacl.report.record import SETTINGS, RunRecord
from esacl.report.rows import Spread, spread
from esacl.report.scale import scale_words
from esacl.report.table import Entry, Table
from esacl.report.units import DASH, PERCENT
from esacl.streams.choose import held_out

RECIPE = "chosen.toml"
PAGE = "tuning.md"
DOCUMENT = "tuning.json"
FILES = (GRID, RECIPE, PAGE, DOCUMENT)
"""What a tuning writes into its folder."""

WORDS: Mapping[Scenario, str] = {
    "both": "the mean of Task-IL and Class-IL, or Task-IL alone where a method must be told the task",
    "task-il": "Task-IL",
    "class-il": "Class-IL",
}
_HEAD = ("seeds", "Task-IL (%)", "Class-IL (%)", "Score (%)")


def write_tuning(
    tuning: Tuning, choices: Sequence[Choice], cells: Sequence[Cell], score: Scenario, out: Path, command: str
) -> None:
    """Write chosen.toml, tuning.md and tuning.json into the folder of a tuning."""
    told = how(tuning, score)
    lines = [trial.line for choice in choices for trial in choice.trials]
    parts = [*page_head(tuning.recipe.title, tuning.recipe.about), told, as_markdown([summary(choices)]).strip()]
    parts += ["## Every trial", as_markdown(trial_tables(choices)).strip()]
    parts += [failed_section(cells), measured_with(command, lines)]
    write_atomic(out / PAGE, as_page(parts))
    write_atomic(out / DOCUMENT, as_json(tuning, choices, score))
    if any(choice.best for choice in choices):
        write_atomic(
            out / RECIPE, chosen_recipe(tuning, choices, f"Settings chosen by {markdown_code(command)}. {told}")
        )
    else:
        (out / RECIPE).unlink(missing_ok=True)


def how(tuning: Tuning, score: Scenario) -> str:
    """How the settings were chosen."""
    seeds = ", ".join(map(str, tuning.recipe.seeds))
    return (
        f"{tuning.trials_a_row} trials for every row, on the validation split, seeds {seeds}. "
        f"Chosen: the highest mean over the seeds of {WORDS[score]}."
    )


def summary(choices: Sequence[Choice]) -> Table:
    """The best trial of every row, and how clear the choice was."""
    rows = []
    for choice in choices:
        if choice.best is None:
            rows.append((Entry(f"{choice.row.name}: every trial failed"), *(Entry(DASH) for _ in range(6))))
            continue
        near, end = f"{choice.near} of {len(choice.trials)}", "yes" if choice.ends else "no"
        rows.append((Entry(f"{choice.row.name}: {choice.best.label}"), *_figures(choice.best), Entry(near), Entry(end)))
    head = ("chosen", *_HEAD, "within 1 point", "at an end")
    return Table("Chosen on the validation split", head, tuple(rows), _caption(choices))


def trial_tables(choices: Sequence[Choice]) -> list[Table]:
    """Every trial of every row."""
    return [_trials(choice) for choice in choices]


def _trials(choice: Choice) -> Table:
    rows = []
    for trial in choice.trials:
        best = trial is choice.best
        entries = (Entry(trial.label), *_figures(trial), Entry("yes" if best else ""))
        rows.append(tuple(Entry(entry.text, best) for entry in entries))
    return Table(choice.row.name, ("trial", *_HEAD, "chosen"), tuple(rows), clearness(choice))


def _figures(trial: Trial) -> list[Entry]:
    """Mean ± sample standard deviation over the seeds that finished; the score is that of a whole trial."""
    found = [PERCENT(each.mean, each.std) if each else DASH for each in (*_accuracy(trial), trial.score)]
    return [Entry(trial.line.seeds), *map(Entry, found)]


def _accuracy(trial: Trial) -> list[Spread | None]:
    return [spread([record.accuracy.of(setting) for record in trial.line.records]) for setting in SETTINGS]


def clearness(choice: Choice) -> str:
    """How flat the optimum is, and whether it may lie beyond what was tried."""
    failed = sum(trial.score is None for trial in choice.trials)
    lost = f" Trials with a seed that failed, and thus the worst: {failed}." if failed else ""
    if choice.best is None:
        return "Every trial failed, so nothing is chosen."
    flat = f"Within 1 point of the best, itself included: {choice.near} of {len(choice.trials)} trials."
    ends = [
        f" {name} {choice.best.settings[name]} is the {end} of the {len(choice.row.tried[name])} values tried."
        for name, end in choice.ends.items()
    ]
    advice = " A better value may lie beyond." if ends else ""
    return flat + "".join(ends) + advice + lost


def _caption(choices: Sequence[Choice]) -> str:
    told = [
        "Mean ± sample standard deviation over the seeds. Within 1 point: trials whose score is at most 1 point below "
        "the best, itself included; many mean that the choice matters little. At an end: the chosen value of a setting "
        "is the smallest or the largest of three or more."
    ]
    named = [(choice.row.name, _records(choice)) for choice in choices if _records(choice)]
    return " ".join([*told, *scale_words(named, paper=False), *_held_out(named)])


def _held_out(named: Sequence[tuple[str, Sequence[RunRecord]]]) -> list[str]:
    """How many validation images of a class there were, where the number of images a class is limited."""
    streams = [record.config.get("stream", {}) for _, records in named for record in records]
    counts = {
        held_out(stream["limit_per_class"], stream["validation"])
        for stream in streams
        if stream.get("limit_per_class", 0) > 1 and "validation" in stream
    }
    limited = all("limit_per_class" in stream for stream in streams)
    return [f"Validation images a class: {', '.join(map(str, sorted(counts)))}."] if counts and limited else []


def _records(choice: Choice) -> list[RunRecord]:
    return [record for trial in choice.trials for record in trial.line.records]


def as_json(tuning: Tuning, choices: Sequence[Choice], score: Scenario) -> str:
    """The same for programs: shares, under names that stay."""
    document = {
        "title": tuning.recipe.title,
        "split": "validation",
        "score": score,
        "seeds": tuning.recipe.seeds,
        "trials_a_row": tuning.trials_a_row,
        "rows": [_row_document(choice) for choice in choices],
    }
    return json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n"


def _row_document(choice: Choice) -> dict[str, Any]:
    return {
        "row": choice.row.name,
        "tried": choice.row.tried,
        "chosen": None if choice.best is None else choice.best.settings,
        "within_1_point": choice.near,
        "at_an_end": choice.ends,
        "trials": [
            {
                "settings": trial.settings,
                "finished": len(trial.line.records),
                "wanted": trial.line.wanted,
                **{name: _spread(each) for name, each in zip(("task_il", "class_il"), _accuracy(trial))},
                "score": _spread(trial.score),
                "chosen": trial is choice.best,
            }
            for trial in choice.trials
        ],
    }


def _spread(found: Spread | None) -> dict[str, float | None] | None:
    return None if found is None else {"mean": found.mean, "std": found.std}
