"""Small files in the official layouts, made here: what the readers must cope with, without the real data."""

import io
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

CIFAR10_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def python2_pickle(values: Mapping[str, object]) -> bytes:
    """A dictionary as Python 2 with NumPy 1 pickled it: protocol 2, all text as byte strings."""
    return b"\x80\x02}(" + b"".join(_emit(key) + _emit(value) for key, value in values.items()) + b"u."


def _emit(value: object) -> bytes:
    match value:
        case str():
            return _emit(value.encode("latin1"))
        case bytes():
            return b"T" + struct.pack("<i", len(value)) + value
        case int():
            return b"J" + struct.pack("<i", value)
        case list():
            return b"](" + b"".join(_emit(item) for item in value) + b"e"
        case np.ndarray():
            dtype = b"cnumpy\ndtype\n" + _emit("u1") + b"K\x00K\x01\x87R(K\x03" + _emit("|") + b"NNNJ\xff\xff\xff\xff"
            dtype += b"J\xff\xff\xff\xffK\x00tb"
            shape = b"(" + b"".join(_emit(size) for size in value.shape) + b"t"
            made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + _emit("b") + b"\x87R"
            return made + b"(K\x01" + shape + dtype + b"\x89" + _emit(value.tobytes()) + b"tb"
    raise TypeError(type(value))


def pixels(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def cifar10_files() -> dict[str, bytes]:
    """Six training and two test images of each class."""
    labels = [k % 10 for k in range(12)]
    files = {"batches.meta": python2_pickle({"label_names": list(CIFAR10_NAMES), "num_vis": 3072})}
    for batch in range(1, 6):
        own = [(label + 2 * batch) % 10 for label in labels]
        files[f"data_batch_{batch}"] = python2_pickle({"data": pixels(12, batch), "labels": own, "batch_label": "b"})
    files["test_batch"] = python2_pickle({"data": pixels(20, 9), "labels": [k % 10 for k in range(20)]})
    files["readme.html"] = b"<p>not needed</p>"
    return files


def cifar100_files() -> dict[str, bytes]:
    names = [f"class {k}" for k in range(100)]
    fine = list(range(100))
    files = {"meta": python2_pickle({"fine_label_names": names, "coarse_label_names": names[:20]})}
    train = {"data": pixels(300, 1), "fine_labels": fine * 3, "coarse_labels": [k // 5 for k in fine] * 3}
    files["train"] = python2_pickle(train)
    files["test"] = python2_pickle({"data": pixels(100, 2), "fine_labels": fine, "coarse_labels": [0] * 100})
    return files


def jpeg(seed: int, mode: str = "RGB", side: int = 64) -> bytes:
    shape = (side, side) if mode == "L" else (side, side, 3)
    image = Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))
    file = io.BytesIO()
    image.save(file, "JPEG")
    return file.getvalue()


def tiny_files(classes: int = 10) -> dict[str, bytes]:
    """Four training images of each class (the last one grey) and one for testing; listed out of order."""
    wnids = [f"n{(7 * k) % classes:08d}" for k in range(classes)]
    files = {"wnids.txt": "\n".join(wnids).encode(), "words.txt": f"{wnids[0]}\tgoldfish, Carassius\n".encode()}
    for k, wnid in enumerate(wnids):
        files[f"train/{wnid}/{wnid}_boxes.txt"] = b"ignored"
        for number in (10, 9, 0, 1):
            name = f"train/{wnid}/images/{wnid}_{number}.JPEG"
            files[name] = jpeg(100 * k + number, "L" if number == 1 else "RGB")
        files[f"val/images/val_{k}.JPEG"] = jpeg(5000 + k)
    annotations = [f"val_{k}.JPEG\t{wnid}\t0\t0\t63\t63" for k, wnid in reversed(list(enumerate(wnids)))]
    files["val/val_annotations.txt"] = "\n".join(annotations).encode()
    return files


def write_folder(root: Path, top: str, files: Mapping[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root / top


def write_tar(path: Path, top: str, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as tar:
        for name, data in reversed(list(files.items())):
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def write_zip(path: Path, top: str, files: Mapping[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in reversed(list(files.items())):
            archive.writestr(f"{top}/{name}", data)
    return path
