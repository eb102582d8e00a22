"""States whose digest fits, but that nobody can go on from: noticed before training goes on, not in the midst of it."""

from pathlib import Path

import pytest
import torch

import esacl
from esacl import Config
from esacl.errors import CheckpointError
from esacl.runner import reopen
from esacl.training.checkpoint import Checkpoints
from esacl.training.events import EpochDone
from tests.builders import stream


def begun(folder: Path, method: str, epochs: int = 3) -> Checkpoints:
    """A run that stopped after so many epochs, two a task."""
    config = Config.of(method=method, epochs=2, batch_size=8, width=16)
    done = 0
    for event in esacl.iter_run(config, folder / "run", stream=stream()):
        done += isinstance(event, EpochDone)
        if done == epochs:
            break
    return Checkpoints(folder / "run" / "checkpoint")


def resume(folder: Path) -> list[str]:
    """What is told of the checkpoints."""
    with reopen(folder / "run", stream()) as run:
        return run.notes


def store(state):
    return state["trainer"]["parts"]["objective"]["memory"]["store"]


def momentum(state):
    return next(iter(state["trainer"]["optimizer"]["state"].values()))


def exemplars(state):
    return state["trainer"]["parts"]["objective"]["memory"]["images"]


CHANGES = {
    "labels of another type": ("er", lambda state: store(state).update(y=store(state)["y"].to(torch.int8))),
    "images of another shape": ("er", lambda state: store(state).update(x=store(state)["x"][..., :4])),
    "a momentum of another shape": ("er", lambda state: momentum(state).update(momentum_buffer=torch.zeros(3))),
    "exemplars of another type": ("icarl", lambda state: exemplars(state).update({0: exemplars(state)[0].double()})),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_cannot_be_gone_on_from_is_passed_over_for_the_one_before_it(tmp_path, name):
    method, change = CHANGES[name]
    checkpoints = begun(tmp_path, method)
    (older, newest), state = checkpoints.numbers(), checkpoints.newest()[0]
    change(state)
    checkpoints.save(newest, state)
    assert any("does not hold what esacl" in note for note in resume(tmp_path))
    (checkpoints.folder / f"{older:06d}.safetensors").unlink()
    with pytest.raises(CheckpointError, match="does not hold what esacl"):
        resume(tmp_path)


def test_a_state_of_another_type_than_its_part_has_is_refused(tmp_path):
    checkpoints = begun(tmp_path, "icarl")
    newest, state = checkpoints.numbers()[-1], checkpoints.newest()[0]
    readout = state["trainer"]["parts"]["readout"]
    readout["means"] = readout["means"].to(torch.int64)
    checkpoints.save(newest, state)
    assert any("readout.means is of torch.int64" in note for note in resume(tmp_path))
