"""Presets: settings of a paper by name, under whatever else is given."""

from collections.abc import Mapping
from typing import Any

from esacl.errors import ConfigError, unknown_name

PAPER: dict[str, Any] = {
    "net": {"backbone": "resnet18"},
    "objective": {"buffer": 500},
    "parts": {"readout": "own"},
    "gradient": {"ascent": "total"},
    "sparsity": {"form": "freeze"},
    "update": {
        "radius_scale": "absolute",
        "momentum_mode": "accumulate",
        "schedule": "constant",
        "pull": False,
    },
    "selection": {"keep": 0.4, "rule": "loss", "ranking": "reuse"},
}
"""What the authors' settings have in common: the whole algorithm, with an absolute radius and a constant step."""

PAPER_STREAMS: dict[str, Any] = {
    "split-cifar10": {
        "train": {"epochs": 50},
        "gradient": {"rho": 0.05},
        "update": {"radius": 5.0, "k": 0.05, "eta": 0.01, "lr": 0.01},
    },
    "split-cifar100": {
        "train": {"epochs": 80},
        "gradient": {"rho": 0.5},
        "update": {"radius": 8.0, "k": 0.1, "eta": 0.1, "lr": 0.1},
    },
    "split-tinyimagenet": {
        "train": {"epochs": 100},
        "gradient": {"rho": 0.1},
        "update": {"radius": 8.0, "k": 0.08, "eta": 0.01, "lr": 0.01},
    },
}
"""What differs between data sets; other streams take the settings of Split CIFAR-10 and their own network."""

OTHER_FORMS = (("update", "eta", "reach"),)
"""Settings of a preset that another setting replaces: (slot, the preset's, the other)."""

FOR_ALL = ("net", "objective", "parts", "train")
"""Tables of a preset that are for every method: network, buffer, readout and epochs. The others are EsaCL's own."""

FULL: dict[str, Any] = {
    "sparsity": {"form": "freeze"},
    "gradient": {"rho": 0.05},
    "selection": {"keep": 0.4, "rule": "loss"},
}
"""All of EsaCL (Frank-Wolfe, frozen weights, ascent, SSE and ERE) with this library's working settings."""

PRESETS = ("paper", "full")


def settings_of(preset: str, stream: str, method: str = "esacl") -> dict[str, Any]:
    """The tables of a preset for a stream; rivals of EsaCL learn at rates of their own."""
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    if preset == "full":
        return {name: dict(table) for name, table in FULL.items()}
    own = PAPER_STREAMS.get(stream, PAPER_STREAMS["split-cifar10"])
    chosen = {**PAPER, **own} if method.partition("-")[0] == "esacl" else FOR_ALL
    tables = {name: {**PAPER.get(name, {}), **own.get(name, {})} for name in chosen}
    if stream not in PAPER_STREAMS:
        del tables["net"]
    return tables


def with_preset(preset: str, stream: str, method: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Tables of settings over those of a preset; where the same thing is given in another form, that wins too."""
    if preset == "full" and method.partition("-")[0] != "esacl":
        raise ConfigError(
            f"preset 'full' switches all parts of EsaCL on, but the method is {method!r}. Use esacl or esacl-BASE, or "
            f"leave the preset out."
        )
    under = settings_of(preset, stream, method)
    tables = {name: {**under[name], **given.get(name, {})} for name in under}
    for slot, name, other in OTHER_FORMS:
        if slot in tables and other in given.get(slot, {}) and name not in given[slot]:
            tables[slot].pop(name, None)
    return {**given, **tables}
