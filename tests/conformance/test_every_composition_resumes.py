"""Every method goes on after an interruption as if there had been none."""

import torch

from esacl.training.checkpoint import Checkpoints
from esacl.training.events import EpochDone, TaskDone
from tests.builders import finish, same, weights
from tests.conformance.build import build


def test_it_resumes_at_every_boundary_to_the_same_bits_from_a_trainer_that_was_used_for_something_else(
    method, tmp_path
):
    """Runs are saved after epochs and tasks.

    The state goes through a file; the trainer that continues has other weights, memories and statistics.
    """
    whole = build(method)
    saved = []
    for event in whole.run():
        if isinstance(event, EpochDone | TaskDone):
            checkpoints = Checkpoints(tmp_path / str(len(saved)))
            checkpoints.save(1, whole.state_dict())
            saved.append(checkpoints)
    assert len(saved) >= 3
    used = build(method)
    for _, event in zip(range(11), used.run()):
        assert event is not None
    with torch.no_grad():
        for value in used.net.stored.values():
            value.add_(1)
    for checkpoints in saved:
        fresh = build(method)
        fresh.net.load_state_dict(used.net.state_dict())
        fresh.parts.load_state_dict(used.parts.state_dict())
        state, problems = checkpoints.newest()
        assert problems == []
        fresh.load_state_dict(state)
        finish(fresh)
        assert same(weights(whole.net), weights(fresh.net))
        assert fresh.rows == whole.rows
        assert fresh.unpruned == whole.unpruned
        assert fresh.untrained == whole.untrained
        assert fresh.paper_macs == whole.paper_macs
        assert fresh.net.meter.state_dict() == whole.net.meter.state_dict()
