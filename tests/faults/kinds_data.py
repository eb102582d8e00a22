"""Data sets and folders of images, damaged."""

import os
import shutil
from pathlib import Path
from random import Random

from tests.faults import damage_files
from tests.faults.actions import call, command
from tests.faults.case import Case, Kind, Place
from tests.faults.specimens import ARCHIVES, TOPS, official
from tests.streams.layouts import write_folder, write_tar, write_zip

STRANGE = (
    b"\xff\xfe.png",
    b"a\nb.png",
    b"[red]x.png",
    b"\x1b[31m.png",
    b"-o.png",
    b"x" * 250 + b".png",
    "é漢.png".encode(),
    b"\xe2\x80\xae.png",
)
SMALL = ("--epochs", "1", "--image-size", "8", "--backbone", "mlp", "--width", "8")


def _archive(rng: Random, place: Place, name: str) -> Case:
    """An official data set, as an archive or unpacked."""
    folder, top, files = place.own / "data", TOPS[name], dict(official(name))
    folder.mkdir()
    way = rng.randrange(4)
    told = damage_files.content(rng, files) if way < 2 else ""
    path = folder / ARCHIVES[name]
    if way == 0:
        write_folder(folder, top, {file: data for file, data in files.items() if _can_be_a_file(file, files)})
        told += ", unpacked" + (f", {_entry(rng, place, folder / top)}" if rng.random() < 0.3 else "")
    elif way == 1:
        (write_zip if name == "tinyimagenet" else write_tar)(
            path if name == "tinyimagenet" else path.with_suffix(""), top, files
        )
    else:
        told = (damage_files.zip_ if name == "tinyimagenet" else damage_files.tar)(rng, path, top, files)
    if rng.random() < 0.3:
        return Case(
            command("data", "check", "--data-dir", "data", "--json"),
            (told, "esacl data check"),
            quiet_codes=(1,),
            json=True,
        )
    return Case(call(lambda: _open(f"split-{name}", folder)), (told, "esacl.open_stream"))


def _can_be_a_file(name: str, files: dict[str, bytes]) -> bool:
    """Whether a folder can hold it beside the others."""
    return name.rpartition("/")[2] not in ("", ".", "..") and not any(other.startswith(f"{name}/") for other in files)


def _open(name: str, folder: Path) -> None:
    from esacl import open_stream
    from esacl.config import StreamConfig

    stream = open_stream(StreamConfig(name, data_dir=str(folder)), 0)
    assert stream.tasks[0].train.x.shape[1:] == stream.shape


def cifar10(rng: Random, place: Place) -> Case:
    """CIFAR-10."""
    return _archive(rng, place, "cifar10")


def cifar100(rng: Random, place: Place) -> Case:
    """CIFAR-100."""
    return _archive(rng, place, "cifar100")


def tinyimagenet(rng: Random, place: Place) -> Case:
    """Tiny-ImageNet."""
    return _archive(rng, place, "tinyimagenet")


def images(rng: Random, place: Place) -> Case:
    """A folder of images."""
    folder = place.own / "pictures"
    shutil.copy(place.specimens / "classifier" / "model.esacl", place.own / "model")
    told = [_picture(rng, place, folder) for _ in range(rng.choice((1, 2, 4)))]
    words = rng.choice((
        ("predict", "model", "pictures", "--json"),
        ("predict", "model", "pictures"),
        ("evaluate", "model", "pictures", "--json"),
        ("learn", "model", "pictures", "--epochs", "1", "--holdout", "0.3"),
        ("learn", "model", "pictures", "--epochs", "1"),
        ("learn", "new", "pictures", "--method", "er", *SMALL),
        ("run", "--stream", "folder:pictures", "--method", "finetune", "--out", "new", "--json", *SMALL),
    ))  # fmt: skip
    return Case(command(*words), (*told, f"esacl {' '.join(words)}"), quiet_codes=(1,), json="--json" in words)


def _picture(rng: Random, place: Place, folder: Path) -> str:
    if rng.random() < 0.25:
        return _entry(rng, place, folder)
    files = sorted(path for path in folder.rglob("*.png") if path.is_file() and not path.is_symlink())
    if not files:
        return "nothing left"
    path = rng.choice(files)
    changed, told = damage_files.image(rng, path.read_bytes())
    path.write_bytes(changed)
    return f"{path.name}: {told}"


def _entry(rng: Random, place: Place, folder: Path) -> str:
    """Something that should not be in a folder."""
    above = rng.choice([folder, *sorted(path for path in folder.glob("*") if path.is_dir() and not path.is_symlink())])
    name = os.path.join(os.fsencode(above), rng.choice(STRANGE))
    way = rng.randrange(6)
    if not above.is_dir() or os.path.lexists(name):
        return "nothing more"
    if way == 0:
        os.symlink(rng.choice((os.fsencode(place.outside), b".", b"..", b"nowhere", os.path.basename(name))), name)
    elif way == 1:
        os.mkfifo(name)
    elif way == 2:
        os.mkdir(name)
    elif way == 3:
        shutil.rmtree(above)
    else:
        Path(os.fsdecode(name)).write_bytes(rng.choice((b"", b"x", damage_files.image(rng, b"x" * 99)[0])))
    what = ("a link", "a pipe", "a folder", "its folder removed", "a file", "a file")[way]
    return f"{ascii(os.fsdecode(name))[-60:]}: {what}"


KINDS = (
    Kind("cifar10", cifar10, 2),
    Kind("cifar100", cifar100),
    Kind("tinyimagenet", tinyimagenet, 2),
    Kind("images", images, 4),
)
