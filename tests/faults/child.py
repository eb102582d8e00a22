"""One action in a forked process, with limits, watched; and what came of it."""

import gc
import io
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tests.faults.case import Case, Place, Surroundings
from tests.faults.watch import Stopped, Watch

CPU_SECONDS = 20
WALL_SECONDS = 60  # other work on the machine must not decide
MEMORY_GROWTH = 1 << 30  # bytes that may become resident
STEPS = 60  # of training, after which an action has shown what it does


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an action left behind."""

    code: int | None  # None: ended by a signal
    signal: int
    stdout: str
    stderr: str
    offences: tuple[str, ...]
    stopped: str | None  # why it was stopped as having gone far enough
    growth: int  # bytes of memory


def perform(case: Case, place: Place) -> Outcome:
    """Run the action of a case in a process of its own."""
    files = {name: place.root / name for name in ("stdout", "stderr", "offences", "stopped")}
    for file in files.values():
        file.write_bytes(b"")
    before = _resident()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            _live(case, place, files)
        finally:
            os._exit(99)
    _, status, usage = os.wait4(pid, 0)
    texts = {name: file.read_bytes().decode("utf-8", "replace") for name, file in files.items()}
    return Outcome(
        code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        stdout=texts["stdout"],
        stderr=texts["stderr"],
        offences=tuple(texts["offences"].splitlines()),
        stopped=texts["stopped"] or None,
        growth=max(0, usage.ru_maxrss * 1024 - before),
    )


def _live(case: Case, place: Place, files: dict[str, Path]) -> NoReturn:
    """The life of the child."""
    gc.freeze()
    around = case.surroundings
    said = os.open(files["offences"], os.O_WRONLY | os.O_APPEND)
    enough = os.open(files["stopped"], os.O_WRONLY)
    _arrange(around, place, files)
    _cut_training()
    _limit(around)
    watch = Watch(place.own, lambda text: os.write(said, f"{text}\n".encode()), case.starts, around.refuse_writes)
    watch.start(case.named)
    os._exit(_code_of(case.action, lambda text: os.write(enough, text.encode())))


def _code_of(action: Callable[[], object], stopped: Callable[[str], object]) -> int:
    """The exit code that Python would give a process that does just this, with what it would print."""
    code: object = 0
    try:
        action()
    except SystemExit as error:
        code = error.code
    except Stopped as error:
        stopped(str(error) or "stopped")
    except BaseException:
        _print_traceback()
        code = 1
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        _print_traceback()
        code = 120
    with suppress(OSError, ValueError):
        if sys.stderr is not None:
            sys.stderr.flush()
    return code % 256 if isinstance(code, int) else int(code is not None)


def _print_traceback() -> None:
    """As far as somebody is there to read it."""
    with suppress(OSError, ValueError, MemoryError):
        if sys.stderr is not None:
            traceback.print_exc()


def _arrange(around: Surroundings, place: Place, files: dict[str, Path]) -> None:
    """Working directory, environment and standard streams."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, "")
    home = place.root / "own" / "home"
    home.mkdir(exist_ok=True)
    tempfile.tempdir = None  # found anew, by the environment
    os.environ.update(HOME=str(home), TMPDIR=str(home), COLUMNS="100", NO_COLOR="1")
    for name in ("ESACL_DATA", "ESACL_MAX_BYTES", "ESACL_MAX_PIXELS", "TERM", "PYTEST_CURRENT_TEST"):
        os.environ.pop(name, None)
    for name, value in around.variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    os.chdir(place.own)
    if around.gone:
        gone = place.own / "gone"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _stream(1, around.stdout, files["stdout"], around.encoding, "strict")
    sys.stderr = _stream(2, around.stderr, files["stderr"], around.encoding, "backslashreplace")
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
    warnings.resetwarnings()
    warnings.simplefilter("ignore", DeprecationWarning)


def _stream(number: int, kind: str | None, file: Path, encoding: str, errors: str) -> io.TextIOWrapper | None:
    """A standard stream of a process."""
    if kind is None:
        os.close(number)
        return None
    if kind == "pipe":
        reader, target = os.pipe()
        os.close(reader)
    else:
        target = os.open("/dev/full" if kind == "full" else file, os.O_WRONLY)
    os.dup2(target, number)
    os.close(target)
    raw = open(number, "wb", closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(raw, encoding=encoding, errors=errors, line_buffering=number == 2)


def _cut_training() -> None:
    """Stop after a few steps, as how long somebody trains is up to them; and let runs write a word for their page."""
    from esacl.runner import active_run, training
    from esacl.training import trainer

    for module in (active_run, training):
        module.write_report = lambda _, out: out.write_text("a page")

    usual, left = trainer.train_step, iter(range(STEPS))

    def counted(*given: object) -> object:
        if next(left, None) is None:
            raise Stopped("it trains")
        return usual(*given)

    trainer.train_step = counted


def _limit(around: Surroundings) -> None:
    """What the process may take."""
    for number in (signal.SIGALRM, signal.SIGXCPU, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
    used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2])) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (used + CPU_SECONDS, used + CPU_SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + around.memory,) * 2)
    if around.file_size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (around.file_size,) * 2)
    if around.handles is not None:
        open_now = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + around.handles,) * 2)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
