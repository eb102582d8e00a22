"""Settings of a stream."""

from dataclasses import dataclass
from typing import Literal

from esacl.code import names_code
from esacl.options import option

SCHEMES = ("folder", "arrays")
"""What stands before a colon in the name of a stream without being the name of code."""


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """Which data, cut into which tasks."""

    name: str = option("split-digits", "stream to learn: see `esacl streams`")
    tasks: int | None = option(None, "number of tasks (default: the stream's own)", low=1)
    classes_per_task: int | None = option(None, "classes that arrive together (default: the stream's own)", low=1)
    class_order: Literal["fixed", "shuffled"] = option("fixed", "order of the classes: as listed, or by the seed")
    limit_per_class: int | None = option(
        None,
        "use only this many training (and test) images of each class; a tenth of the training images is then held out "
        "for validation, unless stream.validation says otherwise",
        low=1,
    )
    limit_order: Literal["scattered", "first"] = option(
        "scattered", "images that limit_per_class takes: scattered evenly, or the first of each class in file order"
    )
    validation: float = option(0.1, "share of each class's training examples held out; 0: none", low=0, high=0.5)
    blur: float = option(
        0.0, "share of each class's training examples that is spread over other tasks", low=0, high=0.9
    )
    augment: str | bool = option(
        "standard",
        "none, standard (shifted crop and flip, where the stream has them), strong, or operations joined by +: shift, "
        "flip, resized-crop, jitter, randaugment, cutout, package.module:FUNCTION",
    )
    image_size: int | None = option(
        None, "side that images are resized to (default: their own; 32 for a folder)", low=4, high=1024
    )
    resize: Literal["crop", "pad", "squash"] = option(
        "crop", "images that are not square: crop to the middle, pad with black, or squash"
    )
    cache: Literal["ram", "disk", "none"] | None = option(
        None,
        "where decoded images of a folder are kept: in memory, in a file, or nowhere (default: in memory up to 1 GiB, "
        "else in a file)",
    )
    data_dir: str | None = option(None, "folder that holds the data sets (default: $ESACL_DATA, then ./data)")

    @property
    def transforms(self) -> list[str]:
        """Names of code among the operations on training images."""
        return [name for name in str(self.augment).split("+") if names_code(name)]

    @property
    def is_code(self) -> bool:
        """Whether its name is that of code, not of a folder or of arrays."""
        return names_code(self.name) and self.name.partition(":")[0] not in SCHEMES
