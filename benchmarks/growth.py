"""Growth: time of a step and memory in the 50th task against the first, on a stream of 50 tasks of random images.

Two trainers of the same method, one in its first task and one in its last, take steps in alternation in one process;
the figure is the ratio of the median step times. Memory is the size of everything that a checkpoint holds, and the
resident memory of the process after one task and after all but one. `esacl` has the same work in every task; with a
replay memory the first task has no replay, so there the second task is the measure. Run: make bench-growth
"""

import argparse
import gc
from pathlib import Path
from statistics import median

from rich.progress import track
from synthetic import random_stream, seconds_of, steps_of, trainer_of

from esacl.metrics.memory import tensor_bytes
from esacl.training.events import TaskDone
from esacl.training.trainer import Trainer


def resident_bytes() -> int:
    """Memory of this process now (Linux)."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def pass_through(trainer: Trainer, tasks: int, first: int) -> tuple[list[int], list[int]]:
    """Train so many tasks; what is stored, and what is resident, after the task `first` and after the last."""
    stored, resident = [], []
    events = trainer.run()
    for _ in track(range(tasks), description=f"{tasks} tasks"):
        done = next(event for event in events if isinstance(event, TaskDone))
        if done.task in (first, tasks - 1):
            stored.append(tensor_bytes(trainer.state_dict()))
            resident.append(resident_bytes())
    return stored, resident


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=12, help="alternations between the two trainers")
    parser.add_argument("--steps", type=int, default=12, help="steps of each in a round")
    given = parser.parse_args()
    long = 32 * (given.rounds + 1) * given.steps
    for method, first in (("esacl", 0), ("esacl-der++", 1)):
        sizes = [128] * given.tasks
        sizes[first] = sizes[-1] = long
        stream = random_stream(sizes)
        settings = {"update": {"eta": 0.01}, **({"objective": {"buffer": 500}} if first else {})}
        early, late = (trainer_of(stream, method, 1, settings) for _ in range(2))
        stored, resident = pass_through(late, given.tasks - 1, first)
        steps = [steps_of(early, first), steps_of(late, given.tasks - 1)]
        for each in steps:
            seconds_of(each, given.steps)
        pairs = [
            [median(seconds_of(each, given.steps)) for each in steps]
            for _ in track(range(given.rounds), description="measuring")
        ]
        ratios = sorted(b / a for a, b in pairs)
        print(
            f"{method}: task {given.tasks} against task {first + 1}\n"
            f"  step      {1e3 * median(a for a, _ in pairs):6.1f} → {1e3 * median(b for _, b in pairs):6.1f} ms   "
            f"ratio {median(ratios):.3f}   (rounds from {ratios[0]:.3f} to {ratios[-1]:.3f}; target ≤ 1.05)\n"
            f"  stored    {stored[0] / 2**20:6.1f} → {stored[1] / 2**20:6.1f} MB   ratio {stored[1] / stored[0]:.3f}\n"
            f"  resident  {resident[0] / 2**20:6.1f} → {resident[1] / 2**20:6.1f} MB   "
            f"ratio {resident[1] / resident[0]:.3f}"
        )


if __name__ == "__main__":
    main()
