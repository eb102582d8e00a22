"""`python -m tests.faults KIND SEED` repeats a case; `--cases N --seed S` tries many."""

import argparse
import os
import sys
import time

# Before torch is imported: what is forked must have a single thread.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

from tests.faults.campaign import Tally, campaign
from tests.faults.engine import laboratory
from tests.faults.kinds import KINDS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    parser.add_argument("kind", nargs="?", choices=sorted(KINDS), help="kind of a case to repeat")
    parser.add_argument("number", nargs="?", type=int, help="its seed")
    parser.add_argument("--cases", type=int, default=10_000, help="how many to try")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--only", nargs="*", choices=sorted(KINDS), help="of these kinds only")
    given = parser.parse_args()
    with laboratory() as lab:
        if given.kind is not None:
            verdict = lab.attempt(KINDS[given.kind], given.number or 0)
            outcome = verdict.outcome
            print(*verdict.told, sep="\n")
            print(verdict.traceback)
            print(f"--- standard output\n{outcome.stdout}--- standard error\n{outcome.stderr}---")
            ended = f"exit code {outcome.code}" if not outcome.signal else f"signal {outcome.signal}"
            print(f"{ended}, stopped: {outcome.stopped}, {outcome.growth >> 20} MiB more")
            print(*(f"FAILED: {problem}" for problem in verdict.problems or ()), sep="\n")
            return bool(verdict.problems)
        kinds = {name: KINDS[name] for name in given.only or KINDS}
        tally = campaign(lab, kinds, given.cases, given.seed, _progress(time.perf_counter()))
    print(tally.table())
    for verdict in tally.failures:
        print(f"\n{verdict.replay}\n  " + "\n  ".join((*verdict.problems, *verdict.told)))
    return bool(tally.failures)


def _progress(began: float):
    told, known = began, 0

    def tell(number: int, cases: int, tally: Tally) -> None:
        nonlocal told, known
        for verdict in tally.failures[known:]:
            print(f"failed: {verdict.replay}: {verdict.problems[0]}", file=sys.stderr)
        known, now = len(tally.failures), time.perf_counter()
        if now - told > 5 or number == cases:
            told = now
            left = (now - began) / number * (cases - number)
            print(f"{number} of {cases}, {known} failed, {left:.0f} s left", file=sys.stderr)

    return tell


if __name__ == "__main__":
    raise SystemExit(main())
