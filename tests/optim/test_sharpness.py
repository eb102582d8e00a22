from copy import deepcopy
from typing import Literal

import pytest
import torch

from tests.builders import batch, network
from tests.optim.sharpness_tools import (
    SETS,
    STREAM,
    Given,
    assert_near,
    fit_of,
    flat,
    joint_of,
    nothing,
    replaying,
    rule,
)
from tests.reference.sharpness import LookSam, sam


@pytest.mark.parametrize(("support", "update"), SETS)
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_the_gradient_is_that_of_a_copy_moved_up_the_support_sets_loss(
    backbone: str, support: list[int] | None, update: list[int] | None
) -> None:
    net, examples = network(backbone, 8), batch()
    ascended, descended = fit_of(net, examples, support), fit_of(net, examples, update)
    expected = sam(deepcopy(net.model), ascended, descended, 0.3)
    rule(0.3).compute_gradients(net, nothing(), examples, Given(support, update))
    assert_near(flat(net), expected)
    net.backward(descended(net.model))
    assert (flat(net) - expected).norm() > 0.01 * expected.norm(), "not the plain gradient"


@pytest.mark.parametrize(("support", "update"), SETS)
@pytest.mark.parametrize("how", ["joint", "apart"])
@pytest.mark.parametrize("ascent", ["fit", "total"])
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_the_ascent_is_of_the_fit_or_of_the_total_and_the_descent_of_the_total(
    backbone: str, ascent: str, how: Literal["joint", "apart"], support: list[int] | None, update: list[int] | None
) -> None:
    net, examples, part = network(backbone, 8), batch(8, STREAM, task=1), replaying(how=how)
    replay, apart = deepcopy(part.memory).draw(4), how == "apart"
    ascended = fit_of(net, examples, support)
    if ascent == "total":
        ascended = joint_of(net, examples, support, replay, apart)
    expected = sam(deepcopy(net.model), ascended, joint_of(net, examples, update, replay, apart), 0.3)
    trace = rule(0.3, ascent=ascent).compute_gradients(net, part, examples, Given(support, update))
    assert_near(flat(net), expected)
    assert trace.updated == len(update or range(8))


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_the_ascent_can_see_a_part_of_what_is_replayed(share: float) -> None:
    net, examples, part = network("cnn", 8), batch(8, STREAM, task=1), replaying()
    replay = deepcopy(part.memory).draw(4)
    some = joint_of(net, examples, [0, 3, 6], replay.part(share))
    expected = sam(deepcopy(net.model), some, joint_of(net, examples, None, replay), 0.3)
    rule(0.3, replay=share).compute_gradients(net, part, examples, Given([0, 3, 6]))
    assert_near(flat(net), expected)
    calls = 3 * (3 + round(4 * share)) + 3 * (8 + 4)
    assert net.meter.executed_macs == {"train": calls * net.meter.dense}


@pytest.mark.parametrize("ranking", ["pass", "reuse"])
def test_fresh_losses_do_not_change_the_gradient_of_the_same_rows(ranking: str) -> None:
    net, twin, examples = network(), network(), batch()
    rule().compute_gradients(net, nothing(), examples, Given([0, 3, 6], [1, 2], ranking))
    rule().compute_gradients(twin, nothing(), examples, Given([0, 3, 6], [1, 2]))
    assert_near(flat(net), flat(twin))


def test_between_ascents_the_orthogonal_direction_is_used_again_as_in_the_twin() -> None:
    net, part = network(), replaying()
    mine, twin = rule(0.2, every=3, reuse=0.7), LookSam(0.2, 3, 0.7)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.05)
    renewed = []
    for step in range(8):
        examples, replay = batch(8, STREAM, task=1, start=step), deepcopy(part.memory).draw(4)
        first, second = (joint_of(net, examples, rows, replay) for rows in ([0, 3, 6], [1, 2, 5, 7]))
        expected = twin.gradient(deepcopy(net.model), first, second)
        before = mine.second
        mine.compute_gradients(net, part, examples, Given([0, 3, 6], [1, 2, 5, 7]))
        assert_near(flat(net), expected)
        renewed.append(mine.second is not before)
        optimizer.step()
    assert renewed == [True, False, False, True, False, False, True, False]


def test_a_direction_does_not_outlive_its_task() -> None:
    net, mine, fresh = network(), rule(every=3), rule(every=3)
    mine.compute_gradients(net, nothing(), batch(), Given())
    assert mine.second
    mine.begin_task()
    assert mine.state_dict() == fresh.state_dict()
    mine.compute_gradients(net, nothing(), batch(task=1), Given())
    found = flat(net).clone()
    fresh.compute_gradients(net, nothing(), batch(task=1), Given())
    assert torch.equal(found, flat(net))


def test_a_rule_continues_from_a_saved_state_with_identical_gradients() -> None:
    net, mine, resumed = network(), rule(every=3), rule(every=3)
    for step in range(2):
        mine.compute_gradients(net, nothing(), batch(start=step), Given())
    resumed.compute_gradients(network(seed=1), nothing(), batch(start=5), Given())
    resumed.load_state_dict(deepcopy(mine.state_dict()))
    for step in range(2, 5):
        found = []
        for each in (mine, resumed):
            each.compute_gradients(net, nothing(), batch(start=step), Given())
            found.append(flat(net))
        assert torch.equal(*found)
