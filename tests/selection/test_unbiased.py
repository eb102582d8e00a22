from math import inf

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from esacl.config import Config
from esacl.methods import resolve
from esacl.objectives.base import Objective
from esacl.options import NoOptions
from esacl.rng import generator
from tests.builders import batch, context, network, stream
from tests.reference.selection import unbiased
from tests.selection.ranked_tools import gradient_rule, of_size, rows_of, selector

LOSSES = torch.tensor([0.1, 3.0, 0.2, 0.9, 0.4, 2.0, 0.3, 0.1])


@given(st.integers(2, 24), st.floats(0.05, 0.95), st.data())
@settings(max_examples=60)
def test_rows_and_weights_are_those_of_the_twin(size: int, keep: float, data: st.DataObject) -> None:
    losses = data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.5, 7.0, inf]), min_size=size, max_size=size))
    part = selector(keep, rule="unbiased", ranking="stale")
    part.losses[:size] = torch.tensor(losses)
    chances = torch.rand(size, generator=generator(0, "selection", 0, 0)).tolist()
    expected = unbiased(losses, keep, chances)
    rows = part.update_set(of_size(size), None)
    assert rows_of(rows) == sorted(expected)
    weights = part.weights(of_size(size), rows)
    assert weights is not None
    stands_for = (weights * size / len(expected)).tolist()
    assert stands_for == pytest.approx([expected[row] for row in sorted(expected)], rel=1e-5)
    assert sum(stands_for) == pytest.approx(size, rel=1e-5), "together they stand for the whole batch"


@pytest.mark.parametrize("keep", [0.4, 0.6])
@pytest.mark.parametrize("rule", ["unbiased", "random", "loss"])
def test_the_weighted_gradient_is_the_full_one_in_the_mean_unless_by_loss_alone(rule: str, keep: float) -> None:
    net, examples, objective = network(), batch(), Objective(NoOptions(), context())
    net.backward(objective.fit_loss(net(examples.x), examples).mean())
    full = torch.cat([gradient.flatten() for gradient in net.gradients().values()])
    draws = []
    part = selector(keep, rule=rule, ranking="stale")
    part.losses[examples.index] = LOSSES
    for step in range(600):
        part.step = step
        gradient_rule(False).compute_gradients(net, objective, examples, part)
        draws.append(torch.cat([gradient.flatten() for gradient in net.gradients().values()]))
    every = torch.stack(draws)
    off = (every.mean(0) - full).norm() / full.norm()
    chance = every.std(0).norm() / full.norm() / 600**0.5
    assert (off < 4 * chance + 1e-5) == (rule != "loss"), (off, chance)


def test_all_data_are_seen_in_the_last_share_of_a_tasks_epochs() -> None:
    part = selector(0.5, rule="unbiased", tail=0.5)  # of two epochs
    seen = []
    for epoch in range(2):
        part.epoch_subset(24, epoch)
        rows = part.update_set(batch(), None)
        seen.append(8 if rows is None else len(rows))
        assert (part.weights(batch(), rows) is None) == (rows is None)
    assert seen == [4, 8]


@pytest.mark.parametrize(("rule", "tail"), [("unbiased", 0.125), ("random", 0.0), ("loss", 0.0)])
def test_only_the_unbiased_rule_has_such_a_share_by_default(rule: str, tail: float) -> None:
    config = Config("esacl-er", options={"selection": {"rule": rule, "keep": 0.5}})
    assert resolve(config, stream()).options["selection"]["tail"] == tail
