"""Specimens once, then case after case: prepared here, done in a forked process, judged."""

import importlib
import os
import pkgutil
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults.actions import command
from tests.faults.case import Case, Kind, Place
from tests.faults.child import Outcome, perform
from tests.faults.oracle import contents, judge

SHARED_MEMORY = Path("/dev/shm")
BESIDE = (
    "torch._dynamo",
    "matplotlib.backends.backend_svg",
    "matplotlib.backends.backend_agg",
    "sklearn.datasets",
    "tomli_w",
)
RAN = "ran"  # the file that a specimen's code would leave
HONEST = (
    ("run", "--config", "config.toml", "--out", "new"),
    ("grid", "recipe.toml", "--out", "new", "--dry-run"),
    ("tune", "tuning.toml", "--out", "new", "--dry-run"),
    ("resume", "begun"),
    ("inspect", "run"),
    ("inspect", "told"),
    ("report", "run"),
    ("table", "grid", "--against", "er"),
)
"""Commands that must work with undamaged specimens."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a case."""

    kind: str
    seed: int
    told: tuple[str, ...]
    outcome: Outcome
    problems: tuple[str, ...]
    traceback: str = ""  # that was saved instead of shown

    @property
    def replay(self) -> str:
        """The command that repeats it."""
        return f"python -m tests.faults {self.kind} {self.seed}"


def warm() -> None:
    """Import all that a case may need, so that it need not."""
    from PIL import Image

    import esacl

    for module in pkgutil.walk_packages(esacl.__path__, "esacl."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in BESIDE:
        importlib.import_module(name)
    Image.init()


class Laboratory:
    """Specimens, and the place where cases are tried one after the other."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.specimens = root / "specimens"

    def prepare(self) -> None:
        """Make the specimens in a process of their own: this one must stay without threads, to be forked."""
        warm()
        self.specimens.mkdir()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                from tests.faults import specimens

                specimens.make(self.specimens)
                code = 0
            finally:
                sys.stderr.flush()
                os._exit(code)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
            raise RuntimeError("the specimens could not be made")
        self._find_right_answers()

    def _find_right_answers(self) -> None:
        """What is said of undamaged models; and that other specimens are valid, or damage would not matter."""
        from tests.faults.kinds_models import MODEL

        for words in HONEST:
            with self._place() as place:
                shutil.copytree(self.specimens, place.own, dirs_exist_ok=True)
                outcome = perform(Case(command(*words), (), starts=True), place)
            if outcome.code or outcome.signal:
                raise RuntimeError(f"esacl {' '.join(words)} fails without damage: {outcome.stderr}")
        (self.specimens / "right").mkdir()
        for specimen in (self.specimens / "classifier" / "model.esacl", self.specimens / "export"):
            for name in ("predict", "predict task"):  # inspect also tells the size of the file
                with self._place() as place:
                    shutil.copy(specimen, place.own / "model")
                    outcome = perform(Case(command(*MODEL[name]), ()), place)
                if outcome.code:
                    raise RuntimeError(f"{name} of an undamaged {specimen.name}: {outcome.stderr}")
                (self.specimens / "right" / f"{specimen.name} {name}").write_text(outcome.stdout)

    def attempt(self, kind: Kind, seed: int) -> Verdict:
        """Try one case."""
        with self._place() as place:
            case = kind.prepare(Random(f"{kind.name} {seed}"), place)
            before = contents(place.outside)
            outcome = perform(case, place)
            problems = judge(case, outcome)
            if contents(place.outside) != before:
                problems.append("something outside was changed")
            if (place.own / RAN).exists() and not case.consents:
                problems.append("code was started that only a file names")
            saved = "\n".join(file.read_text() for file in place.own.glob("home/esacl-*.txt") if file.is_file())
        return Verdict(kind.name, seed, case.told, outcome, tuple(problems), saved)

    @contextmanager
    def _place(self) -> Iterator[Place]:
        place = Place(Path(tempfile.mkdtemp(dir=self._root)), self.specimens)
        place.own.mkdir()
        place.outside.mkdir()
        (place.outside / "kept").write_text("mine")
        canary = self.specimens / "canary.py"
        if canary.exists():
            shutil.copy(canary, place.own)
        if (self.specimens / "pictures").exists():
            shutil.copytree(self.specimens / "pictures", place.own / "pictures")
        try:
            yield place
        finally:
            shutil.rmtree(place.root, ignore_errors=True)


@contextmanager
def laboratory() -> Iterator[Laboratory]:
    """A laboratory that is cleared away afterwards; in memory where that is possible."""
    fast = SHARED_MEMORY if SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="esacl-faults-", dir=fast) as root:
        made = Laboratory(Path(root))
        made.prepare()
        yield made
