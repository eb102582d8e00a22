"""Operations on training images, beside the shifted crop and the flip: an operation is a file."""

from collections.abc import Callable

from torch import Tensor

from esacl.code import names_code
from esacl.errors import ConfigError, unknown_name
from esacl.streams.augment import cutout, jitter, own, randaugment, resized_crop

Operation = Callable[[Tensor, int, Tensor, Tensor], Tensor]
"""(bytes [B, C, H, W], key, index, fill by channel) → bytes of the same shape, each image by (key, its index) only."""

OPERATIONS: dict[str, Operation] = {
    "resized-crop": resized_crop.apply,
    "jitter": jitter.apply,
    "randaugment": randaugment.apply,
    "cutout": cutout.apply,
}
STRONG = ("resized-crop", "randaugment", "cutout")
BASIC = ("shift", "flip")
"""Operations that are done for a whole batch in one gather."""


def named(setting: str) -> tuple[str, ...]:
    """The operations that a setting joins by +, checked.

    >>> named("flip+cutout")
    ('flip', 'cutout')
    """
    names = tuple(setting.split("+"))
    for name in names:
        if not names_code(name) and name not in (*BASIC, *OPERATIONS):
            allowed = ("none", "standard", "strong", *BASIC, *OPERATIONS, "package.module:FUNCTION")
            raise unknown_name("augmentation", name, allowed, "Join several by +.")
    if len({*names}) < len(names):
        wrong = "{given} names an operation twice."
        raise ConfigError(wrong, "stream.augment", setting, remedy="Name each once.")
    return names


def applied(name: str, images: Tensor, key: int, index: Tensor, fill: Tensor) -> Tensor:
    """The images after the operation of that name."""
    return own.apply(name, images, key, index) if names_code(name) else OPERATIONS[name](images, key, index, fill)
