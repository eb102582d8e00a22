"""Valid commands in a bad environment."""

import errno
import shutil
from random import Random

from tests.faults.actions import command
from tests.faults.case import Case, Kind, Place, Surroundings

COMMANDS = (
    ("run", "--method", "esacl-er", "--epochs", "1", "--limit-per-class", "3", "--width", "8", "--out", "new"),
    ("run", "--method", "er", "--epochs", "1", "--limit-per-class", "3", "--width", "8"),
    ("resume", "begun"),
    ("inspect", "run"),
    ("report", "run"),
    ("table", "run"),
    ("table", "run", "--format", "latex"),
    ("predict", "model", "pictures"),
    ("learn", "model", "pictures", "--epochs", "1"),
    ("export", "model", "--format", "safetensors", "-o", "exported"),
    ("methods",),
    ("methods", "esacl-er"),
    ("streams",),
    ("parts",),
    ("data", "check"),
    ("grid", "recipe.toml", "--dry-run"),
    ("--help",),
    ("run", "--help"),
    ("--version",),
    ("run", "--method", "none"),
)
VARIABLES = (
    {"HOME": None, "USER": None, "LOGNAME": None},
    {"HOME": "/nonexistent"},
    {"HOME": "\udcff"},
    {"TERM": "dumb"},
    {"COLUMNS": "0"},
    {"COLUMNS": "1"},
    {"COLUMNS": "-5", "LINES": "x"},
    {"COLUMNS": "99999999999"},
    {"ESACL_DATA": "/nonexistent"},
    {"ESACL_DATA": "\udcff"},
    {"ESACL_DATA": "~nobody-of-that-name"},
    {"ESACL_MAX_BYTES": "-1"},
    {"ESACL_MAX_PIXELS": "9" * 100},
    {"TMPDIR": "/nonexistent"},
    {"RANK": "x", "WORLD_SIZE": "2", "LOCAL_RANK": "0"},
    {"WORLD_SIZE": "3"},
    {"PATH": None},
)


def environment(rng: Random, place: Place) -> Case:
    """A command with a small memory, a full disk, few handles, another alphabet, no one who listens."""
    for name in ("run", "begun"):
        shutil.copytree(place.specimens / name, place.own / name)
    shutil.copy(place.specimens / "classifier" / "model.esacl", place.own / "model")
    shutil.copy(place.specimens / "recipe.toml", place.own / "recipe.toml")
    words, (around, told) = rng.choice(COMMANDS), _surroundings(rng)
    return Case(command(*words), (told, f"esacl {' '.join(words)}"), quiet_codes=(1,), surroundings=around)


def _surroundings(rng: Random) -> tuple[Surroundings, str]:
    way = rng.randrange(9)
    if way == 0:
        number, after = (
            rng.choice((errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT)),
            rng.choice((0, 0, 1, 2, 3, 5, 8, 13, 21)),
        )
        return Surroundings(refuse_writes=(number, after)), f"{errno.errorcode[number]} after {after} changes"
    if way == 1:
        size = rng.choice((1000, 5000, 10000, 30000))
        return Surroundings(file_size=size), f"files of at most {size} bytes"
    if way == 2:
        variables = rng.choice(VARIABLES)
        return Surroundings(variables=variables), f"variables {ascii(variables)[:100]}"
    if way == 3:
        encoding = rng.choice(("ascii", "latin-1", "cp1252", "cp437"))
        return Surroundings(encoding=encoding), f"a terminal of {encoding}"
    if way == 4:
        handles = rng.randrange(6)
        return Surroundings(handles=handles), f"{handles} files at a time"
    if way == 5:
        memory = rng.choice((1, 4, 16, 32, 64)) << 20
        return Surroundings(memory=memory), f"{memory >> 20} MiB of memory"
    if way == 6:
        stdout = rng.choice((None, "full", "pipe"))
        return Surroundings(stdout=stdout), f"standard output {stdout}"
    if way == 7:
        stderr, stdout = rng.choice((None, "full", "pipe")), rng.choice(("file", None))
        return Surroundings(stderr=stderr, stdout=stdout), f"standard error {stderr}, output {stdout}"
    return Surroundings(gone=True), "in a folder that is gone"


KINDS = (Kind("environment", environment, 4),)
