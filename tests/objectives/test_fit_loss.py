import pytest
import torch
from torch.nn.functional import cross_entropy

from esacl.methods import METHODS
from esacl.objectives.base import Objective
from esacl.objectives.icarl import Icarl
from esacl.readouts.probe import LinearProbe
from esacl.rng import generator
from tests.builders import batch, context, network, outputs_of, parts, stream

OBJECTIVES = sorted(METHODS)
OF_LOGITS = [name for name in OBJECTIVES if METHODS[name].part("readout") is not LinearProbe]
OF_ALL_COLUMNS = [name for name in OF_LOGITS if METHODS[name].part("objective") is not Icarl]


def objective(method: str, mask: str = "ce") -> Objective:
    made = parts(method, of=context(fit_loss=mask)).objective
    made.attach(network())
    return made


def logits(count: int = 8, scale: float = 3.0) -> torch.Tensor:
    return (scale * torch.randn(count, 6, generator=generator(0, "logits"))).requires_grad_(True)


@pytest.mark.parametrize("mask", ["ce", "ace"])
@pytest.mark.parametrize("method", OBJECTIVES)
def test_the_fit_loss_has_one_value_for_each_example_and_changes_nothing(method: str, mask: str) -> None:
    part, given, examples = objective(method, mask), logits(), batch()
    before, state = given.detach().clone(), repr(part.state_dict())
    first = part.fit_loss(outputs_of(given), examples)
    assert first.shape == (8,)
    assert torch.equal(first, part.fit_loss(outputs_of(given), examples))
    assert torch.equal(given, before)
    assert repr(part.state_dict()) == state


@pytest.mark.parametrize("method", ["finetune", "mtl", "er", "der++"])
def test_the_fit_loss_of_an_example_does_not_depend_on_the_others(method: str) -> None:
    part, given, examples = objective(method), logits(), batch()
    whole = part.fit_loss(outputs_of(given), examples)
    rows = torch.tensor([5, 2])
    torch.testing.assert_close(part.fit_loss(outputs_of(given[rows]), examples.take(rows)), whole[rows])


@pytest.mark.parametrize("method", ["finetune", "mtl", "er", "der++"])
def test_the_fit_loss_is_the_cross_entropy(method: str) -> None:
    given, examples = logits(), batch()
    expected = cross_entropy(given, examples.y, reduction="none")
    assert torch.equal(objective(method).fit_loss(outputs_of(given), examples), expected)


@pytest.mark.parametrize("method", OF_LOGITS)
def test_with_the_batch_mask_the_logits_of_absent_classes_get_no_gradient_at_all(method: str) -> None:
    given, examples = logits(), batch(task=1)
    absent = [c for c in range(6) if c not in examples.y.tolist()]
    assert absent == [0, 1, 4, 5]
    masked = objective(method, "ace")
    masked.begin_task(network(), stream().tasks[1])
    masked.fit_loss(outputs_of(given), examples).sum().backward()
    assert given.grad is not None
    assert (given.grad[:, absent] == 0).all()
    assert (given.grad[:, [2, 3]] != 0).all()


@pytest.mark.parametrize("method", OF_ALL_COLUMNS)
def test_without_a_mask_they_do(method: str) -> None:
    given, examples = logits(), batch(task=1)
    objective(method, "ce").fit_loss(outputs_of(given), examples).sum().backward()
    assert given.grad is not None
    assert (given.grad[:, [0, 1, 4, 5]] != 0).all()


@pytest.mark.parametrize("method", ["finetune", "er", "der++"])
def test_the_batch_mask_is_the_cross_entropy_over_the_classes_of_the_batch(method: str) -> None:
    given, examples = logits(), batch(task=2)
    expected = cross_entropy(given[:, [4, 5]], examples.y - 4, reduction="none")
    torch.testing.assert_close(objective(method, "ace").fit_loss(outputs_of(given), examples), expected)


@pytest.mark.parametrize("scale", [1e3, 6e4])
def test_the_mask_stays_finite_with_logits_as_large_as_16_bits_hold(scale: float) -> None:
    given, examples = logits(scale=scale), batch()
    fit = objective("er", "ace").fit_loss(outputs_of(given), examples)
    assert torch.isfinite(fit).all()


@pytest.mark.parametrize("method", OBJECTIVES)
def test_nothing_is_retained_on_the_first_task_and_no_random_number_is_spent(method: str) -> None:
    part, net, examples = objective(method), network(), batch()
    part.begin_task(net, stream().tasks[0])
    before = repr(part.state_dict())
    assert part.retain_loss(net, net(examples.x), examples) is None
    assert part.memory_batch(4) is None
    assert repr(part.state_dict()) == before


@pytest.mark.parametrize("method", ["finetune", "mtl"])
def test_methods_without_a_memory_never_retain_anything(method: str) -> None:
    part, net, examples = objective(method), network(), batch(task=1)
    part.begin_task(net, stream().tasks[1])
    assert part.retain_loss(net, net(examples.x), examples) is None
    assert part.memory_batch(4) is None


@pytest.mark.parametrize("method", OBJECTIVES)
def test_the_task_is_part_of_the_state(method: str) -> None:
    part, resumed = objective(method), objective(method)
    part.begin_task(network(), stream().tasks[2])
    resumed.load_state_dict(part.state_dict())
    assert resumed.task == 2


def test_only_mtl_trains_all_tasks_at_once() -> None:
    joint = {name for name in ("finetune", "mtl", "er", "der++") if objective(name).joint}
    assert joint == {"mtl"}


def test_the_mask_of_a_part_of_a_batch_is_that_of_the_whole_batch() -> None:
    masked, examples = objective("finetune", "ace"), batch()
    assert examples.y.unique().numel() == 2
    alone = examples.take((examples.y == examples.y[0]).nonzero().squeeze(1)[:2])
    assert alone.y.unique().numel() == 1
    equal = torch.zeros(2, 6)
    expected = torch.full((2,), 2.0).log()
    torch.testing.assert_close(masked.fit_loss(outputs_of(equal), alone), expected)
    again = alone.take(torch.tensor([0]))
    torch.testing.assert_close(masked.fit_loss(outputs_of(equal[:1]), again), expected[:1])
