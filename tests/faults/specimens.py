"""Valid inputs of every kind, small, and made once: what the cases damage."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import esacl
from esacl.deploy import open_model
from esacl.deploy.weights import write_export
from esacl.training.events import EpochDone, Event, TaskDone
from tests.deploy.models import saved, write_pictures
from tests.report.fabricate_grid import write_grid
from tests.streams import layouts

SETTINGS = {"method": "esacl-er", "epochs": 1, "limit_per_class": 4, "width": 16, "buffer": 10, "batch_size": 8}
CONFIG = """
method = "esacl-der++"
seed = 3
preset = "full"
[stream]
name = "split-digits"
tasks = 5
class_order = "fixed"
limit_per_class = 4
validation = 0.2
[net]
backbone = "mlp"
width = 16
[train]
epochs = 1
batch_size = 8
columns = "all"
logit_mask = "none"
split = "test"
scenario = "both"
unpruned = true
[machine]
device = "cpu"
precision = "32"
threads = 1
processes = 1
[objective]
buffer = 10
alpha = 0.2
[sparsity]
level = 0.5
[update]
lr = 0.1
momentum = 0.5
[gradient]
rho = 0.05
"""
BEGUN = {"icarl": 10, "sparcl-der++": 10, "gpm": None, "packnet": None}
"""Methods whose checkpoints are damaged besides those of `SETTINGS`, and their buffers."""

RECIPE = """
title = "Small digits"
about = "As few as possible."
seeds = [0, 1]
against = "er"
stop_at_chance = false
[base]
stream = "split-digits"
epochs = 1
limit_per_class = 8
buffer = 10
set = { "update.momentum" = 0.5 }
[[rows]]
name = "finetune"
method = "finetune"
buffer = ""
[[rows]]
name = "er"
method = "er"
[[rows]]
name = "esacl"
method = "esacl-er"
sparsity = 0.5
twins = ["weights"]
axes = { rho = [0.0, 0.05] }
"""
TUNING = """
title = "Small digits"
seeds = [0, 1]
methods = ["er"]
[base]
stream = "split-digits"
epochs = 1
limit_per_class = 8
[tune]
lr = [0.01, 0.1]
buffer = [5, 10]
"""
TOPS = {"cifar10": "cifar-10-batches-py", "cifar100": "cifar-100-python", "tinyimagenet": "tiny-imagenet-200"}
ARCHIVES = {
    "cifar10": "cifar-10-python.tar.gz",
    "cifar100": "cifar-100-python.tar.gz",
    "tinyimagenet": "tiny-imagenet-200.zip",
}


def make(folder: Path) -> None:
    """All specimens, into an empty folder."""
    esacl.run(esacl.Config.of(**SETTINGS), folder / "run")
    begun(folder / "begun", TaskDone)
    for method, buffer in BEGUN.items():
        begun(folder / f"begun {method}", EpochDone, method=method, buffer=buffer, epochs=2)
    esacl.run(esacl.Config.of(**{**SETTINGS, "method": "packnet", "buffer": None}), folder / "told")
    (folder / "classifier").mkdir()
    saved(folder / "classifier", method="esacl-er", width=16, epochs=1, buffer=10, max_classes=8, sparsity=0.5)
    write_export(folder / "export", open_model(folder / "classifier" / "model.esacl"), sparse=True)
    write_pictures(folder / "pictures", range(3))
    write_grid(folder / "grid", RECIPE.replace('twins = ["weights"]\n', ""), skip=1)
    (folder / "config.toml").write_text(CONFIG)
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "tuning.toml").write_text(TUNING)
    (folder / "canary.py").write_text("open('ran', 'w').close()\nbuild = None\n")
    (folder / "made").write_text(json.dumps(True))


def begun(folder: Path, kind: type[Event], **settings: Any) -> None:
    """A run that stopped in the middle: after the third such event."""
    left = 3
    for event in esacl.iter_run(esacl.Config.of(**{**SETTINGS, **settings}), folder):
        left -= isinstance(event, kind)
        if not left:
            break


@cache
def official(name: str) -> Mapping[str, bytes]:
    """The files of a small data set in an official layout."""
    makers = {"cifar10": layouts.cifar10_files, "cifar100": layouts.cifar100_files}
    return makers[name]() if name in makers else layouts.tiny_files(4)
