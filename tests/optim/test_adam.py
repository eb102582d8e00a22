import torch

from esacl.optim.adam import AdamOptions, AdamUpdate
from tests.builders import context, network, parts


def test_every_coordinate_moves_by_the_rate_however_small_its_gradient() -> None:
    net = network()
    net.extra = {"scores": torch.ones(2, requires_grad=True)}
    optimizer = AdamUpdate(AdamOptions(lr=0.01), context()).build(net, {}, 3)
    moving = [*net.stored.values(), *net.extra.values()]
    before = [value.detach().clone() for value in moving]
    for size, value in enumerate(moving):
        value.grad = torch.full_like(value, 10.0**-size)
    optimizer.step()
    for value, old in zip(moving, before):
        torch.testing.assert_close(value.detach(), old - 0.01, atol=1e-4, rtol=0)


def test_the_rate_is_the_authors_for_every_backbone_and_falls_along_a_cosine() -> None:
    rule = parts("wsn").update
    assert isinstance(rule, AdamUpdate)
    assert rule.options.lr == 0.001
    assert [round(rule.rate(progress), 6) for progress in (0, 0.5, 1)] == [1, 0.5, 0]
    assert "{update.lr} than 0.001" in rule.remedy
