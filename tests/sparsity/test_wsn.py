from math import sqrt
from typing import Any

import pytest
import torch
from torch import Tensor

from esacl.nets import Network
from esacl.rng import generator
from esacl.sparsity import wsn
from esacl.sparsity.wsn import Wsn, WsnOptions, masked
from esacl.training.events import StepDone, TaskDone
from tests.builders import context, network, same, stream
from tests.reference import wsn as naive
from tests.sparsity.isolated_runs import isolated

TASKS = stream().tasks


def scored(net: Network, seed: int = 0, **options: Any) -> Wsn:
    """The strategy, attached to a network."""
    made = Wsn(WsnOptions(**options), context(seed=seed))
    made.attach(net)
    return made


def found(training: Any) -> Wsn:
    """The strategy of a run."""
    made = training.parts.sparsity
    assert isinstance(made, Wsn)
    return made


def copies(made: Wsn) -> dict[str, Tensor]:
    """The scores as they are."""
    return {name: score.detach().clone() for name, score in made.scores.items()}


@pytest.mark.parametrize("decimals", [None, 1])
@pytest.mark.parametrize("level", [0, 0.3, 0.5, 0.97])
def test_masks_agree_with_the_naive_twin(level: float, decimals: int | None) -> None:
    made = scored(network("cnn", 4), level=level)
    with torch.no_grad():
        for name, score in made.scores.items():
            new = torch.randn(score.shape, generator=generator(0, name))
            score.copy_(new if decimals is None else new.round(decimals=decimals))
    for name, mask in made.top().items():
        assert mask.flatten().tolist() == naive.mask(made.scores[name].flatten().tolist(), level)


def test_the_estimator_agrees_with_the_naive_twin() -> None:
    draw = generator(0, "estimator")
    weight, score, given = torch.randn(3, 40, generator=draw).unbind()
    score[3] = 0
    mask = torch.rand(40, generator=draw) > 0.5
    weight, score = weight.requires_grad_(), score.clone().requires_grad_()
    effective = masked(weight, score, mask)
    assert effective.tolist() == [w if kept else 0.0 for w, kept in zip(weight.tolist(), mask.tolist())]
    effective.backward(given)  # type: ignore[no-untyped-call]
    expected = naive.gradients(weight.tolist(), score.tolist(), mask.tolist(), given.tolist())
    for value, twin in zip((weight.grad, score.grad), expected):
        assert value is not None
        torch.testing.assert_close(value, torch.tensor(twin))


def test_a_step_against_the_gradient_raises_the_magnitude_of_scores_whose_weights_would_help() -> None:
    weight = torch.tensor([1.0, 1.0, -1.0, -1.0])
    score = torch.tensor([0.5, -0.5, 0.5, -0.5], requires_grad=True)
    masked(weight, score, torch.zeros(4, dtype=torch.bool)).sum().neg().backward()  # more of it: a smaller loss
    assert score.grad is not None
    grown = (score - 0.1 * score.grad).abs() > score.abs()
    assert grown.tolist() == [True, True, False, False]


def test_a_layer_is_ranked_once_for_as_long_as_its_scores_do_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    ranked: list[int] = []

    def note(values: Tensor, k: int) -> Tensor:
        ranked.append(k)
        return largest(values, k)

    largest = wsn.largest
    monkeypatch.setattr(wsn, "largest", note)
    training = isolated("wsn")
    layers, steps = len(training.net.partition.prunable), 0
    for event in training.run():
        if isinstance(event, StepDone):
            steps += 1
            training._evaluate()
            training.net(TASKS[0].test.x.float())
    assert len(ranked) == layers * (steps + 1), "once before the first step, once after each"


def test_scores_start_within_the_authors_bounds_and_depend_on_seed_and_layer() -> None:
    net = network("mlp", 64)
    one, other = scored(net), scored(net, seed=1)
    for name, score in one.scores.items():
        bound = 1 / sqrt(score[0].numel())
        assert bound * 0.99 < float(score.detach().abs().max()) <= bound
        assert abs(float(score.detach().mean())) < 5 * bound / sqrt(3 * score.numel())
        assert not torch.equal(score, other.scores[name])
    assert same(copies(one), copies(scored(net)))
    first, second = one.scores.values()
    assert not torch.equal(first, second)


def test_scores_neither_read_nor_move_the_global_generator() -> None:
    results = []
    for number in (1, 2):
        torch.manual_seed(number)
        before = torch.get_rng_state()
        results.append(copies(scored(network())))
        assert torch.equal(torch.get_rng_state(), before)
    assert same(*results)


def test_scores_are_trained_with_the_weights_and_masks_change() -> None:
    training = isolated("wsn", epochs=4)
    made = found(training)
    before, start = copies(made), {name: mask.clone() for name, mask in made.top().items()}
    next(event for event in training.run() if isinstance(event, TaskDone))
    for name, score in copies(made).items():
        assert bool((score != before[name]).float().mean() > 0.5)
        assert not torch.equal(made.top()[name], start[name])


@pytest.mark.parametrize("scores", ["continue", "restart"])
def test_the_scores_of_a_new_task_are_those_of_the_last_or_fresh_ones(scores: str) -> None:
    net = network()
    made = scored(net, scores=scores)
    first = copies(made)
    made.begin_task(net, TASKS[0])
    assert same(copies(made), first)
    made.end_task(net, TASKS[0], None)
    made.begin_task(net, TASKS[1])
    assert same(copies(made), first) == (scores == "continue")


def test_weights_of_earlier_masks_stay_whatever_the_mask_of_now() -> None:
    training = isolated("wsn", "cnn")
    made = found(training)
    before: dict[str, Tensor] = {}
    union: dict[str, Tensor] = {}
    moved = 0
    for event in training.run():
        for name, mask in union.items():
            assert torch.equal(training.net.stored[name][mask], before[name][mask])
            moved += int((training.net.stored[name] != before[name]).sum())
        if isinstance(event, TaskDone):
            before = {name: training.net.stored[name].detach().clone() for name in made.scores}
            union = {name: torch.stack([m[name] for m in made.masks(training.net)]).any(0) for name in made.scores}
            assert same(union, made.union)
    assert moved


def test_a_task_is_learnt_with_its_share_of_the_weights_and_charged_for_it() -> None:
    training = isolated("wsn", level=0.75)
    run = training.run()
    next(run)
    assert found(training).density(training.net) == dict.fromkeys(training.net.partition.prunable, 0.25)
    assert found(training).target == 0.75


def test_masks_are_kept_as_packed_bits() -> None:
    training = isolated("wsn", epochs=1)
    next(event for event in training.run() if isinstance(event, TaskDone))
    state = found(training).state_dict()
    for name, packed in state["chosen"][0].items():
        assert packed.dtype == torch.uint8
        assert packed.numel() == -(-training.net.stored[name].numel() // 8)
