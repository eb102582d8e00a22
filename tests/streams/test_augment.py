import torch
from hypothesis import given
from hypothesis import strategies as st

from esacl.rng import derive, generator, keyed_integers
from esacl.streams.inputs import ImageInputs
from tests.reference import augment as naive


@given(
    st.integers(1, 5), st.sampled_from([1, 3]), st.integers(1, 6), st.integers(1, 6), st.integers(0, 4), st.booleans(),
    st.integers(0, 2**63 - 1), st.integers(0, 2**40),
)  # fmt: skip
def test_crop_and_flip_agrees_with_its_naive_twin(
    count: int, channels: int, height: int, width: int, padding: int, flip: bool, key: int, first: int
) -> None:
    raw = torch.randint(1, 256, (count, channels, height, width), generator=generator(key, "raw")).byte()
    index = torch.arange(first, first + count)
    batched = ImageInputs((0.0,), (1.0,), padding, flip).crop_and_flip(raw, key, index)
    assert batched.equal(naive.crop_and_flip(raw, key, index, padding, flip))
    assert batched.dtype == torch.uint8


def test_augmentation_depends_on_key_and_index_only() -> None:
    inputs = ImageInputs((0.5,) * 3, (0.25,) * 3, padding=4, flip=True)
    raw = torch.randint(0, 256, (64, 3, 32, 32), generator=generator(0, "raw")).byte()
    index = torch.randperm(1000, generator=generator(0, "index"))[:64]
    together = inputs.augmented(raw, 5, index)
    for rows in (torch.tensor([63]), torch.arange(0, 64, 3), torch.arange(63, -1, -1)):
        assert inputs.augmented(raw[rows], 5, index[rows]).equal(together[rows])
    assert not inputs.augmented(raw, 6, index).equal(together)
    assert not inputs.augmented(raw, 5, index + 1).equal(together)


def test_without_padding_and_flip_nothing_is_augmented() -> None:
    inputs = ImageInputs((0.5,), (0.25,))
    raw = torch.randint(0, 256, (8, 1, 5, 5), generator=generator(0, "raw")).byte()
    assert inputs.augmented(raw, 1, torch.arange(8)).equal(inputs.plain(raw))
    assert torch.allclose(inputs.plain(raw), (raw / 255 - 0.5) / 0.25, atol=1e-6)


def test_every_shift_and_both_directions_occur_equally_often() -> None:
    corner = torch.zeros(9000, 1, 3, 3, dtype=torch.uint8)
    corner[:, :, 1, 0] = 1
    moved = ImageInputs((0.0,), (1.0,), padding=1, flip=True).crop_and_flip(corner, 3, torch.arange(9000))
    # the mark stays in the image for 3 × 2 of 9 shifts, and is mirrored half of the time
    places = moved.flatten(1).float().sum(0).view(3, 3)
    expected = 9000 / 9 * torch.tensor([[1.0, 2.0, 1.0]] * 3) / 2
    assert (places - expected).abs().max() < 5 * expected.max() ** 0.5


def test_keyed_integers_agree_with_unbounded_arithmetic() -> None:
    for key in (0, 1, derive(0, "x"), 2**63 - 1):
        for below in (1, 2, 9, 1000, 1 << 31):
            index = torch.tensor([0, 1, 2, 17, 2**31, 2**45])
            expected = [naive.keyed_integer(key, k, below) for k in index.tolist()]
            assert keyed_integers(key, index, below).tolist() == expected


def test_keyed_integers_are_uniform_and_uncorrelated_between_neighbours() -> None:
    count, below = 90_000, 9
    numbers = keyed_integers(derive(0, "uniform"), torch.arange(count), below)
    observed = torch.bincount(numbers, minlength=below).double()
    chi_squared = float(((observed - count / below) ** 2 / (count / below)).sum())
    assert chi_squared < 26.1  # exceeded by chance once in a thousand, with 8 degrees of freedom
    pairs = torch.bincount(numbers[:-1] * below + numbers[1:], minlength=below * below).double()
    expected = (count - 1) / below**2
    assert float(((pairs - expected) ** 2 / expected).sum()) < 124.8  # likewise, with 80
