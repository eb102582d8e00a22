from pathlib import Path

import pytest
import torch
from torch import Tensor

from esacl import Config, open_stream, run
from esacl.config import StreamConfig
from esacl.errors import ConfigError
from esacl.rng import derive, generator, keyed_integers
from esacl.streams.augment import OPERATIONS, STRONG
from esacl.streams.augment.randaugment import CHANGES
from esacl.streams.inputs import ImageInputs
from tests.reference import transforms as naive

FILL = torch.tensor([10, 120, 230])
TWINS = {
    "resized-crop": lambda image, key, index: naive.resized_crop(image, key, index),
    "jitter": lambda image, key, index: naive.jitter(image, key, index),
    "cutout": lambda image, key, index: naive.cutout(image, key, index, FILL[: len(image)]),
    "randaugment": lambda image, key, index: naive.randaugment(image, key, index, FILL[: len(image)]),
}


def noise(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, generator=generator(0, "images"), dtype=torch.uint8)


@pytest.mark.parametrize("shape", [(3, 9, 7), (1, 6, 8)])
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_agrees_with_its_naive_twin(name: str, shape: tuple[int, int, int]) -> None:
    images, index = noise(40, *shape), torch.arange(3, 43)
    together = OPERATIONS[name](images, 7, index, FILL[: shape[0]])
    assert together.dtype == torch.uint8
    alone = torch.stack([TWINS[name](image, 7, number) for image, number in zip(images, index.tolist())])
    off = (together.int() - alone.int()).abs()
    assert off.float().mean() < 0.05
    assert (off > 1).double().mean() < 0.002, "a rounding at a threshold"
    assert not torch.equal(together, images)


def test_every_change_of_randaugment_is_drawn() -> None:
    drawn = keyed_integers(derive(3, 0), torch.arange(500), len(CHANGES))
    assert set(drawn.tolist()) == {*range(len(CHANGES))}


@pytest.mark.parametrize(
    "setting", ["strong", "flip+jitter", "shift+randaugment", "tests.streams.test_augment_operations:dim"]
)
def test_augmentation_depends_on_key_and_index_only(setting: str) -> None:
    inputs = ImageInputs((0.5,) * 3, (0.25,) * 3, padding=4, flip=True).augmenting(setting, 32)
    assert inputs.augments
    raw, index = noise(32, 3, 16, 16), torch.randperm(1000, generator=generator(0, "index"))[:32]
    together = inputs.augmented(raw, 5, index)
    for rows in (torch.tensor([31]), torch.arange(0, 32, 3), torch.arange(31, -1, -1)):
        assert inputs.augmented(raw[rows], 5, index[rows]).equal(together[rows])
    assert not inputs.augmented(raw, 6, index).equal(together)
    assert not inputs.augmented(raw, 5, index + 1).equal(together)


def test_settings_say_what_is_done() -> None:
    own = ImageInputs((0.5,), (0.25,), padding=4, flip=True)
    assert own.augmenting("standard", 32) is own.augmenting(True, 32) is own
    assert not own.augmenting("none", 32).augments
    assert own.augmenting(False, 32) == own.augmenting("none", 32)
    strong = own.augmenting("strong", 32)
    assert (strong.padding, strong.flip, strong.operations) == (0, True, STRONG)
    assert not ImageInputs((0.5,), (0.25,)).augmenting("strong", 8).flip, "digits are not mirrored"
    assert ImageInputs((0.5,), (0.25,)).augmenting("shift", 32).padding == 4
    chosen = own.augmenting("cutout+flip+jitter", 32)
    assert (chosen.padding, chosen.flip, chosen.operations) == (0, True, ("cutout", "jitter"))


@pytest.mark.parametrize(("setting", "told"), [("bright", "unknown augmentation 'bright'"), ("flip+flip", "twice")])
def test_unknown_operations_are_refused(setting: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        open_stream(StreamConfig(augment=setting))


def dim(image: Tensor) -> Tensor:
    return (image * torch.rand(())).to(torch.uint8)


def wrong(image: Tensor) -> Tensor:
    return image.float()


def broken(image: Tensor) -> Tensor:
    raise ValueError("not today")


@pytest.mark.parametrize(("name", "told"), [("wrong", "makes torch.float32"), ("broken", "ValueError: not today")])
def test_a_transform_of_ones_own_that_fails_is_told(name: str, told: str) -> None:
    inputs = ImageInputs((0.5,), (0.25,), operations=(f"{__name__}:{name}",))
    with pytest.raises(ConfigError, match=told):
        inputs.augmented(noise(2, 1, 4, 4), 0, torch.arange(2))


def test_a_transform_of_ones_own_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    ImageInputs((0.5,), (0.25,), operations=(f"{__name__}:dim",)).augmented(noise(2, 1, 4, 4), 0, torch.arange(2))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_run_says_that_it_depends_on_a_transform_and_no_file_starts_one(tmp_path: Path) -> None:
    name = f"{__name__}:dim"
    config = Config.of(
        method="finetune", epochs=1, limit_per_class=4, augment=f"cutout+{name}", backbone="mlp", width=4
    )
    assert config.code() == [name]
    run(config, tmp_path / "run")
    assert name in (tmp_path / "run" / "config.toml").read_text()
    with pytest.raises(ConfigError, match="no file is allowed to start code"):
        run(Config.from_mapping(config.to_mapping()), tmp_path / "again")
