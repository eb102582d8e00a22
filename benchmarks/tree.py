"""What a step of a growing network costs in the first and in the last of five tasks, against dense training.

All forms train the small ResNet on the same random 32×32 images, in one process and in alternation. Figures: median
step time and executed multiply-adds, as ratios to dense training without and with replay. With `--tasks 5 10 50`
instead: what the last of so many tasks costs against the first, and what is stored. Run: make bench-tree
"""

import argparse
from itertools import pairwise
from statistics import median
from typing import Any

from synthetic import in_alternation, random_stream, trainer_of

from esacl.metrics.memory import tensor_bytes
from esacl.training.events import TaskDone

WIDE = {"net": {"backbone": "resnet10", "width": 40}, "sparsity": {"trunk_width": 0.4}}
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "dense": ("finetune", {}),
    "grow, width 16": ("grow", {}),
    "grow, width 40, trunk of 16": ("grow", WIDE),
    "dense + replay": ("er", {}),
    "grow + replay, width 16": ("grow-er", {}),
    "grow + replay, width 40, trunk of 16": ("grow-er", WIDE),
}


def over_tasks(count: int) -> None:
    """The last task against the first, and against the second: an MLP with a trunk of 100 and branches of 20 units."""
    settings = {"net": {"backbone": "mlp", "width": 20 * count}, "sparsity": {"trunk_width": 5 / count}}
    trainer = trainer_of(random_stream([640] * count), "grow", 3, settings)
    spent, seconds = [0], [0.0]
    for event in trainer.run():
        if isinstance(event, TaskDone):
            spent.append(trainer.net.meter.executed_macs["train"])
            seconds.append(trainer.seconds["train"])
    macs, time = ([b - a for a, b in pairwise(each)] for each in (spent, seconds))
    state = trainer.net.model.state_dict()
    held = sum(4 * int(value.count_nonzero()) for value in state.values())
    print(
        f"{count:3} tasks   last against first: executed {macs[-1] / macs[0]:.2f}, time {time[-1] / time[0]:.2f}   "
        f"against second: executed {macs[-1] / macs[1]:.2f}, time {time[-1] / time[1]:.2f}   "
        f"stored {tensor_bytes(state) / 2**20:.2f} MB, of which not zero {held / 2**20:.2f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10, help="alternations between the forms")
    parser.add_argument("--steps", type=int, default=12, help="steps of each form in a round")
    parser.add_argument("--tasks", type=int, nargs="*", default=(), help="numbers of tasks to grow over instead")
    given = parser.parse_args()
    for count in given.tasks:
        over_tasks(count)
    if given.tasks:
        return
    long = 32 * (given.rounds + 1) * given.steps
    for stage in (0, 4):
        stream = random_stream([long if task == stage else 64 for task in range(5)])
        trainers = {name: trainer_of(stream, method, 1, settings) for name, (method, settings) in FORMS.items()}
        rounds, executed = in_alternation(trainers, stage, given.rounds, given.steps)
        print(f"task {stage + 1} of 5")
        for name in FORMS:
            base = "dense + replay" if "replay" in name else "dense"
            ratios = sorted(each[name] / each[base] for each in rounds)
            print(
                f"  {name:38} {1e3 * median(each[name] for each in rounds):6.1f} ms   time {median(ratios):.2f}   "
                f"(rounds from {ratios[0]:.2f} to {ratios[-1]:.2f})   executed {executed[name] / executed[base]:.2f}"
            )


if __name__ == "__main__":
    main()
