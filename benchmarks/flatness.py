"""Is the pruned point of EsaCL in a flatter region than that of SGD, at equal training loss?

Sharpness within a fixed ρ follows the loss, so a network that fits better looks flatter. Here every form is trained on
Split digits for several numbers of epochs, which gives it several losses. A line through log sharpness over log loss,
for each seed, tells the sharpness at one common loss: the middle of the range that all forms reach. Raw figures go to
--out; runs that are there are not trained again. A small form: --epochs 1 2 --seeds 0 1. Run: make bench-flatness
"""

import argparse
import gzip
import json
import sys
from collections.abc import Sequence
from math import exp, log
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import esacl
from esacl.files import write_atomic
from esacl.landscape import landscape
from esacl.metrics.seeds import paired_difference

SGD = "SGD, the same pruning"
FORMS: dict[str, dict[str, Any]] = {
    "EsaCL": {},
    "EsaCL with ascent, ρ 0.05": {"gradient": {"rho": 0.05}},
    SGD: {"sparsity": {"sharpness": False, "polytope": False}, "update": {"lr": 0.03}},
}
"""Forms of esacl-der++ that are compared."""

POINTS = {"before": ("loss", "sharpness"), "after": ("pruned_loss", "pruned_sharpness")}
"""Where the loss and the sharpness are taken: before the last pruning, and after it."""


def measured(form: str, epochs: int, seed: int) -> dict[str, Any]:
    """Train a form for so many epochs a task and look at the loss around it."""
    tables = FORMS[form]
    settings = {
        **tables,
        "method": "esacl-der++",
        "seed": seed,
        "stream": {"name": "split-digits"},
        "train": {"epochs": epochs},
        "objective": {"buffer": 50},
        "sparsity": {"level": 0.8, **tables.get("sparsity", {})},
    }
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        esacl.run(esacl.Config.from_mapping(settings), out=out)
        found = landscape(out, steps=2).to_json()
    figures = {name: found[name] for pair in POINTS.values() for name in pair}
    return {"form": form, "epochs": epochs, "seed": seed, **figures}


def common_loss(runs: Sequence[dict[str, Any]], loss: str) -> float:
    """The geometric middle of the losses that every form reaches in every seed."""
    groups: dict[tuple[str, int], list[float]] = {}
    for run in runs:
        groups.setdefault((run["form"], run["seed"]), []).append(run[loss])
    low, high = max(map(min, groups.values())), min(map(max, groups.values()))
    if low > high:
        raise SystemExit(
            f"no {loss} is reached by every form in every seed ({low:.2f} > {high:.2f}): try other --epochs."
        )
    return exp((log(low) + log(high)) / 2)


def sharpness_at(common: float, runs: Sequence[dict[str, Any]], loss: str, sharpness: str) -> float:
    """Log sharpness at a loss, by a line through the runs of one form and seed."""
    slope, start = np.polyfit([log(run[loss]) for run in runs], [log(run[sharpness]) for run in runs], 1)
    return float(start + slope * log(common))


def table(runs: Sequence[dict[str, Any]], seeds: Sequence[int]) -> str:
    """Sharpness of every form at the common loss, and its ratio to SGD's with a 95 % interval over seeds."""
    lines = ["| last pruning | training loss | form | sharpness | ratio to SGD |", "|---|---|---|---|---|"]
    for when, (loss, sharpness) in POINTS.items():
        common = common_loss(runs, loss)
        at = {
            form: [
                sharpness_at(common, [r for r in runs if (r["form"], r["seed"]) == (form, seed)], loss, sharpness)
                for seed in seeds
            ]
            for form in FORMS
        }
        for form, values in at.items():
            ratio = paired_difference([mine - other for mine, other in zip(values, at[SGD])])
            assert ratio is not None
            assert ratio.half is not None
            low, high = exp(ratio.mean - ratio.half), exp(ratio.mean + ratio.half)
            against = "1" if form == SGD else f"{exp(ratio.mean):.2f} ({low:.2f} to {high:.2f})"
            lines.append(f"| {when} | {common:.2f} | {form} | {exp(fmean(values)):.4f} | {against} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, nargs="+", default=[2, 4, 6, 10, 15, 20])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=Path("runs/flatness.json.gz"))
    given = parser.parse_args(arguments)
    if len(given.seeds) < 2 or len(given.epochs) < 2:
        parser.error("an interval needs two seeds, and a line two numbers of epochs")
    done = json.loads(gzip.decompress(given.out.read_bytes())) if given.out.exists() else []
    known = {(run["form"], run["epochs"], run["seed"]): run for run in done}
    keys = [(form, epochs, seed) for form in FORMS for epochs in given.epochs for seed in given.seeds]
    for number, key in enumerate(keys, start=1):
        if key not in known:
            known[key] = measured(*key)
            write_atomic(given.out, gzip.compress(json.dumps(list(known.values())).encode(), mtime=0))
        print(f"[{number}/{len(keys)}] {key[0]}, {key[1]} epochs, seed {key[2]}", file=sys.stderr)
    print(table([known[key] for key in keys], given.seeds))


if __name__ == "__main__":
    main()
