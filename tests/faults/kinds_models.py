"""Runs, checkpoints and saved models, damaged."""

import json
import os
import shutil
import tomllib
from pathlib import Path
from random import Random

from tests.faults import damage_bytes, damage_tensors, damage_values
from tests.faults.actions import call, command
from tests.faults.case import Case, Kind, Place
from tests.faults.specimens import BEGUN

READERS = {
    "report": ("report", "run", "-o", "page.html"),
    "inspect": ("inspect", "run", "--json"),
    "table": ("table", "run", "--format", "csv"),
    "resume": ("resume", "run", "--json"),
    "predict": ("predict", "run", "pictures", "--json"),
    "landscape": ("landscape", "run", "--steps", "3", "--examples", "8", "--json"),
    "export": ("export", "run", "--format", "safetensors", "-o", "exported"),
    "overwrite": (
        "run",
        "--method",
        "finetune",
        "--epochs",
        "1",
        "--limit-per-class",
        "3",
        "--out",
        "run",
        "--overwrite",
    ),
}
MODEL = {
    "inspect": ("inspect", "model", "--json"),
    "predict": ("predict", "model", "pictures", "--json"),
    "predict task": ("predict", "model", "pictures", "--task", "1", "--json"),
    "learn": ("learn", "model", "pictures", "--epochs", "1"),
    "export": ("export", "model", "--format", "torch", "-o", "exported"),
}


def run_directory(rng: Random, place: Place) -> Case:
    """Any file of a finished run, or several, damaged or missing or something else."""
    shutil.copytree(place.specimens / rng.choice(("run", "run", "told")), place.own / "run")
    told = [_file(rng, place) for _ in range(rng.choice((1, 1, 2)))]
    return _read_run(rng, told)


def _read_run(rng: Random, told: list[str]) -> Case:
    name = rng.choice(
        (
            "report",
            "inspect",
            "inspect",
            "table",
            "resume",
            "resume",
            "predict",
            "export",
            "overwrite",
            *["landscape"][: rng.randrange(2)],
        )
    )
    return Case(
        command(*READERS[name]),
        (*told, f"esacl {' '.join(READERS[name])}"),
        quiet_codes=(1,),
        json="--json" in READERS[name],
    )


def _file(rng: Random, place: Place) -> str:
    files = sorted(
        path for path in (place.own / "run").rglob("*") if path.is_file() and path.name not in (".lock", "report.html")
    )
    path = rng.choice(files) if files else place.own / "run" / "new"
    name = path.relative_to(place.own)
    way = rng.randrange(12)
    if way == 0:
        path.unlink()
        return f"{name} removed"
    if way == 1:
        path.unlink()
        path.mkdir()
        return f"{name} is a folder"
    if way == 2:
        path.unlink()
        path.symlink_to(rng.choice((place.outside / "kept", place.outside, Path("nowhere"), path)))
        return f"{name} is a link to {os.readlink(path)}"
    if way == 3:
        path.unlink()
        os.mkfifo(path)
        return f"{name} is a pipe"
    try:
        changed, told = damage_bytes.damage(rng, path.read_bytes()) if way == 4 else _content(rng, path)
    except (ValueError, RecursionError):  # it was damaged before
        changed, told = damage_bytes.damage(rng, path.read_bytes())
    path.write_bytes(changed)
    return f"{name}: {told}"


def _content(rng: Random, path: Path) -> tuple[bytes, str]:
    """A file damaged in the way of its kind."""
    if path.suffix == ".safetensors":
        told = damage_tensors.damage(rng, path)[0]
        return path.read_bytes(), told
    if path.suffix in (".json", ".jsonl"):
        return _json(rng, path)
    if path.suffix == ".toml":
        tree, told = damage_values.damage(rng, tomllib.loads(path.read_text()))
        return damage_values.as_toml(tree), told
    return damage_bytes.damage(rng, path.read_bytes())


def _json(rng: Random, path: Path) -> tuple[bytes, str]:
    if path.suffix == ".json":
        tree, told = damage_values.damage(rng, json.loads(path.read_text()))
        return damage_values.as_json(tree).encode("utf-8", "surrogatepass"), told
    lines = path.read_text().splitlines()
    number = rng.randrange(len(lines))
    tree, told = damage_values.damage(rng, json.loads(lines[number]))
    lines[number] = damage_values.as_json(tree)
    return "\n".join(lines).encode("utf-8", "surrogatepass"), f"line {number}: {told}"


def checkpoint(rng: Random, place: Place) -> Case:
    """Checkpoints of a run that is resumed: no other file is damaged, and mostly their digests fit."""
    name = rng.choice(("begun", *(f"begun {method}" for method in BEGUN)))
    shutil.copytree(place.specimens / name, place.own / "run")
    files = sorted((place.own / "run" / "checkpoint").iterdir())
    told = [f"{path.name}: {damage_tensors.damage(rng, path)[0]}" for path in files[-1:] * rng.choice((1, 1, 2))]
    if rng.random() < 0.5:
        files[0].unlink()
        told.append("the one before it removed")
    return Case(command(*READERS["resume"]), (*told, f"esacl resume, {name}"), json=True)


def weights(rng: Random, place: Place) -> Case:
    """The weights of a finished run, whose results no longer name a digest."""
    shutil.copytree(place.specimens / rng.choice(("run", "told")), place.own / "run")
    told, _ = damage_tensors.damage(rng, place.own / "run" / "model.safetensors")
    results = place.own / "run" / "results.json"
    results.write_text(json.dumps({**json.loads(results.read_text()), "weights_sha256": None}))
    return _read_run(rng, [f"model.safetensors: {told}"])


def classifier(rng: Random, place: Place) -> Case:
    """A saved classifier."""
    return _model(rng, place, place.specimens / "classifier" / "model.esacl")


def export(rng: Random, place: Place) -> Case:
    """An exported file."""
    return _model(rng, place, place.specimens / "export")


def _model(rng: Random, place: Place, specimen: Path) -> Case:
    path = place.own / "model"
    shutil.copy(specimen, path)
    told, fits = damage_tensors.damage(rng, path)
    name = rng.choice(sorted(MODEL))
    words = (f"{specimen.name}: {told}", f"esacl {' '.join(MODEL[name])}")
    right = place.specimens / "right" / f"{specimen.name} {name}"
    same = None if fits or not right.exists() else right.read_text()
    if rng.random() < 0.15:
        return Case(call(lambda: _load(path)), (*words[:1], "loaded in Python"))
    return Case(command(*MODEL[name]), words, json="--json" in MODEL[name], same_as=same)


def _load(path: Path) -> None:
    import esacl

    if esacl.deploy.opening.form_of(path) == "esacl-export-1":
        esacl.load_sparse(path)
    else:
        esacl.ContinualClassifier.load(path)


KINDS = (
    Kind("run", run_directory, 4),
    Kind("checkpoint", checkpoint, 3),
    Kind("weights", weights, 2),
    Kind("classifier", classifier, 3),
    Kind("export", export, 2),
)
