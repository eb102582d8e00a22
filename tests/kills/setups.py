"""What is trained: tiny runs of many methods, as flags, as a recipe and as a classifier."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

COMMON = {"epochs": 2, "batch_size": 8, "limit_per_class": 12, "width": 16, "threads": 1}
OF_CLASSIFIERS = ("epochs", "batch_size", "width", "buffer", "sparsity")


@dataclass(frozen=True)
class Setup:
    """Settings by the names of flags; `options` as `--set` takes them; whether a classifier can use the method."""

    name: str
    settings: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    classifier: bool = True

    @property
    def all_settings(self) -> dict[str, Any]:
        return COMMON | self.settings

    def flags(self) -> list[str]:
        """For `esacl run`."""
        plain = [word for name, value in self.all_settings.items() for word in (f"--{name.replace('_', '-')}", value)]
        return [
            *map(str, plain),
            *(word for key, value in self.options.items() for word in ("--set", f"{key}={value}")),
        ]

    def write_recipe(self, path: Path) -> Path:
        """For `esacl grid`: one run."""
        base = {name: value for name, value in self.all_settings.items() if name != "method"}
        recipe = {"methods": [self.settings["method"]], "seeds": [0], "base": {**base, "set": self.options}}
        path.write_text(tomli_w.dumps(recipe), encoding="utf-8")
        return path

    def parameters(self) -> dict[str, Any]:
        """For a `ContinualClassifier`."""
        options: dict[str, dict[str, Any]] = {}
        for key, value in self.options.items():
            slot, _, name = key.partition(".")
            options.setdefault(slot, {})[name] = value
        named = {name: value for name, value in self.all_settings.items() if name in OF_CLASSIFIERS}
        method = self.settings["method"]
        return {"method": method, **named, "options": options, "max_classes": 10, "random_state": 0}


def _setup(method: str, name: str = "", classifier: bool = True, options: Any = None, **settings: Any) -> Setup:
    return Setup(name or method, {"method": method, **settings}, options or {}, classifier)


MEMORY = {"buffer": 20}
GROWING = 40  # channels for five branches and a trunk
SETUPS = {
    setup.name: setup
    for setup in (
        _setup("er", **MEMORY),
        _setup("der++", **MEMORY),
        _setup("ewc"),
        _setup("lwf"),
        _setup("gpm"),
        _setup("la-maml", **MEMORY),
        _setup("co2l", **MEMORY),
        _setup("icarl", **MEMORY),
        _setup("esacl-er", "esacl-er, freeze", options={"sparsity.form": "freeze"}, **MEMORY),
        _setup("esacl-er", "esacl-er, cycle", options={"sparsity.form": "cycle"}, **MEMORY),
        _setup(
            "esacl-der++", "esacl-der++, freeze", options={"sparsity.form": "freeze", "gradient.rho": 0.05}, **MEMORY
        ),
        _setup(
            "esacl-der++", "esacl-der++, cycle", options={"sparsity.form": "cycle", "selection.keep": 0.5}, **MEMORY
        ),
        _setup("sparcl-der++", **MEMORY),
        _setup("packnet", classifier=False),
        _setup("wsn", classifier=False),
        _setup("nispa", classifier=False),
        _setup("grow", width=GROWING),
        _setup("grow-er", width=GROWING, **MEMORY),
        _setup("esacl-icarl", **MEMORY),
        _setup("er", "er, bias", classifier=False, readout="bias", **MEMORY),
        _setup("er", "er, lda", classifier=False, readout="lda", **MEMORY),
        _setup("er", "er, average", classifier=False, average="ema", **MEMORY),
        _setup("er", "er, rotated", stream="rotated-digits", tasks=3, **MEMORY),
        _setup("der++", "der++, blurry", options={"stream.blur": 0.3}, classifier=False, **MEMORY),
    )
}
"""Every method whose state differs in kind, by name."""
