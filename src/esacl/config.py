"""Settings: what a run is, as typed records that read and write TOML.

Each record validates itself when it is parsed. The options of a method's parts (objective, update, sparsity, ...)
are declared beside the part that uses them and checked against it in `methods/`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import Any, Literal, Never

import tomli_w

from esacl.budget import decides_epochs, with_budget
from esacl.code import is_own
from esacl.errors import ConfigError, naming, unknown_name
from esacl.net_settings import NetConfig as NetConfig
from esacl.options import option, parse
from esacl.presets import with_preset
from esacl.short_names import SHORT_NAMES as SHORT_NAMES
from esacl.short_names import as_keyword, with_fit_loss
from esacl.short_names import place_settings as place_settings
from esacl.slots import CHOSEN as CHOSEN
from esacl.slots import SLOTS as SLOTS
from esacl.slots import PartsConfig as PartsConfig
from esacl.stream_settings import StreamConfig as StreamConfig
from esacl.toml import Tables as Tables
from esacl.toml import flattened
from esacl.toml import read_toml as read_toml
from esacl.toml import set_option as set_option

DEFAULT_METHOD = "esacl-der++"
"""What is trained where no method is named: on the command line, in a `Config`, by a `ContinualClassifier`."""


Scenario = Literal["both", "task-il", "class-il"]
"""Scenarios in which a run is judged."""


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """How long and on what the network trains, and which split it is judged on."""

    epochs: int = option(10, "epochs for each task", low=1, high=100_000)
    budget: str | None = option(
        None,
        "spend so much in training instead of a number of epochs: 2e12flops (executed) or 300s (CPU time); 20MB: have "
        "the largest buffer that fits with the network",
    )
    batch_size: int = option(32, "examples of the current task in a step", low=1, high=100_000)
    columns: Literal["all", "task", "seen"] | None = option(
        None, "columns that compete in the loss of an example: all, of its task, or seen (default: the method's own)"
    )
    fit_loss: Literal["ce", "ace"] = option(
        "ce", "ace: current examples compete among the classes of their batch, replayed ones among all seen (ER-ACE)"
    )
    augment_copies: int = option(
        0,
        "augmented copies of an image, which return in turn: cheap where layers are frozen; 0: a new one each time",
        low=0,
        high=1_000_000,
    )
    split: Literal["test", "validation"] = option("test", "split that is evaluated; tune on validation")
    scenario: Literal["both", "task-il", "class-il"] = option(
        "both", "task-il leaves Class-IL out; class-il refuses methods that must be told the task"
    )
    unpruned: bool = option(False, "also evaluate each network just before it is pruned, to measure what pruning costs")


@dataclass(frozen=True, slots=True)
class MachineConfig:
    """Where and how precisely it computes."""

    device: str = option("auto", "auto, cpu, cuda or mps")
    precision: Literal["32", "bf16", "16"] = option("32", "arithmetic of the network: 32, bf16 or 16 (mixed)")
    threads: int | None = option(
        None, "CPU threads a process (default: 1 for the MLP, else torch's own choice, divided)", low=1, high=1024
    )
    feature_cache: int | None = option(
        None,
        "MB of memory for what frozen layers answered to images that come again; 0: none (default: 512 where they do)",
        low=0,
        high=1_000_000_000,
    )
    processes: int = option(1, "processes that train the run together, each on its part of a batch", low=1, high=1024)


@dataclass(frozen=True, slots=True)
class Config:
    """One run: everything that decides its result."""

    method: str = DEFAULT_METHOD
    seed: int = 0
    stream: StreamConfig = field(default_factory=StreamConfig)
    net: NetConfig = field(default_factory=NetConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    machine: MachineConfig = field(default_factory=MachineConfig)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by slot
    preset: str | None = None  # where settings came from that were not given
    parts: PartsConfig = field(default_factory=PartsConfig)
    origin: str | None = field(default=None, compare=False, repr=False)  # the file or tables that it was read from

    @property
    def composition(self) -> str:
        """What the method is called: its name, and the parts that were chosen beside it.

        >>> Config.of(method="er", constraint="gpm").composition
        'er + gpm'
        """
        return " + ".join([self.method, *self.parts.chosen().values()])

    def code(self) -> list[str]:
        """Names of code and objects of the user's own among the method, its parts and the stream."""
        names = [self.method, *self.parts.chosen().values()]
        stream = [self.stream.name] if self.stream.is_code else []
        return [*(name for name in names if is_own(name)), *stream, *self.stream.transforms]

    @staticmethod
    @naming(as_keyword)
    def of(
        *,
        method: str | None = None,
        seed: int | None = None,
        stream: str | None = None,
        data_dir: str | PathLike[str] | None = None,
        tasks: int | None = None,
        classes_per_task: int | None = None,
        class_order: Literal["fixed", "shuffled"] | None = None,
        limit_per_class: int | None = None,
        image_size: int | None = None,
        resize: Literal["crop", "pad", "squash"] | None = None,
        cache: Literal["ram", "disk", "none"] | None = None,
        augment: str | bool | None = None,
        epochs: int | None = None,
        budget: str | None = None,
        batch_size: int | None = None,
        augment_copies: int | None = None,
        columns: Literal["all", "task", "seen"] | None = None,
        fit_loss: Literal["ce", "ace"] | None = None,
        logit_mask: Literal["none", "batch"] | None = None,
        split: Literal["test", "validation"] | None = None,
        scenario: Scenario | None = None,
        unpruned: bool | None = None,
        backbone: str | None = None,
        width: int | None = None,
        weights: str | PathLike[str] | None = None,
        freeze: str | None = None,
        device: str | None = None,
        precision: Literal["32", "bf16", "16"] | None = None,
        threads: int | None = None,
        feature_cache: int | None = None,
        processes: int | None = None,
        lr: float | None = None,
        backbone_lr: float | None = None,
        buffer: int | None = None,
        sparsity: float | None = None,
        keep: float | None = None,
        rho: float | None = None,
        preset: str | None = None,
        gradient: str | None = None,
        update: str | None = None,
        constraint: str | None = None,
        selection: str | None = None,
        average: str | None = None,
        readout: str | None = None,
        **unknown: Never,
    ) -> "Config":
        """A run by the names of the command line's flags; settings that are None are left open.

        >>> config = Config.of(method="er", stream="split-cifar10", epochs=5, buffer=200)
        >>> config.stream.name, config.train.epochs, config.options
        ('split-cifar10', 5, {'objective': {'buffer': 200}})
        """
        given = locals()
        tables: dict[str, Any] = {}
        place_settings(tables, {name: given[name] for name in SHORT_NAMES} | unknown)
        return replace(Config.from_mapping(tables), origin=None)

    @staticmethod
    def from_mapping(values: Mapping[str, Any]) -> "Config":
        """Parse nested tables, as a TOML file has them; unknown names and bad values are errors.

        Tables may come from anyone, so code that they name is not run unless it is given again.
        """
        given = values
        known = {"method", "seed", "preset", *_SECTIONS, *SLOTS}
        for name in values:
            if name not in known:
                raise unknown_name("setting", name, known)
        for name in (*_SECTIONS, *SLOTS):
            if not isinstance(values.get(name, {}), Mapping):
                raise ConfigError(f"{name!r} is a table of options, but {values[name]!r} was given.")
        top = parse(_Top, {k: v for k, v in values.items() if k in ("method", "seed", "preset")}, "")
        if top.preset is not None:
            values = with_preset(
                top.preset, parse(StreamConfig, values.get("stream", {}), "stream").name, top.method, values
            )
        values = {**values, "train": with_budget(with_fit_loss(values.get("train", {})), given.get("train", {}))}
        sections = {name: parse(kind, values.get(name, {}), name) for name, kind in _SECTIONS.items()}
        options = {slot: dict(values[slot]) for slot in SLOTS if values.get(slot)}
        origin = given.path if isinstance(given, Tables) else "a mapping of settings"
        return Config(top.method, top.seed, **sections, options=options, preset=top.preset, origin=origin)

    def to_mapping(self) -> dict[str, Any]:
        """The nested tables that `from_mapping` reads; settings left open are omitted."""
        tables: dict[str, Any] = {"method": self.method, "seed": self.seed}
        if self.preset is not None:
            tables["preset"] = self.preset
        for name in _SECTIONS:
            tables[name] = {k: v for k, v in asdict(getattr(self, name)).items() if v is not None}
        if not tables["parts"]:
            del tables["parts"]
        if decides_epochs(self.train.budget):
            del tables["train"]["epochs"]
        for slot, values in self.options.items():
            tables[slot] = {k: v for k, v in values.items() if v is not None}
        return tables

    def flat(self) -> dict[str, Any]:
        """Every setting by its dotted name."""
        return flattened(self.to_mapping())

    def to_toml(self) -> str:
        """The run as a TOML document."""
        return tomli_w.dumps(self.to_mapping())

    def with_options(self, **options: Mapping[str, Any]) -> "Config":
        """A copy whose slots have these options too; what else they were given stays.

        >>> Config.of(lr=0.01).with_options(update={"momentum": 0.8}).options
        {'update': {'lr': 0.01, 'momentum': 0.8}}
        """
        if unknown := options.keys() - {*SLOTS}:
            raise unknown_name("part", min(unknown), SLOTS)
        merged = {slot: {**self.options.get(slot, {}), **given} for slot, given in options.items()}
        return replace(self, options={**self.options, **merged})


@dataclass(frozen=True, slots=True)
class _Top:
    method: str = option(DEFAULT_METHOD, "method to train: see `esacl methods`")
    seed: int = option(0, "seed of every random choice", low=0, high=2**53)
    preset: str | None = option(None, "settings by name; whatever else is given wins over them")


_SECTIONS: dict[str, Any] = {
    "stream": StreamConfig,
    "net": NetConfig,
    "train": TrainConfig,
    "machine": MachineConfig,
    "parts": PartsConfig,
}
