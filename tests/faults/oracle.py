"""Whether bad input did harm: every action ends with a right answer, or is refused in one line."""

import hashlib
import json
import os
import re
import unicodedata
from pathlib import Path
from signal import Signals

from tests.faults import child
from tests.faults.case import Case
from tests.faults.child import Outcome

LONGEST = 20_000  # characters of a message, which repeats what was given
UNEXPECTED = (
    "traceback",
    "esacl failed",
    "exception ignored",
    "fatal python error",
)  # also of one that `main` saves in a file
SPARE = re.compile(r"^.*\.py:[0-9]+: [A-Za-z]*Warning: ", re.MULTILINE)
ERROR = "error: "
KNOWN_CODES = (0, 1, 2, 130, 141)


def judge(case: Case, outcome: Outcome) -> list[str]:
    """What is wrong with what came of a case; nothing, as it should be."""
    return [*_end(outcome), *_words(outcome), *_answer(case, outcome), *_harm(outcome)]


def _end(outcome: Outcome) -> list[str]:
    if outcome.signal:
        name = Signals(outcome.signal).name
        long = (
            f" after {child.CPU_SECONDS} s of work or {child.WALL_SECONDS} s" if name in ("SIGALRM", "SIGXCPU") else ""
        )
        return [f"ended by {name}{long}"]
    return [] if outcome.code in KNOWN_CODES else [f"exit code {outcome.code}"]


def _words(outcome: Outcome) -> list[str]:
    """Of what is written, to standard error above all."""
    last = (outcome.stderr.splitlines() or [""])[-1][:200]
    found = [f"{sign} in its messages: {last}" for sign in UNEXPECTED if sign in outcome.stderr.lower()]
    spare = SPARE.search(outcome.stderr)
    if spare is not None:
        found.append(f"a warning of a library: {spare[0]}")
    strange = {
        char for char in outcome.stdout + outcome.stderr if char not in "\n\t\r" and unicodedata.category(char) == "Cc"
    }
    if strange:
        found.append(f"control characters in its messages: {sorted(strange)!r}")
    longest = max(map(len, outcome.stderr.splitlines()), default=0)
    if longest > LONGEST:
        found.append(f"a message of {longest} characters")
    return found


def _answer(case: Case, outcome: Outcome) -> list[str]:
    """One line that says what is wrong, or an answer that is right."""
    if outcome.signal or outcome.stopped is not None:
        return []
    if outcome.code == 0:
        return [*_document(case, outcome), *_noticed(case, outcome)]
    if outcome.code in (130, 141, *case.quiet_codes) or case.surroundings.stderr != "file":
        return []
    lines = [line for line in outcome.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(ERROR)]
    if len(errors) != 1 or lines[-1] != errors[0]:
        return [f"exit code {outcome.code} with {len(errors)} lines 'error: ...' among {len(lines)}"]
    return [] if errors[0].strip() != ERROR.strip() else ["an empty message"]


def _document(case: Case, outcome: Outcome) -> list[str]:
    if not case.json:
        return []
    try:
        json.loads(outcome.stdout, parse_constant=_no_number)
    except ValueError as error:
        return [f"standard output is not JSON: {error}"]
    return []


def _noticed(case: Case, outcome: Outcome) -> list[str]:
    if case.same_as is None or outcome.stdout == case.same_as:
        return []
    return ["a damaged file with a digest gave another answer instead of an error"]


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number of JSON")


def _harm(outcome: Outcome) -> list[str]:
    found = [f"forbidden: {offence}" for offence in outcome.offences]
    if outcome.growth > child.MEMORY_GROWTH:
        found.append(f"took {outcome.growth / 2**20:.0f} MiB of memory")
    return found


def contents(folder: Path) -> str:
    """A digest of all that is below a folder: names, links, bytes."""
    found = hashlib.sha256()
    for place, folders, files in sorted(os.walk(folder)):
        for name in sorted([*folders, *files]):
            path = os.path.join(place, name)
            found.update(os.fsencode(path))
            if os.path.islink(path):
                found.update(os.fsencode(os.readlink(path)))
            elif os.path.isfile(path):
                found.update(Path(path).read_bytes())
    return found.hexdigest()
