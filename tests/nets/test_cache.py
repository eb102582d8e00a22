"""What frozen layers answered is kept by content, and nothing depends on what is kept."""

from copy import deepcopy

import pytest
import torch

from esacl.nets.cache import ROWS, Cache, digest_of, padded
from esacl.rng import generator
from tests.builders import network
from tests.reference import cache as naive

LAYERS = {"mlp": 16, "cnn": 8, "resnet10": 8}


def images(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 1, 8, 8, generator=generator(seed, "images"))


def layers(backbone: str):
    """A function of images that counts how many it was called with."""
    net = network(backbone, LAYERS[backbone])
    calls: list[int] = []

    def compute(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        with net.inference():
            found = net.model.backbone(x.contiguous(memory_format=net.layout))
        assert isinstance(found, torch.Tensor)
        return found

    return compute, calls


@pytest.mark.parametrize("backbone", LAYERS)
@pytest.mark.parametrize("size", [0, 3000, 1 << 20])
def test_answers_are_those_of_one_image_after_the_other_whatever_is_kept(backbone, size):
    compute, _ = layers(backbone)
    cache, kept = Cache(size), {}
    pool = images(20)
    for turn in range(6):
        x = pool[torch.randint(20, (13,), generator=generator(turn, "rows"))]
        found, _ = cache.answers("a", x, compute)
        expected = torch.stack(naive.answers(kept, x, compute, ROWS))
        assert torch.equal(found, expected)
        cache.begin_task()


def test_only_images_that_are_new_are_computed_and_counted():
    compute, calls = layers("cnn")
    cache, x = Cache(1 << 20), images(20)
    counted = [cache.answers("a", part, compute)[1] for part in (x[:12], x, x.flip(0), torch.cat([x[:3], x[:3]]))]
    assert counted == [16, 8, 0, 0]
    assert sum(calls) == 24


def test_equal_images_in_a_batch_are_computed_once():
    compute, calls = layers("mlp")
    found, counted = Cache(1 << 20).answers("a", images(1).expand(20, 1, 8, 8), compute)
    assert counted == sum(calls) == ROWS
    assert (found == found[0]).all()


def test_other_layers_have_other_answers():
    one, other = layers("mlp")[0], layers("cnn")[0]
    cache, x = Cache(1 << 20), images(5)
    cache.answers("one", x, one)
    found, counted = cache.answers("other", x, other)
    assert torch.equal(found, Cache().answers("other", x, other)[0])
    assert counted == padded(5)


def test_memory_is_bounded_and_what_the_present_task_asks_for_stays():
    compute, _ = layers("mlp")  # answers of 16 numbers
    cache, x = Cache(10 * 64), images(20)
    cache.answers("a", x[:10], compute)
    assert cache.answers("a", x[10:18], compute)[1] == 8, "no room: what this task asked for stays"
    assert cache.answers("a", x[:10], compute)[1] == 0
    cache.begin_task()
    cache.answers("a", x[:4], compute)
    assert cache.answers("a", x[10:16], compute)[1] == 8
    assert cache.answers("a", torch.cat([x[:4], x[10:16]]), compute)[1] == 0, "six of before made room"
    assert cache.answers("a", x[4:10], compute)[1] == 8
    assert cache._values is not None
    assert cache._values.numel() * 4 == 10 * 64


def test_a_restored_cache_computes_again_but_counts_as_one_that_lost_nothing():
    compute, calls = layers("cnn")
    pool = images(40)
    whole = Cache(30 * 64)
    for task in range(3):
        whole.begin_task()
        state = deepcopy(whole.state_dict())
        calls.clear()
        again = Cache(30 * 64)
        again.load_state_dict(state)
        for turn in range(3):
            x = pool[torch.randint(40, (11,), generator=generator(turn, "rows", task))]
            for found, other in zip(whole.answers("a", x, compute), again.answers("a", x, compute)):
                assert torch.equal(torch.as_tensor(found), torch.as_tensor(other))
        assert repr(whole.state_dict()) == repr(again.state_dict())


def test_the_digest_of_layers_depends_on_values_shapes_and_names():
    value = torch.arange(6.0)
    others = [{"b": value}, {"a": value + 1}, {"a": value.view(2, 3)}, {"a": value, "b": value}]
    assert digest_of({"a": value}) == digest_of({"a": value.clone()})
    assert digest_of({"a": value}) not in {digest_of(other) for other in others}
