"""Plausible run directories, made up but always the same for the same arguments."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

NASTY = '<script>alert("x")</script> & $x_1$ \'"</svg>--> {{ 7*7 }}'

# last-task accuracy, forgetting per task in Class-IL, cost relative to finetune
CHARACTERS = {
    "finetune": (0.98, 0.45, 1.0),
    "er": (0.97, 0.05, 2.0),
    "der++": (0.97, 0.035, 3.0),
    "esacl-der++": (0.96, 0.03, 4.5),
    "packnet": (0.95, 0.0, 1.4),
    "mtl": (0.98, 0.0, 1.0),
}


def matrix(tasks: int, start: float, loss: float, chance: float, rng: np.random.Generator) -> list[list[float]]:
    """Accuracy after each stage: learned well, then fading; at chance before it was seen."""
    rows = np.zeros((tasks, tasks))
    for stage in range(tasks):
        for task in range(tasks):
            known = start - loss * (stage - task) if stage >= task else chance
            rows[stage, task] = np.clip(known + rng.normal(0, 0.01), chance * 0.5, 1)
    return [[round(float(x), 4) for x in row] for row in rows]


def confusion(classes: int, rng: np.random.Generator) -> list[list[int]]:
    """Mostly right answers."""
    counts: list[list[int]] = (90 * np.eye(classes, dtype=int) + rng.poisson(1.0, (classes, classes))).tolist()
    return counts


def results(method: str = "der++", stream: str = "split-digits", seed: int = 0, tasks: int = 5) -> dict[str, Any]:
    """What results.json holds."""
    start, loss, price = CHARACTERS.get(method, (0.9, 0.1, 2.0))
    rng = np.random.default_rng([seed, tasks, sum(map(ord, method))])
    task = matrix(tasks, min(0.995, start + 0.01), loss / 12, 0.5, rng)
    many = matrix(tasks, start, loss, 0.0, rng)
    joint = method == "mtl"
    if joint:
        task, many = [task[-1]], [many[-1]]
    known: dict[str, Any] = {"task_il": task, "class_il": None if method == "packnet" else many}

    def drop(rows: list[list[float]] | None) -> float | None:
        if rows is None or joint or tasks == 1:
            return None
        return float(np.mean([max(r[t] for r in rows[t:-1]) - rows[-1][t] for t in range(tasks - 1)]))

    forgetting = {key: drop(rows) for key, rows in known.items()}
    negative = {key: None if value is None else -value for key, value in forgetting.items()}
    train = 4.0 * price * tasks * (1 + 0.05 * seed)
    return {
        "schema": 1,
        "method": method,
        "stream": stream,
        "seed": seed,
        "sparsity": 0.8 if "esacl" in method else 0.0,
        "epochs": 10,
        "tasks": tasks,
        "logit_mask": "none",
        "split": "test",
        "task_il": float(np.mean(task[-1])),
        "class_il": None if known["class_il"] is None else float(np.mean(many[-1])),
        "matrix": known,
        "forgetting": forgetting,
        "bwt": negative,
        "fwt": {"task_il": None if joint else 0.013, "class_il": None},
        "density": 0.2 if "esacl" in method else 1.0,
        "capacity": 0.2 if "esacl" in method else 1.0,
        "measured_capacity": 0.223 if "esacl" in method else 1.0,
        "flops": {
            "paper": 3.1e11 * price,
            "sparse": 2.4e11 * price * (0.2 if "esacl" in method else 1),
            "executed": 2.4e11 * price,
        },
        "seconds": {"total": train + 3.1, "train": train, "evaluate": 1.4, "data": 0.7},
        "peak_memory_bytes": 391_118_848,
        "remembered_bytes": 2_471_936,
        "footprint_bytes": {"parameters": 1_243_000, "activations": 2_900_000, "gradients": 1_243_000},
        "versions": {"esacl": "0.1.0", "python": "3.11.7", "torch": "2.5.0"},
        "confusion": confusion(2 * tasks, rng),
        "task_classes": [[str(2 * t), str(2 * t + 1)] for t in range(tasks)],
    }


def events(tasks: int, epochs: int, phases: Sequence[str] = ("fit",), joint: bool = False) -> list[dict[str, Any]]:
    """What events.jsonl holds, line by line."""
    rng = np.random.default_rng(tasks)
    lines: list[dict[str, Any]] = []
    for task in range(1 if joint else tasks):
        for phase in phases:
            for epoch in range(epochs):
                loss = 0.15 + 1.9 * np.exp(-0.6 * epoch) + abs(rng.normal(0, 0.03))
                lines.append(
                    {"event": "epoch", "task": task, "phase": phase, "epoch": epoch, "epochs": epochs}
                    | {"loss": round(float(loss), 4), "samples": 1300, "seconds": 0.4, "lr": 0.03}
                )
        lines.append({"event": "task", "task": task, "task_il": [0.9], "class_il": [0.9], "density": 1.0})
    return lines


def config(found: dict[str, Any]) -> dict[str, Any]:
    """What config.toml holds."""
    return {
        "method": found["method"],
        "seed": found["seed"],
        "stream": {"name": found["stream"], "tasks": found["tasks"], "class_order": "fixed", "augment": True},
        "net": {"backbone": "auto"},
        "train": {"epochs": found["epochs"], "batch_size": 32, "logit_mask": "none", "split": found["split"]},
        "machine": {"device": "cpu", "precision": "32"},
        "objective": {"alpha": 0.1, "beta": 0.5, "buffer": 200},
        "update": {"lr": 0.03, "momentum": 0.0},
    }


def write_run(
    directory: Path,
    found: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    log: list[dict[str, Any]] | None = None,
) -> Path:
    """A run directory with these files."""
    found = results() if found is None else found
    joint = len(found["matrix"]["task_il"]) == 1
    phases = ("fit", "retrain") if found["method"] == "packnet" else ("fit",)
    lines = events(found["tasks"], found["epochs"], phases, joint) if log is None else log
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(tomli_w.dumps(config(found) if settings is None else settings), "utf-8")
    (directory / "results.json").write_text(json.dumps(found), "utf-8")
    (directory / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return directory


def write_runs(directory: Path, methods: Sequence[str], seeds: int = 3, tasks: int = 10) -> list[Path]:
    """Several methods with several seeds on one stream."""
    return [
        write_run(directory / f"{method}-{seed}", results(method, "split-cifar100", seed, tasks))
        for method in methods
        for seed in range(seeds)
    ]
