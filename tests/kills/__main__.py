"""`python -m tests.kills`: a table of how many cases went on to the same bits; exit code 1 unless all did."""

import argparse
import sys
from collections import Counter
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from time import monotonic

from tests.kills.cases import Broken, Killer, draw_case
from tests.kills.cluster import Cluster
from tests.kills.fronts import FRONTS

Tally = dict[str, Counter[str]]


def main() -> int:
    """Draw cases, try them, say what became of each."""
    arguments = _arguments()
    numbers = range(arguments.cases) if arguments.case is None else [arguments.case]
    folder = Path(mkdtemp(prefix="esacl-kills-"))
    fronts: Tally = {name: Counter() for name in FRONTS}
    setups: Tally = {}
    failed = 0
    killer, began = Killer(folder), monotonic()
    try:
        for done, number in enumerate(numbers, start=1):
            case = draw_case(arguments.seed, number)
            front = next(name for name, kind in FRONTS.items() if kind is case.front)
            try:
                moments, kills = killer.attempt(case)
                said, outcome = f"killed at {' and '.join(map(str, moments))}: same bits", Counter(same=1, kills=kills)
            except Broken as problem:
                failed += 1
                replay = f"python -m tests.kills --seed {arguments.seed} --case {number}"
                said, outcome = f"FAILED: {problem}\n  again: {replay}", Counter(failed=1)
            else:
                rmtree(folder / f"case {number}")
            for tally, name in ((fronts, front), (setups, case.setup.name)):
                tally.setdefault(name, Counter()).update(outcome)
            left = (monotonic() - began) / done * (len(numbers) - done)
            print(f"[{done}/{len(numbers)}, {left:.0f} s left] {case.setup.name}, {front}: {said}", file=sys.stderr)
    finally:
        Cluster.stop()
    _tell(fronts, setups, monotonic() - began)
    if failed:
        print(f"what failed is in {folder}")
        return 1
    rmtree(folder)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("--cases", type=int, default=100, help="how many [default: 100]")
    parser.add_argument("--seed", type=int, default=0, help="what they are drawn from [default: 0]")
    parser.add_argument("--case", type=int, help="only the case of this number, from 0")
    return parser.parse_args()


def _tell(fronts: Tally, setups: Tally, seconds: float) -> None:
    """Cases and kills by way to train and by setup, then all together."""
    total = Counter[str]()
    print(f"{'':24}{'cases':>6}{'kills':>6}{'same bits':>11}")
    for name, tally in [*fronts.items(), ("", Counter()), *sorted(setups.items())]:
        cases = tally["same"] + tally["failed"]
        print(f"{name:24}{cases:>6}{tally['kills']:>6}{tally['same']:>11}" if cases else name)
    for tally in fronts.values():
        total.update(tally)
    cases = total["same"] + total["failed"]
    print(f"same bits in {total['same']} of {cases} cases, {total['kills']} kills, {seconds:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
