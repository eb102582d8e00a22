"""What a step costs: EsaCL in its forms against dense SGD and full SAM on the same base (DER++), in one run.

All forms train the small ResNet on the same random 32×32 images in the second task, with replay and frozen weights,
in the same process and in alternation. Figures: median step time, executed multiply-adds, and their ratios to dense
training; and the share of a step that Frank-Wolfe and the bookkeeping of frozen weights take. Run: make bench-step
"""

import argparse
from statistics import median
from time import perf_counter
from typing import Any

import torch
from synthetic import in_alternation, random_stream, trainer_of

from esacl.training.step import apply_constraints, snapshot_constrained
from esacl.training.trainer import Trainer

SAM = {"rho": 0.05}
LOSS = {"keep": 0.4, "rule": "loss"}
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "der++, dense SGD": ("der++", {}),
    "der++, full SAM": (
        "esacl-der++",
        {"gradient": {**SAM, "ascent": "total"}, "sparsity": {"polytope": False, "level": 0.0}},
    ),
    "esacl, default": ("esacl-der++", {}),
    "esacl, default, keep .4": ("esacl-der++", {"selection": {"keep": 0.4}}),
    "esacl, largest stale losses, keep .4": ("esacl-der++", {"selection": {**LOSS, "ranking": "stale"}}),
    "esacl, extra ranking pass, keep .4": ("esacl-der++", {"selection": {**LOSS, "ranking": "pass"}}),
    "esacl + SAM (ascent on the total loss)": ("esacl-der++", {"gradient": {**SAM, "ascent": "total"}}),
    "esacl + SAM (ascent on the fit loss)": ("esacl-der++", {"gradient": SAM}),
    "esacl + SAM every 4th step": ("esacl-der++", {"gradient": {**SAM, "every": 4}}),
    "esacl + SAM, random, keep .4": ("esacl-der++", {"gradient": SAM, "selection": {"keep": 0.4}}),
    "esacl + SAM, re-used pass, keep .4": (
        "esacl-der++",
        {"gradient": SAM, "selection": {**LOSS, "ranking": "reuse"}},
    ),
}


def bookkeeping(trainer: Trainer, rounds: int = 20) -> float:
    """Seconds of moving the weights, and of keeping the frozen ones where they are."""
    assert trainer.optimizer is not None
    times = []
    for _ in range(rounds):
        began = perf_counter()
        before = snapshot_constrained(trainer.net, trainer.parts)
        trainer.net.step(trainer.optimizer)
        if before:
            apply_constraints(trainer.net, trainer.parts, before)
        times.append(perf_counter() - began)
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="alternations between the forms")
    parser.add_argument("--steps", type=int, default=12, help="steps of each form in a round")
    given = parser.parse_args()
    stream = random_stream([320, 32 * (given.rounds + 1) * given.steps])
    trainers = {name: trainer_of(stream, method, 1, settings) for name, (method, settings) in FORMS.items()}
    rounds, executed = in_alternation(trainers, 1, given.rounds, given.steps)
    base = "der++, dense SGD"
    print(f"one step, small ResNet (width 16), batch 32 + 64 replayed, {torch.get_num_threads()} threads")
    print(f"{'':42}     ms   ratio (rounds)         MMAC  ratio   update")
    for name, trainer in trainers.items():
        ratios = sorted(each[name] / each[base] for each in rounds)
        time = median(each[name] for each in rounds)
        print(
            f"{name:42} {1e3 * time:6.1f}  {median(ratios):5.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})  "
            f"{1e-6 * executed[name]:9.0f}  {executed[name] / executed[base]:5.2f}  {bookkeeping(trainer) / time:6.1%}"
        )


if __name__ == "__main__":
    main()
