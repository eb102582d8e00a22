"""A run that goes on after an interruption goes on as if there had been none."""

from collections.abc import Callable, Iterator
from pathlib import Path

from esacl.training.checkpoint import Checkpoints, fingerprint
from esacl.training.events import EpochDone, TaskDone
from esacl.training.trainer import Trainer


def boundaries(training: Trainer) -> Iterator[EpochDone | TaskDone]:
    """Train, stopping where runs are saved: after epochs and tasks."""
    return (event for event in training.run() if isinstance(event, EpochDone | TaskDone))


def everything(training: Trainer) -> str:
    """A digest of all that the rest of a run depends on, and of its figures; not of what a clock said."""
    return fingerprint({**training.state_dict(), "seconds": None})


def assert_resumes(build: Callable[[], Trainer], used: Trainer, folder: Path) -> list[EpochDone | TaskDone]:
    """Save a run at every boundary, and go on from each to the next: the same bits there. Returns the boundaries.

    That is as good as going on to the end: what a state lacks is missed in some stretch between two boundaries, and
    every stretch is trained from what was saved before it. The state goes through a file, into a trainer that holds
    what `used` has learnt.
    """
    whole, passed, found = build(), [], []
    for event in boundaries(whole):
        Checkpoints(folder / str(len(passed))).save(1, whole.state_dict())
        passed.append(event)
        found.append(everything(whole))
    for number, expected in enumerate([*found[1:], everything(whole)]):
        fresh = build()
        fresh.net.load_state_dict(used.net.state_dict())
        fresh.parts.load_state_dict(used.parts.state_dict())
        state, problems = Checkpoints(folder / str(number)).newest()
        assert problems == []
        assert state is not None
        fresh.load_state_dict(state)
        assert everything(fresh) == found[number]
        next(boundaries(fresh), None)
        assert everything(fresh) == expected, f"after {passed[number]}"
    return passed
