"""How long the command line takes to answer, as a multiple of `python -c pass`: the median of alternating starts."""

import subprocess
import sys
from statistics import median
from time import perf_counter

ROUNDS = 7
PLAIN = ["-c", "pass"]
COMMANDS = {
    "import esacl": ["-c", "import esacl"],
    "esacl --help": ["-m", "esacl", "--help"],
    "esacl methods --help": ["-m", "esacl", "methods", "--help"],
    "esacl run --epcohs 3": ["-m", "esacl", "run", "--epcohs", "3"],
    "esacl methods": ["-m", "esacl", "methods"],
}


def seconds(words: list[str]) -> float:
    began = perf_counter()
    subprocess.run([sys.executable, *words], capture_output=True, check=False)
    return perf_counter() - began


def main() -> None:
    times: dict[str, list[float]] = {name: [] for name in ("python -c pass", *COMMANDS)}
    for _ in range(ROUNDS):
        times["python -c pass"].append(seconds(PLAIN))
        for name, words in COMMANDS.items():
            times[name].append(seconds(words))
    plain = median(times["python -c pass"])
    for name, found in times.items():
        print(f"{name:24} {median(found):6.2f} s  {median(found) / plain:6.1f} ×")


if __name__ == "__main__":
    main()
