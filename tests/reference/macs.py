"""Multiply-adds of every layer, written out by hand for each backbone."""


def macs(backbone: str, width: int, shape: tuple[int, int, int], classes: int) -> dict[str, int]:
    """By layer name, for one example."""
    return {
        "mlp": _mlp,
        "cnn": _cnn,
        "resnet10": lambda *of: _resnet(1, *of),
        "resnet18": lambda *of: _resnet(2, *of),
    }[backbone](width, shape, classes)


def _mlp(width: int, shape: tuple[int, int, int], classes: int) -> dict[str, int]:
    pixels = shape[0] * shape[1] * shape[2]
    return {"backbone.first": pixels * width, "backbone.second": width * width, "head": width * classes}


def _cnn(width: int, shape: tuple[int, int, int], classes: int) -> dict[str, int]:
    channels, height, across = shape
    counts = {}
    place = 0
    for out in (width, 2 * width, 4 * width):
        counts[f"backbone.layers.{place}"] = height * across * out * channels * 9
        place += 3  # convolution, BatchNorm, ReLU
        if min(height, across) >= 4:
            height, across, place = height // 2, across // 2, place + 1
        channels = out
    return {**counts, "head": 4 * width * classes}


def _resnet(blocks: int, width: int, shape: tuple[int, int, int], classes: int) -> dict[str, int]:
    channels, height, across = shape
    counts = {"backbone.stem": height * across * width * channels * 9}
    inside, number = width, 0
    for stage in range(4):
        out = width * 2**stage
        for block in range(blocks):
            name = f"backbone.blocks.{number}"
            shrinks = stage > 0 and block == 0
            if shrinks:
                height, across = (height + 1) // 2, (across + 1) // 2
            counts[f"{name}.conv1"] = height * across * out * inside * 9
            counts[f"{name}.conv2"] = height * across * out * out * 9
            if shrinks:
                counts[f"{name}.shortcut.0"] = height * across * out * inside
            inside, number = out, number + 1
    return {**counts, "head": inside * classes}
