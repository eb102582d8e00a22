"""Images brought to a size one by one, by Pillow."""

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def resized(image: Tensor, size: tuple[int, int], rule: str) -> Tensor:
    """One image of bytes [3, H, W] at (height, width)."""
    picture = Image.fromarray(image.permute(1, 2, 0).numpy())
    (height, width), box = size, (picture.height, picture.width)
    canvas = Image.new("RGB", (width, height))
    if rule == "crop":
        share = min(box[0] / height, box[1] / width)  # of the source a pixel of the result stands for
        shown = (max(1, round(share * height)), max(1, round(share * width)))
        top, left = (box[0] - shown[0]) // 2, (box[1] - shown[1]) // 2
        picture = picture.crop((left, top, left + shown[1], top + shown[0]))
    if rule == "pad":
        share = min(height / box[0], width / box[1])
        height, width = max(1, round(share * box[0])), max(1, round(share * box[1]))
    picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    canvas.paste(picture, ((size[1] - width) // 2, (size[0] - height) // 2))
    return torch.from_numpy(np.array(canvas)).permute(2, 0, 1)
