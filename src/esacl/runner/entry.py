"""Opening a run: a new one, or one that was interrupted."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import torch

from esacl.artifacts import RunDirectory
from esacl.config import Config, MachineConfig, NetConfig, StreamConfig
from esacl.errors import ConfigError, EsaclError, RunError
from esacl.machine import check_processes, divided, machine, resolve_machine
from esacl.methods import Given as GivenMethod
from esacl.methods import Method, check_settings, compose, resolve
from esacl.methods.names import given_again, with_current_names
from esacl.methods.names import name_of as name_of_method
from esacl.methods.settings import check_held_out
from esacl.metrics.memory import reset_peak_memory
from esacl.nets import Given, OwnNet, is_own, is_small, name_of, own_net, require_user_module
from esacl.nets.pretrained import scale_of
from esacl.nets.weights import find_weights, with_weights
from esacl.presets import settings_of
from esacl.processes.team import team
from esacl.runner.active_run import Run, Saved
from esacl.runner.memory_budget import fitted
from esacl.streams import Stream, absolute, open_stream
from esacl.streams.images import Progress


@contextmanager
def start(
    config: Config,
    out: Path | RunDirectory,
    stream: Stream | None = None,
    overwrite: bool = False,
    reading: Progress | None = None,
    backbone: Given | None = None,
    method: GivenMethod | None = None,
    code: Collection[str] = (),
) -> Iterator[Run]:
    """A new run in the directory `out`; a stream, a network and a method may be given instead of their names.

    Who holds the lock of the directory already gives it as a `RunDirectory`.

    `code` are names of code that may be started although settings from a file name it.
    """
    began = perf_counter()
    if not isinstance(config, Config):
        raise ConfigError(f"a run takes a Config, but {config!r} was given. Write esacl.Config.of(method=..., ...).")
    directory = out if isinstance(out, RunDirectory) else RunDirectory(out)
    directory.check_free(overwrite)
    _check_consent(config, backbone, stream, {*code, *([method] if isinstance(method, str) else [])})
    config = _with_backbone(config, backbone)
    given = config.net.backbone if backbone is None else backbone
    config = config if method is None else replace(config, method=name_of_method(method))
    chosen = compose(config, method if isinstance(method, Method) else None, config.code())
    config = with_current_names(config)
    asked = "buffer" in config.options.get("objective", {})
    stream, config, own = _prepare(config, chosen, stream, reading, given if is_own(config.net.backbone) else None)
    config = fitted(config, stream, asked, own, chosen)
    with machine(config.machine) as device:
        # refuses what cannot be built while all is as it was
        opened = Run(directory, config, stream, device, began, own, chosen)
        with directory.locked():
            directory.begin(config, overwrite)
            reset_peak_memory(device)
            try:
                with team(opened.trainer, config, directory):
                    yield opened
            except EsaclError:
                if not directory.checkpoints.numbers():
                    directory.abandon()
                raise


@contextmanager
def reopen(
    out: Path | RunDirectory,
    stream: Stream | None = None,
    reading: Progress | None = None,
    backbone: Given | None = None,
    processes: int | None = None,
    method: GivenMethod | None = None,
    code: Collection[str] = (),
) -> Iterator[Run]:
    """The run in the directory `out`, where it stopped; what was the user's own is given again.

    `code` are names of code that may be started, such as those of parts. By another number of processes than before,
    if one is given.
    """
    began = perf_counter()
    directory = out if isinstance(out, RunDirectory) else RunDirectory(out)
    stream, config, own, chosen = _prepare_again(directory, stream, reading, backbone, processes, method, code)
    with directory.locked(), machine(config.machine) as device:
        reset_peak_memory(device)
        opened = Run(directory, config, stream, device, began, own, chosen, not directory.checkpoints.numbers())
        opened.restore()
        if processes is not None:
            directory.record(config)
        with team(opened.trainer, config, directory):
            yield opened


@contextmanager
def open_finished(
    out: Path, stream: Stream | None = None, backbone: Given | None = None, code: Collection[str] = ()
) -> Iterator[Run]:
    """The finished run in the directory `out`, to look at: in one process, whatever trained it; nothing is written."""
    began = perf_counter()
    directory = RunDirectory(out)
    stream, config, own, chosen = _prepare_again(directory, stream, None, backbone, 1, None, code)
    with machine(config.machine) as device:
        opened = Run(directory, config, stream, device, began, own, chosen, fresh=False)
        opened.load()
        if not opened.trainer.finished:
            raise RunError(
                f"the last checkpoint of the run in {str(out)!r} is deleted or damaged, and its state cannot be looked "
                f"at without it. Run it again."
            )
        yield opened


def default_place(settings: Config) -> Path:
    """runs/METHOD-STREAM-SEED, with a number behind it where that is taken."""
    method, stream = (
        re.sub(r"[^\w.+-]+", "-", name.replace(" + ", "+")).strip("-")
        for name in (settings.composition, settings.stream.name)
    )
    name = f"{method}-{stream}-{settings.seed}"
    candidates = (Path("runs") / (name if number == 1 else f"{name}-{number}") for number in range(1, 10_000))
    return next(path for path in candidates if not path.exists())


def _check_consent(config: Config, backbone: Given | None, stream: Stream | None, code: Collection[str]) -> None:
    """Refuse to import code that only a file names: it may come from anyone."""
    if config.origin is None:
        return
    asked = config if stream is None else replace(config, stream=StreamConfig())  # given, so no code
    again = {name: f"code=[{name!r}]" for name in asked.code() if name not in code and not name.startswith("<")}
    network = config.net.backbone
    if backbone is None and is_own(network):
        again[network] = "backbone=" + ("module" if network.startswith("<") else repr(network))
    for name, words in again.items():
        raise ConfigError(
            f"{config.origin} names code, {name!r}, and no file is allowed to start code. If you trust it, give it "
            f"again: esacl.run(settings, out, {words})."
        )


def _with_backbone(config: Config, given: Given | None) -> Config:
    """The settings with the name of a network that was given beside them."""
    if given is None:
        return config
    name, before = name_of(given), config.net.backbone
    under = {} if config.preset is None else settings_of(config.preset, config.stream.name).get("net", {})
    if before not in ("auto", name, under.get("backbone")):  # whatever is given wins over a preset
        raise ConfigError(
            f"two networks are given: net.backbone = {before!r} in the settings, and backbone = {name!r}. Leave one of "
            f"them out."
        )
    return replace(config, net=replace(config.net, backbone=name))


def _prepare_again(
    directory: RunDirectory,
    stream: Stream | None,
    reading: Progress | None,
    backbone: Given | None,
    processes: int | None,
    method: GivenMethod | None,
    code: Collection[str],
) -> tuple[Stream, Config, OwnNet | None, Method]:
    """The same of a run that is there, by another number of processes if one is given."""
    recorded = directory.config()
    if processes is not None:
        before = _saved_machine(directory, recorded.machine)
        recorded = replace(recorded, machine=divided(before, processes, is_small(recorded.net.backbone)))
    where = f"the run in {str(directory.path)!r}"
    given = require_user_module(recorded.net.backbone, backbone, where)
    asked = recorded if stream is None else replace(recorded, stream=StreamConfig())  # given, so no code
    chosen = given_again(asked, method, where, code)
    return *_prepare(recorded, chosen, stream, reading, given), chosen


def _normalised(stream: Stream, net: NetConfig) -> Stream:
    """The stream with the scale of images that the network expects; floats are scaled already."""
    scale = None if net.normalise is None else scale_of(net.normalise, stream.shape[0])
    if scale is None or stream.stages[0].train.x.dtype != torch.uint8:
        return stream
    return replace(stream, inputs=replace(stream.inputs, mean=scale[0], std=scale[1]))


def _saved_machine(directory: RunDirectory, recorded: MachineConfig) -> MachineConfig:
    """Threads and processes of the newest checkpoint, where those that were recorded later have saved nothing."""
    state, _ = directory.checkpoints.newest(Saved.of)
    saved = recorded if state is None else Saved.of(state).settings.machine
    if saved.processes == recorded.processes:
        return recorded
    return replace(recorded, processes=saved.processes, threads=saved.threads)


def _prepare(
    config: Config, chosen: Method, stream: Stream | None, reading: Progress | None, given: Given | None
) -> tuple[Stream, Config, OwnNet | None]:
    """The stream and the resolved settings; what can be refused is refused before any data are read."""
    check_settings(config, chosen)
    check_processes(replace(config, machine=resolve_machine(config.machine)))
    memory = [name for name in (config.net.backbone, config.method) if name.startswith("<")]
    if memory and config.machine.processes > 1:
        raise ConfigError(
            f"{memory[0]} is in the memory of this process, but {config.machine.processes} processes were asked for. "
            f"Leave processes out, or name the code instead: package.module:OBJECT."
        )
    if config.net.weights_digest is None:
        find_weights(config.net)
    if stream is None:
        if config.stream.name.partition(":")[0] == "arrays":
            raise ConfigError("this run learns from arrays: continue it in Python, with esacl.resume(out, stream=...).")
        config = replace(config, stream=absolute(config.stream))
        stream = open_stream(config.stream, config.seed, reading)
    else:
        config = replace(config, stream=replace(config.stream, name=stream.name))
    check_held_out(config, chosen, all(len(task.validation) > 0 for task in stream.tasks))
    if chosen.joint:
        stream = stream.joint()
    elif stream.shares_classes and getattr(chosen.part("sparsity"), "holds_classes", False):
        raise ConfigError(
            f"{config.method} never moves the head's rows of a class again after its task, but some classes of "
            f"{stream.name!r} are in several tasks. Use tasks of different classes, or another method: esacl-er."
        )
    tasks, classes = len(stream.tasks), len(stream.tasks[0].classes)
    config = replace(config, stream=replace(config.stream, tasks=tasks, classes_per_task=classes))
    own = None if given is None else own_net(given, stream.shape, config.seed)
    if config.net.weights_digest is None:
        config = replace(config, net=with_weights(config.net, None if own is None else own.module))
    stream = _normalised(stream, config.net)
    resolved = resolve(config, stream, own, chosen)
    machine_config = resolve_machine(config.machine, small=is_small(resolved.net.backbone))
    return stream, replace(resolved, machine=machine_config), own
