"""What a step of every method costs against one of fine-tuning, in one run.

All methods train the small ResNet with their defaults on the same random 32×32 images in the second task, in the same
process and in alternation. What is done once a task or epoch (Fisher, bases, exemplars, pruning, readouts, what SparCL
thinks of its memory) is not in a step, nor is that some methods take more steps (PackNet retrains, iCaRL and CO2L add
their memory to the epoch) and SparCL ever fewer. GPM closes more directions for noise than for images, so that its
figure is too high. Run: make bench-methods
"""

import argparse
from statistics import median

import torch
from synthetic import in_alternation, random_stream, trainer_of

from esacl.methods import METHODS

BASE = "finetune"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8, help="alternations between the methods")
    parser.add_argument("--steps", type=int, default=6, help="steps of each method in a round")
    given = parser.parse_args()
    stream = random_stream([640, 32 * (given.rounds + 1) * given.steps])
    names = [name for name in METHODS if name != "mtl"]  # which has no second task; its step is that of fine-tuning
    trainers = {name: trainer_of(stream, name, 1, {}) for name in names}
    rounds, executed = in_alternation(trainers, 1, given.rounds, given.steps)
    print(f"one step, small ResNet (width 16), batch 32, {torch.get_num_threads()} threads")
    print(f"{'':14}      ms   ratio (rounds)      MMAC  ratio")
    for name in names:
        ratios = sorted(each[name] / each[BASE] for each in rounds)
        print(
            f"{name:14} {1e3 * median(each[name] for each in rounds):7.1f}  {median(ratios):5.2f} "
            f"({ratios[0]:.2f}–{ratios[-1]:.2f})  {1e-6 * executed[name]:7.0f}  {executed[name] / executed[BASE]:5.2f}"
        )


if __name__ == "__main__":
    main()
