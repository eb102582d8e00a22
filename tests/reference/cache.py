"""Answers by content, in a dictionary: image after image, each in a batch of its own size."""

from collections.abc import Callable

from torch import Tensor


def answers(kept: dict[bytes, Tensor], x: Tensor, compute: Callable[[Tensor], Tensor], rows: int) -> list[Tensor]:
    """Each image answered `rows` times over, so that the batch has the size that the cache computes in."""
    for image in x:
        key = image.contiguous().numpy().tobytes()
        if key not in kept:
            kept[key] = compute(image.expand(rows, *image.shape).contiguous())[0]
    return [kept[image.contiguous().numpy().tobytes()] for image in x]
