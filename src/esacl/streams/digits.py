"""Handwritten digits from scikit-learn: 1797 grey images of 8 × 8, ready without a download."""

import torch

from esacl.streams.base import Examples, Source
from esacl.streams.choose import cut_test
from esacl.streams.inputs import ImageInputs

MEAN, STD = (0.2875,), (0.3541,)


def read() -> Source:
    """The digits, a fifth of each class held out for testing."""
    from sklearn.datasets import load_digits  # slow to import, and only this stream needs it

    digits = load_digits()
    images = torch.from_numpy(digits.images * 15).to(torch.uint8).unsqueeze(1)  # 0..16 as 0..240
    everything = Examples(images, torch.from_numpy(digits.target).to(torch.int64))
    train, test = (everything.take(rows) for rows in cut_test(everything.y, 10))
    return Source("split-digits", tuple(str(digit) for digit in range(10)), train, test, ImageInputs(MEAN, STD))
