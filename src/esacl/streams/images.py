"""Image files to uint8 arrays, many at a time."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BytesIO
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, ImageOps
from torch import Tensor

from esacl.errors import DataError
from esacl.streams.formats import HEAD, prepare
from esacl.streams.inputs import ImageInputs
from esacl.streams.limits import MAX_PIXELS, max_pixels
from esacl.streams.resize import Rule, placed

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""

T = TypeVar("T")
_CHUNK = 64  # files of one errand: small images spend more time in Python than in the decoder


def decode_rgb(data: bytes) -> npt.NDArray[np.uint8]:
    """An image file as [H, W, 3]."""
    with _opened(data) as image:
        _check_pixels(image)
        return _pixels(_rgb(image))


def decode_resized(data: bytes, size: tuple[int, int], rule: Rule) -> npt.NDArray[np.uint8]:
    """Any image file as [*size, 3]: upright, and on white where it is transparent."""
    longer = 2 * max(size)
    with _opened(data) as image:
        image.draft(None, (longer, longer))  # a large JPEG is decoded no finer than needed
        _check_pixels(image)
        ImageOps.exif_transpose(image, in_place=True)
        shown, filled = placed((image.height, image.width), size, rule)
        box = (shown.left, shown.top, shown.left + shown.width, shown.top + shown.height)
        scaled = _rgb(image).crop(box).resize((filled.width, filled.height), Image.Resampling.BILINEAR)
        out = np.zeros((*size, 3), np.uint8)
        out[filled.top : filled.top + filled.height, filled.left : filled.left + filled.width] = _pixels(scaled)
        return out


@contextmanager
def _opened(data: bytes) -> Iterator[Image.Image]:
    prepare(data[:HEAD])
    try:
        with Image.open(BytesIO(data)) as image:
            yield image
    except Exception as error:  # Pillow's decoders raise almost anything on damaged files
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError("not a readable image" if "BytesIO" in reason else reason) from None


def _check_pixels(image: Image.Image) -> None:
    """Refuse an image that takes a small file to fill the memory, before it is decoded."""
    if image.width * image.height > max_pixels():
        raise DataError(
            f"{image.width} × {image.height} pixels are more than {max_pixels():,}: raise {MAX_PIXELS} if you trust it"
        )


def _pixels(image: Image.Image) -> npt.NDArray[np.uint8]:
    return np.frombuffer(image.tobytes(), np.uint8).reshape(image.height, image.width, 3)


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I"):  # 16 bits of grey, which Pillow would clip instead of scale
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def in_threads(work: Callable[[Sequence[T]], Any], items: Sequence[T], progress: Progress | None = None) -> None:
    """Do `work` on chunks of the items on all cores; the first error ends it."""
    threads = min(8, os.cpu_count() or 1)
    size = max(1, min(_CHUNK, -(-len(items) // threads)))
    chunks = [items[start : start + size] for start in range(0, len(items), size)]
    done = 0
    with ThreadPoolExecutor(threads) as pool:
        try:
            for chunk, _ in zip(chunks, pool.map(work, chunks)):
                done += len(chunk)
                if progress is not None:
                    progress(done, len(items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def measured_inputs(images: Tensor, *, padding: int = 0, flip: bool = False) -> ImageInputs:
    """Inputs normalised by the mean and spread of these uint8 images, counted a chunk at a time."""
    values = torch.arange(256, dtype=torch.float64) / 255
    mean, std = [], []
    for channel in range(images.shape[1]):
        counts = torch.zeros(256, dtype=torch.float64)
        for chunk in images[:, channel].tensor_split(list(range(1024, len(images), 1024))):
            counts += torch.bincount(chunk.flatten(), minlength=256)
        share = counts / counts.sum()
        centre = (share * values).sum()
        spread = (share * (values - centre) ** 2).sum().sqrt()
        mean.append(round(float(centre), 4))
        std.append(round(max(float(spread), 1 / 255), 4))  # a constant channel has no spread to divide by
    return ImageInputs(tuple(mean), tuple(std), padding, flip)
