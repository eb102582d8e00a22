from copy import deepcopy
from typing import Literal

import pytest
import torch
from pytorch_optimizer import SAM
from torch import Tensor
from torch.nn.functional import cross_entropy

from esacl.config import Config
from esacl.errors import ConfigError
from esacl.methods import resolve
from esacl.nets import Network
from esacl.objectives.base import Objective
from esacl.objectives.derpp import Derpp
from esacl.objectives.er import Er
from esacl.options import NoOptions
from esacl.types import Batch, Outputs, Replay
from tests.builders import batch, context, network, same, weights
from tests.optim.sharpness_tools import (
    BOTH,
    STREAM,
    Given,
    Noting,
    flat,
    nothing,
    plain,
    replaying,
    rule,
)


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("backbone", ["mlp", "cnn"])
def test_the_weights_are_the_same_bits_on_return(backbone: str, every: int) -> None:
    net, mine = network(backbone, 8), rule(5.0, every=every)
    before = {name: value.detach().clone() for name, value in net.stored.items()}
    for step in range(3):
        mine.compute_gradients(net, nothing(), batch(start=step), Given())
        assert same({name: value.detach() for name, value in net.stored.items()}, before)


def test_the_weights_are_the_same_bits_also_when_the_second_pass_fails() -> None:
    class Fails(Objective):
        def retain_loss(
            self, net: Network, outputs: Outputs, batch: Batch, replay: Replay | None = None
        ) -> Tensor | None:
            if same({name: value.detach() for name, value in net.stored.items()}, before):
                return None
            raise ArithmeticError("at the worst point")

    net = network("cnn", 8)
    before = {name: value.detach().clone() for name, value in net.stored.items()}
    with pytest.raises(ArithmeticError, match="at the worst point"):
        rule().compute_gradients(net, Fails(NoOptions(), context()), batch(), Given())
    assert same({name: value.detach() for name, value in net.stored.items()}, before)
    statistics = weights(net)
    net(batch().x)
    assert not same(weights(net), statistics), "BatchNorm goes on taking statistics"


@pytest.mark.parametrize(
    ("ascent", "how", "passes"), [("fit", None, 1), ("total", None, 1), ("total", "joint", 1), ("total", "apart", 2)]
)
def test_batch_statistics_see_a_single_pass_at_the_weights_and_none_at_the_worst_point(
    ascent: str, how: Literal["joint", "apart"] | None, passes: int
) -> None:
    examples = batch(8, STREAM, task=1)
    after = []
    for each in (rule(1.0, ascent=ascent), plain()):
        net = network("cnn", 8)
        each.compute_gradients(net, replaying(how=how) if how else nothing(), examples, Given())
        after.append(weights(net))
    assert same(*after)
    counts = [int(value) for name, value in after[0].items() if name.endswith("num_batches_tracked")]
    assert counts == [passes] * 3


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("kind", [Er, Derpp])
def test_without_a_length_it_is_the_plain_rule_bit_for_bit(kind: type[Er], every: int) -> None:
    seen = []
    for each in (rule(0.0, ascent="total", every=every), plain()):
        net, part = network("cnn", 8), replaying(kind)
        traces = [
            each.compute_gradients(net, part, batch(8, STREAM, 1, step), Given([1, 2], [0, 3, 6])) for step in range(3)
        ]
        values = [(*trace.outputs, trace.fit, trace.loss, trace.rows, flat(net)) for trace in traces]
        seen.append((values, weights(net), net.meter.state_dict(), part.memory.state_dict()["generators"]["replay"]))
    mine, theirs = seen
    for ours, others in zip(mine[0], theirs[0]):
        assert all(torch.equal(one, other) for one, other in zip(ours, others))  # type: ignore[arg-type]
    assert same(mine[1], theirs[1])
    assert mine[2] == theirs[2]
    assert torch.equal(mine[3], theirs[3])


def test_the_total_is_of_the_same_replayed_examples_at_both_points() -> None:
    part = replaying(Noting)
    assert isinstance(part, Noting)
    for step in range(3):
        rule(ascent="total").compute_gradients(network(), part, batch(8, STREAM, 1, step), Given())
    first, second, _ = part.replayed  # drawn once a step, so the same at both points
    assert not torch.equal(first, second)


@pytest.mark.parametrize("ascent", ["fit", "total"])
@pytest.mark.parametrize("kind", [Er, Derpp])
def test_the_memory_stands_afterwards_where_a_single_retention_leaves_it(kind: type[Er], ascent: str) -> None:
    part, twin, net = replaying(kind), replaying(kind), network()
    examples = batch(8, STREAM, task=1)
    rule(ascent=ascent).compute_gradients(net, part, examples, Given())
    twin.rehearse()
    assert part.memory.draws == twin.memory.draws
    assert torch.equal(part.memory.draw(4).x, twin.memory.draw(4).x)


@pytest.mark.parametrize("ranking", ["none", "pass", "reuse"])
@pytest.mark.parametrize("support", [None, [2, 4, 7]])
def test_the_trace_is_what_was_seen_at_the_weights_and_its_loss_that_of_the_worst_point(
    support: list[int] | None, ranking: str
) -> None:
    net, examples = network(), batch()
    trace = rule(2.0).compute_gradients(net, nothing(), examples, Given(support, [0, 1], ranking))
    rows = torch.tensor(support) if support is not None and ranking == "none" else BOTH
    outputs = net(examples.x)
    torch.testing.assert_close(trace.logits(rows), outputs.logits[rows].detach())
    losses = cross_entropy(outputs.logits, examples.y, reduction="none").detach()
    torch.testing.assert_close(trace.fit, losses[rows])
    assert len(trace.fit) == len(trace.outputs.logits) == len(rows)
    assert trace.batch is examples
    assert trace.updated == 2
    assert abs(trace.loss.item() - losses[:2].mean().item()) > 0.1, "the loss that was minimised is another one"
    for value in (*trace.outputs, trace.fit, trace.loss):
        assert not value.requires_grad


def test_a_gradient_of_zero_has_no_direction_and_moves_nothing() -> None:
    class Flat(Objective):
        def example_loss(self, outputs: Outputs, batch: Batch) -> Tensor:
            return 0 * outputs.logits.sum(1) + 1

    net = network()
    trace = rule(0.5, every=2).compute_gradients(net, Flat(NoOptions(), context()), batch(), Given())
    assert trace.loss.item() == 1
    assert flat(net).count_nonzero() == 0


def test_a_16_bit_gradient_that_overflows_costs_a_step_and_nothing_else() -> None:
    net, mine, examples = network(precision="16"), rule(0.1, every=2), batch()
    net.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1)
    before = weights(net)
    losses = []
    for step in range(2):
        losses.append(mine.compute_gradients(net, nothing(), examples, Given()).loss)
        assert not flat(net).isfinite().all()
        net.unscale(optimizer)
        net.step(optimizer)
        assert same(weights(net), before), step
    assert torch.stack(losses).isfinite().all()
    assert all(value.isfinite().all() for value in mine.second.values())


@pytest.mark.parametrize("rho", [0.05, 0.5])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_its_steps_are_those_of_an_independent_implementation(momentum: float, rho: float) -> None:
    net, model = network(), deepcopy(network().model)
    mine = rule(rho)
    optimizer = torch.optim.SGD(net.model.parameters(), lr=0.1, momentum=momentum)
    theirs = SAM(model.parameters(), torch.optim.SGD, rho=rho, lr=0.1, momentum=momentum)
    for step in range(10):
        examples = batch(start=step)
        mine.compute_gradients(net, nothing(), examples, Given())
        optimizer.step()
        cross_entropy(model(examples.x).logits, examples.y).backward()
        theirs.first_step(zero_grad=True)
        cross_entropy(model(examples.x).logits, examples.y).backward()
        theirs.second_step(zero_grad=True)
    for name, value in model.named_parameters():
        torch.testing.assert_close(net.stored[name], value, rtol=1e-4, atol=1e-5, msg=name)
    started = network()
    assert all((net.stored[name] - value).norm() > 0.01 for name, value in started.stored.items())


def test_a_direction_is_re_used_only_for_the_same_loss_on_the_same_rows() -> None:
    assert resolve(Config("esacl"), STREAM).options["gradient"]["ascent"] == "total"
    with pytest.raises(ConfigError, match=r"of the total loss, but gradient\.ascent = 'fit' was given\. Leave"):
        resolve(Config("esacl", options={"gradient": {"every": 3, "ascent": "fit"}}), STREAM)
    with pytest.raises(ConfigError, match=r"but gradient\.replay = 0\.5 was given\. Leave gradient\.replay out"):
        resolve(Config("esacl", options={"gradient": {"every": 3, "replay": 0.5}}), STREAM)
    apart = {"gradient": {"every": 2, "rho": 0.1}, "selection": {"keep": 0.5, "support": False}}
    with pytest.raises(ConfigError, match=r"selection\.support and selection\.redundant differ\. Set both alike"):
        resolve(Config("esacl", options=apart), STREAM)
