"""The table of the parity comparison, from its raw results, and its place in the documentation."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from esacl.files import write_atomic

BEGIN, END = "<!-- parity: begin -->", "<!-- parity: end -->"
SHOWN = {"sparsity.form": "form", "sparsity.level": "sparsity"}
NAMES = {"bare": "bare loop (fine-tuning)", "reference": "reference loop", "ours": "ours"}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """One line for each loop and its settings: accuracy of each seed, mean and spread, and time."""
    lines = [
        "| loop | fit loss | seeds | each seed: Class-IL / Task-IL (%) | Class-IL (%) | Task-IL (%) | × bare loop |",
        "|---|---|---|---|---|---|---|",
    ]
    for (loop, method, mask, *_), found in sorted(_groups(rows).items(), key=lambda item: _order(item[0])):
        found = dict(sorted(found.items()))
        each = "; ".join(f"{_percent(one['class_il'])} / {_percent(one['task_il'])}" for one in found.values())
        name = NAMES[loop] if loop == "bare" else f"{NAMES[loop]}, {method}"
        means = " | ".join(_spread(one[key] for one in found.values()) for key in ("class_il", "task_il"))
        ratio = mean(one["times_bare"] for one in found.values())
        lines.append(f"| {name} | {mask} | {', '.join(map(str, found))} | {each} | {means} | {ratio:.2f} |")
    return "\n".join(lines)


def write_page(page: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Put the table between the page's two markers."""
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SystemExit(
            f"error: {str(page)!r} has no place for the table. Write {BEGIN} and {END} on lines of their own."
        )
    if not rows:
        raise SystemExit("error: --out holds no results yet. Run the comparison first, without --page.")
    before, _, rest = text.partition(BEGIN)
    versions = sorted({", ".join(f"{name} {number}" for name, number in row["versions"].items()) for row in rows})
    told = f"{table(rows)}\n\nMeasured with {'; '.join(versions)}."
    write_atomic(page, f"{before}{BEGIN}\n{told}\n{END}{rest.partition(END)[2]}")


def _groups(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, ...], dict[int, dict[str, Any]]]:
    """What each loop has to show by seed, for each method and settings; fine-tuning is the same for all methods."""
    groups: dict[tuple[str, ...], dict[int, dict[str, Any]]] = {}
    for row in rows:
        settings = dict(row["settings"])
        seed, method, mask = settings.pop("seed"), settings["method"], settings["train.fit_loss"]
        size = f"{row['limit']} {row['test']} {settings['train.epochs']} {row['reference_lr']}"
        for loop, shown in row["loops"].items():
            own = str(sorted(settings.items())) if loop == "ours" else size
            words = _words(settings) if loop == "ours" else f"`{method}`"
            key = (loop, "" if loop == "bare" else words, mask, own)
            groups.setdefault(key, {}).setdefault(seed, shown)
    return groups


def _words(settings: dict[str, Any]) -> str:
    """A method, and those of its settings that tell its rows apart."""
    words = [f"`{settings['method']}`"]
    words += [f"{name} {settings[path]}" for path, name in SHOWN.items() if path in settings]
    return ", ".join(words) + (f", keep {keep}" if (keep := settings.get("selection.keep", 1)) < 1 else "")


def _order(key: tuple[str, ...]) -> tuple[Any, ...]:
    """Bare loops first, then by loss and method, the reference before ours."""
    loop, method, mask, own = key
    return loop != "bare", mask != "ce", method, loop == "ours", own


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _spread(shares: Iterable[float]) -> str:
    """Mean and, of several, sample standard deviation."""
    values = list(shares)
    return _percent(mean(values)) + (f" ±{_percent(stdev(values))}" if len(values) > 1 else "")
