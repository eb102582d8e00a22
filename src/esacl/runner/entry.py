"""Opening a run: a new one, or one that was interrupted."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from time import perf_counter

from esacl.artifacts import RunDirectory
from esacl.config import Config, MachineConfig
from esacl.errors import ConfigError, EsaclError, RunError
from esacl.machine import check_processes, divided, machine, resolve_machine
from esacl.metrics.memory import reset_peak_memory
from esacl.nets import Given, OwnNet, is_own, name_of, once_more, own_net
from esacl.presets import settings_of
from esacl.processes.team import team
from esacl.recipes import check_held_out, check_settings, method, resolve
from esacl.runner.opened import Run
from esacl.streams import Stream, absolute, open_stream
from esacl.streams.images import Progress


@contextmanager
def start(
    config: Config,
    out: Path,
    stream: Stream | None = None,
    overwrite: bool = False,
    reading: Progress | None = None,
    backbone: Given | None = None,
) -> Iterator[Run]:
    """A new run in the directory `out`; a stream and a network of one's own may be given instead of names."""
    began = perf_counter()
    if not isinstance(config, Config):
        raise ConfigError(f"a run takes a Config, but {config!r} was given. Write esacl.Config.of(method=..., ...).")
    directory = RunDirectory(out)
    directory.check_free(overwrite)
    config = _with_backbone(config, backbone)
    given = config.net.backbone if backbone is None else backbone
    stream, config, own = _prepare(config, stream, reading, given if is_own(config.net.backbone) else None)
    with machine(config.machine) as device:
        # refuses what cannot be built while all is as it was
        opened = Run(directory, config, stream, device, began, own)
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
    out: Path,
    stream: Stream | None = None,
    reading: Progress | None = None,
    backbone: Given | None = None,
    processes: int | None = None,
) -> Iterator[Run]:
    """The run in the directory `out`, where it stopped; what was the user's own is given again.

    By another number of processes than before, if one is given.
    """
    began = perf_counter()
    directory = RunDirectory(out)
    stream, config, own = _prepare_again(directory, stream, reading, backbone, processes)
    with directory.locked(), machine(config.machine) as device:
        reset_peak_memory(device)
        opened = Run(directory, config, stream, device, began, own)
        opened.restore()
        if processes is not None:
            directory.record(config)
        with team(opened.trainer, config, directory):
            yield opened


@contextmanager
def look(out: Path, stream: Stream | None = None, backbone: Given | None = None) -> Iterator[Run]:
    """The finished run in the directory `out`, to look at: in one process, whatever trained it; nothing is written."""
    began = perf_counter()
    directory = RunDirectory(out)
    stream, config, own = _prepare_again(directory, stream, None, backbone, processes=1)
    with machine(config.machine) as device:
        opened = Run(directory, config, stream, device, began, own)
        opened.load()
        if not opened.trainer.finished:
            raise RunError(
                f"the last checkpoint of the run in {str(out)!r} is deleted or damaged, and its state cannot be looked "
                f"at without it. Run it again."
            )
        yield opened


def default_place(settings: Config) -> Path:
    """runs/METHOD-STREAM-SEED, with a number behind it where that is taken."""
    stream = settings.stream.name.replace(":", "-").strip("/").replace("/", "-")
    name = f"{settings.method}-{stream}-{settings.seed}"
    candidates = (Path("runs") / (name if number == 1 else f"{name}-{number}") for number in range(1, 10_000))
    return next(path for path in candidates if not path.exists())


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
) -> tuple[Stream, Config, OwnNet | None]:
    """The same of a run that is there, by another number of processes if one is given."""
    recorded = directory.config()
    if processes is not None:
        before = _saved_machine(directory, recorded.machine)
        small = recorded.net.backbone == "mlp"
        recorded = replace(recorded, machine=divided(before, processes, small))
    where, again = f"the run in {str(directory.path)!r}", f"esacl resume {quote(str(directory.path))} --backbone"
    return _prepare(recorded, stream, reading, once_more(recorded.net.backbone, backbone, where, again))


def _saved_machine(directory: RunDirectory, recorded: MachineConfig) -> MachineConfig:
    """Threads and processes of the newest checkpoint, where those that were recorded later have saved nothing."""
    state, _ = directory.checkpoints.newest()
    saved = recorded if state is None else Config.from_mapping(state["config"]).machine
    if saved.processes == recorded.processes:
        return recorded
    return replace(recorded, processes=saved.processes, threads=saved.threads)


def _prepare(
    config: Config, stream: Stream | None, reading: Progress | None, given: Given | None
) -> tuple[Stream, Config, OwnNet | None]:
    """The stream and the resolved settings; what can be refused is refused before any data are read."""
    check_settings(config)
    check_processes(replace(config, machine=resolve_machine(config.machine)))
    if given is not None and config.machine.processes > 1:
        raise ConfigError(
            f"a network of your own is trained by one process, but {config.machine.processes} were asked for: only the "
            f"first of them has its code. Leave --processes out."
        )
    if stream is None:
        if config.stream.name.partition(":")[0] == "arrays":
            raise ConfigError("this run learns from arrays: continue it in Python, with esacl.resume(out, stream=...).")
        config = replace(config, stream=absolute(config.stream))
        stream = open_stream(config.stream, config.seed, reading)
    else:
        config = replace(config, stream=replace(config.stream, name=stream.name))
    check_held_out(config, all(len(task.validation) > 0 for task in stream.tasks))
    if getattr(method(config.method).part("objective"), "joint", False):
        stream = stream.joint()
    tasks, classes = len(stream.tasks), len(stream.tasks[0].classes)
    config = replace(config, stream=replace(config.stream, tasks=tasks, classes_per_task=classes))
    own = None if given is None else own_net(given, stream.shape, config.seed)
    resolved = resolve(config, stream, own)
    machine_config = resolve_machine(config.machine, small=resolved.net.backbone == "mlp")
    return stream, replace(resolved, machine=machine_config), own
