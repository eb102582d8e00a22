"""Every method goes on after an interruption as if there had been none."""

import torch

from tests.conformance.build import build
from tests.resuming import assert_resumes


def test_it_resumes_at_every_boundary_to_the_same_bits_from_a_trainer_that_was_used_for_something_else(
    method, tmp_path
):
    used = build(method)
    for _, event in zip(range(11), used.run()):
        assert event is not None
    with torch.no_grad():
        for value in used.net.stored.values():
            value.add_(1)
    assert len(assert_resumes(lambda: build(method), used, tmp_path)) >= 3
