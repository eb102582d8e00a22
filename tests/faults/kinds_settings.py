"""Config files, recipes, folders of grids and words of the command line, damaged."""

import json
import shutil
import tomllib
from random import Random

from tests.faults import damage_bytes, damage_values
from tests.faults.actions import command
from tests.faults.case import Case, Kind, Place

COMMANDS = (
    "run",
    "resume",
    "report",
    "grid",
    "tune",
    "table",
    "landscape",
    "learn",
    "predict",
    "evaluate",
    "inspect",
    "export",
    "methods",
    "parts",
    "streams",
    "data",
    "data check",
    "data get",
    "nothing",
    "",
)
FLAGS = """
    --method --stream --seed --out --config --preset --set --code --data-dir --tasks --classes-per-task
    --class-order --limit-per-class --image-size --epochs --batch-size --lr --backbone --width --columns --split
    --scenario --unpruned --buffer --sparsity --keep --rho --gradient --update --constraint --selection
    --readout --device --precision --threads --json --overwrite --format --top --task --dry-run --seeds --only
    --steps --examples --against --paper --figures -o --nonsense --tflops --url
    --weights --freeze --backbone-lr --augment-copies --cache --resize --budget --average --holdout
""".split()  # noqa: SIM905
WORDS = """
    run pictures model config.toml recipe.toml grid nowhere . .. / er esacl-er gpm-packnet packnet split-digits
    rotated-digits permuted-digits blurry-digits folder:pictures folder:nowhere csv onnx train.epochs=1
    sparsity.level=0.99 update.lr=nan net.width=100000 a.b=c = a.b.c=1 mlp cnn resnet18 validation task-il full
    2e12flops 300s 0s squash ema
""".split()  # noqa: SIM905


def _toml(rng: Random, data: bytes) -> tuple[bytes, str]:
    if rng.random() < 0.3:
        return damage_bytes.damage(rng, data)
    tree, told = damage_values.damage(rng, tomllib.loads(data.decode()))
    return damage_values.as_toml(tree), told


def config(rng: Random, place: Place) -> Case:
    """A config file."""
    changed, told = _toml(rng, (place.specimens / "config.toml").read_bytes())
    (place.own / "config.toml").write_bytes(changed)
    words = ("run", "--config", "config.toml", "--out", "new", "--json")
    return Case(command(*words), (told, f"esacl {' '.join(words)}"), json=True, starts=True)


def assignment(rng: Random, place: Place) -> Case:
    """A setting on the command line, of any name and value."""
    tables = tomllib.loads((place.specimens / "config.toml").read_text())
    names = [".".join(path) for path in damage_values.places(tables) if path]
    value = damage_values.poison(rng)
    text = value if isinstance(value, str) and rng.random() < 0.5 else damage_values.as_json(value)
    name = rng.choice(
        (*names, "stream.data_dir", "net.init", "readout.steps", "selection.keep", "constraint.threshold")
    )
    method = rng.choice(
        ("er", "gpm", "packnet", "la-maml", "co2l", "esacl-icarl", "sparcl-er", "wsn", "nispa", "ewc", "lwf")
    )
    words = (
        "run",
        "--method",
        method,
        "--epochs",
        "1",
        "--limit-per-class",
        "4",
        "--out",
        "new",
        "--set",
        f"{name}={text}",
    )
    return Case(command(*words), (f"esacl {ascii(' '.join(words))[:300]}",), starts=True, consents=True)


def recipe(rng: Random, place: Place) -> Case:
    """A recipe of a grid or of a tuning."""
    name, verb = rng.choice((("recipe.toml", "grid"), ("recipe.toml", "grid"), ("tuning.toml", "tune")))
    changed, told = _toml(rng, (place.specimens / name).read_bytes())
    (place.own / name).write_bytes(changed)
    words = (verb, name, "--out", "study", "--dry-run")
    return Case(command(*words), (told, f"esacl {' '.join(words)}"), starts=True)


def grid(rng: Random, place: Place) -> Case:
    """The folder of a grid."""
    shutil.copytree(place.specimens / "grid", place.own / "grid")
    files = sorted(path for path in (place.own / "grid").rglob("*") if path.suffix in (".json", ".toml", ".txt"))
    path = place.own / "grid" / "grid.json" if rng.random() < 0.5 else rng.choice(files)
    if path.suffix == ".json" and rng.random() < 0.8:
        tree, told = damage_values.damage(rng, json.loads(path.read_text()))
        changed = damage_values.as_json(tree).encode("utf-8", "surrogatepass")
    else:
        changed, told = (
            _toml(rng, path.read_bytes()) if path.suffix == ".toml" else damage_bytes.damage(rng, path.read_bytes())
        )
    path.write_bytes(changed)
    words = rng.choice(
        (
            ("table", "grid", "--format", "markdown"),
            ("table", "grid", "--against", "er"),
            ("table", "grid", "--format", "csv", "--paper"),
            ("report", "grid", "-o", "page.html"),
        )
    )
    return Case(command(*words), (f"{path.relative_to(place.own)}: {told}", f"esacl {' '.join(words)}"))


def words(rng: Random, place: Place) -> Case:
    """Words of the command line, in any order."""
    for name in ("run", "grid"):
        shutil.copytree(place.specimens / name, place.own / name)
    for name in ("config.toml", "recipe.toml"):
        shutil.copy(place.specimens / name, place.own / name)
    shutil.copy(place.specimens / "classifier" / "model.esacl", place.own / "model")
    given = rng.choice(COMMANDS).split()
    if given == ["run"]:
        given += ["--epochs", "1", "--limit-per-class", "3"]
    for _ in range(rng.randrange(6)):
        given += [rng.choice(FLAGS)] if rng.random() < 0.6 else []
        given += [_word(rng)] if rng.random() < 0.8 else []
    told = f"esacl {ascii(' '.join(given))[:400]}"
    return Case(command(*given), (told,), quiet_codes=(1,), starts=True, consents=True, named=tuple(given))


def _word(rng: Random) -> str:
    if rng.random() < 0.6:
        return rng.choice(WORDS)
    value = damage_values.poison(rng)
    return (value if isinstance(value, str) else damage_values.as_json(value)).replace("\0", "␀")[
        :8000
    ]  # none has a NUL


KINDS = (
    Kind("config", config, 4),
    Kind("assignment", assignment, 2),
    Kind("recipe", recipe, 3),
    Kind("grid", grid, 2),
    Kind("words", words, 4),
)
