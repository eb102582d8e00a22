"""`esacl run` and `esacl resume`."""

from __future__ import annotations

import json as json_text
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from esacl.cli.consoles import STATUS, TEXT
from esacl.cli.flags import DATA, MACHINE, METHOD, OUTPUT, PARTS, TRAINING, WHAT, Code, described, setting
from esacl.cli.progress import counting_progress, training_progress
from esacl.code import is_own
from esacl.config import DEFAULT_METHOD, Config, place_settings, read_toml, set_option
from esacl.errors import ConfigError, naming
from esacl.short_names import GIVEN_AGAIN, as_flags
from esacl.toml import flattened

if TYPE_CHECKING:
    from esacl.artifacts import Results
    from esacl.runner import Run
    from esacl.streams.images import Progress

Board = Annotated[
    bool,
    described("also write TensorBoard files to DIR/tensorboard (extra `tensorboard`)", OUTPUT, negative=""),
]


def run_command(
    *,
    method: Annotated[
        str | None, described(f"method to train: see `esacl methods` [default: {DEFAULT_METHOD}]", WHAT)
    ] = None,
    stream: Annotated[str | None, setting("stream.name", WHAT)] = None,
    seed: Annotated[int | None, described("seed of every random choice [default: 0]", WHAT)] = None,
    out: Annotated[Path | None, described("run directory [default: runs/METHOD-STREAM-SEED]", WHAT)] = None,
    config: Annotated[Path | None, described("TOML file with settings; flags win over it", WHAT)] = None,
    preset: Annotated[
        str | None,
        described("full: all parts of EsaCL; paper: with its authors' numbers; what else is given wins over it", WHAT),
    ] = None,
    set_: Annotated[
        list[str] | None,
        described("any setting as part.key=value; may be repeated", WHAT, name="--set", negative=""),
    ] = None,
    code: Code = None,
    data_dir: Annotated[Path | None, setting("stream.data_dir", DATA)] = None,
    tasks: Annotated[int | None, setting("stream.tasks", DATA)] = None,
    classes_per_task: Annotated[int | None, setting("stream.classes_per_task", DATA)] = None,
    class_order: Annotated[Literal["fixed", "shuffled"] | None, setting("stream.class_order", DATA)] = None,
    limit_per_class: Annotated[int | None, setting("stream.limit_per_class", DATA)] = None,
    image_size: Annotated[int | None, setting("stream.image_size", DATA)] = None,
    resize: Annotated[Literal["crop", "pad", "squash"] | None, setting("stream.resize", DATA)] = None,
    cache: Annotated[Literal["ram", "disk", "none"] | None, setting("stream.cache", DATA)] = None,
    augment: Annotated[str | None, setting("stream.augment", DATA)] = None,
    epochs: Annotated[int | None, setting("train.epochs", TRAINING)] = None,
    budget: Annotated[str | None, setting("train.budget", TRAINING)] = None,
    batch_size: Annotated[int | None, setting("train.batch_size", TRAINING)] = None,
    augment_copies: Annotated[int | None, setting("train.augment_copies", TRAINING)] = None,
    lr: Annotated[float | None, setting("update.lr", TRAINING)] = None,
    backbone_lr: Annotated[float | None, setting("update.backbone_lr", TRAINING)] = None,
    backbone: Annotated[str | None, setting("net.backbone", TRAINING)] = None,
    width: Annotated[int | None, setting("net.width", TRAINING)] = None,
    weights: Annotated[str | None, setting("net.weights", TRAINING)] = None,
    freeze: Annotated[str | None, setting("net.freeze", TRAINING)] = None,
    columns: Annotated[Literal["all", "task", "seen"] | None, setting("train.columns", TRAINING)] = None,
    fit_loss: Annotated[Literal["ce", "ace"] | None, setting("train.fit_loss", TRAINING)] = None,
    logit_mask: Annotated[
        Literal["none", "batch"] | None, described("batch: another name of --fit-loss ace", TRAINING)
    ] = None,
    split: Annotated[Literal["test", "validation"] | None, setting("train.split", TRAINING)] = None,
    scenario: Annotated[Literal["both", "task-il", "class-il"] | None, setting("train.scenario", TRAINING)] = None,
    unpruned: Annotated[bool | None, setting("train.unpruned", TRAINING)] = None,
    buffer: Annotated[int | None, setting("objective.buffer", METHOD)] = None,
    sparsity: Annotated[float | None, setting("sparsity.level", METHOD)] = None,
    keep: Annotated[float | None, setting("selection.keep", METHOD)] = None,
    rho: Annotated[float | None, setting("gradient.rho", METHOD)] = None,
    gradient: Annotated[str | None, setting("parts.gradient", PARTS)] = None,
    update: Annotated[str | None, setting("parts.update", PARTS)] = None,
    constraint: Annotated[str | None, setting("parts.constraint", PARTS)] = None,
    selection: Annotated[str | None, setting("parts.selection", PARTS)] = None,
    average: Annotated[str | None, setting("parts.average", PARTS)] = None,
    readout: Annotated[str | None, setting("parts.readout", PARTS)] = None,
    device: Annotated[str | None, setting("machine.device", MACHINE)] = None,
    precision: Annotated[Literal["32", "bf16", "16"] | None, setting("machine.precision", MACHINE)] = None,
    threads: Annotated[int | None, setting("machine.threads", MACHINE)] = None,
    feature_cache: Annotated[int | None, setting("machine.feature_cache", MACHINE)] = None,
    processes: Annotated[int | None, setting("machine.processes", MACHINE)] = None,
    tensorboard: Board = False,
    overwrite: Annotated[bool, described("replace a run that is in --out already", OUTPUT, negative="")] = False,
    json: Annotated[bool, described("print results.json instead of a table", OUTPUT, negative="")] = False,
) -> None:
    """Train a method on a stream of tasks, evaluate it after each task, and write a report.

    Example: esacl run --method esacl-der++ --stream split-digits --sparsity 0.8 --buffer 50 --out runs/first

    A method is one of `esacl methods`, or SPARSITY-BASE for any two that fit, such as esacl-icarl. Your own network,
    method or stream: --backbone mynets:tiny, for the function `tiny` in mynets.py, which returns a torch module;
    --method mine:METHOD; --stream mine:open. A run that is interrupted continues with `esacl resume DIR`.
    """
    from esacl.processes.torchrun import serve_if_worker, with_helpers
    from esacl.runner import default_place, start

    if serve_if_worker():  # before anything is read: only the first process needs files
        return
    given = {
        "data_dir": data_dir,
        "method": method,
        "seed": seed,
        "stream": stream,
        "tasks": tasks,
        "classes_per_task": classes_per_task,
        "class_order": class_order,
        "limit_per_class": limit_per_class,
        "image_size": image_size,
        "resize": resize,
        "cache": cache,
        "augment": augment,
        "epochs": epochs,
        "budget": budget,
        "batch_size": batch_size,
        "augment_copies": augment_copies,
        "columns": columns,
        "fit_loss": fit_loss,
        "logit_mask": logit_mask,
        "split": split,
        "scenario": scenario,
        "unpruned": unpruned,
        "backbone": backbone,
        "width": width,
        "weights": weights,
        "freeze": freeze,
        "device": device,
        "precision": precision,
        "threads": threads,
        "feature_cache": feature_cache,
        "processes": processes,
        "lr": lr,
        "backbone_lr": backbone_lr,
        "buffer": buffer,
        "sparsity": sparsity,
        "keep": keep,
        "rho": rho,
        "preset": preset,
        "gradient": gradient,
        "update": update,
        "constraint": constraint,
        "selection": selection,
        "average": average,
        "readout": readout,
    }
    tables = {} if config is None else read_toml(config)
    written = flattened(tables)
    with naming(as_flags(lambda path: path in written and flattened(tables).get(path) == written[path])):
        for assignment in set_ or []:
            set_option(tables, assignment)
        place_settings(tables, given)
        settings = with_helpers(Config.from_mapping(tables))
        named = [
            method,
            stream,
            backbone,
            gradient,
            update,
            constraint,
            selection,
            readout,
            *(code or []),
            *(augment or "").split("+"),
        ]
        assigned = [assignment.partition("=")[2].strip().strip("'\"") for assignment in set_ or []]
        _check_consent(settings, {*named, *assigned})
        allowed = replace(settings, origin=None)  # whatever code it names was given here
        place = out or default_place(allowed)
        _train(lambda reading: start(allowed, place, overwrite=overwrite, reading=reading), json, tensorboard)


def resume_command(
    directory: Annotated[Path, Parameter(help="directory of the run")],
    /,
    *,
    backbone: Annotated[
        str | None,
        described("the code of a network of your own, again: package.module:function, or file.py:function", TRAINING),
    ] = None,
    method: Annotated[str | None, described("the code of a method of your own, again", TRAINING)] = None,
    code: Code = None,
    processes: Annotated[
        int | None, described("processes that go on with it together [default: as many as before]", MACHINE)
    ] = None,
    tensorboard: Board = False,
    json: Annotated[bool, described("print results.json instead of a table", OUTPUT, negative="")] = False,
) -> None:
    """Continue a run that was interrupted; it ends with the same bits as one that was not.

    By another number of processes it ends with the same results up to the order of floating-point sums.
    """
    from esacl.artifacts import RunDirectory
    from esacl.processes.torchrun import dismiss, helpers, serve_if_worker
    from esacl.runner import reopen, resume
    from esacl.trackers import check_tensorboard
    from esacl.trackers import tensorboard as tensorboard_of

    if serve_if_worker():
        return
    if RunDirectory(directory).results.exists():
        results = resume(directory)
        if tensorboard:
            check_tensorboard()
            with tensorboard_of(RunDirectory(directory)):  # all that is in the log
                pass
        STATUS.print(f"the run in {directory} is finished; nothing is left to do.", markup=False, soft_wrap=True)
        _show(results, directory, json)
        dismiss()
        return
    with naming(as_flags(lambda setting: setting not in GIVEN_AGAIN)):
        number = helpers(processes)
        opening = partial(reopen, directory, None, backbone=backbone, processes=number, method=method, code=code or ())
        _train(lambda reading: opening(reading=reading), json, tensorboard)


def _check_consent(settings: Config, given: Collection[str | None]) -> None:
    """Refuse to import code that only a config file names: it may come from anyone."""
    for name in settings.code():
        if name not in given:
            raise ConfigError(
                f"the config file names code, {name!r}, and no file is allowed to start code. If you trust it, add "
                f"--code {name}."
            )
    name = settings.net.backbone
    if is_own(name) and name not in given:
        again = "package.module:function" if name.startswith("<") else name
        raise ConfigError(
            f"the config file names code as its network, {name!r}, and no file is allowed to start code. If you trust "
            f"it, add --backbone {again}."
        )


def _train(open_run: Callable[[Progress], AbstractContextManager[Run]], json: bool, board: bool) -> None:
    """Open a run and train it with live progress; say how to go on when interrupted."""
    from esacl.trackers import check_tensorboard
    from esacl.trackers import tensorboard as tensorboard_of

    if board:
        check_tensorboard()
    with ExitStack() as held:
        with counting_progress(STATUS, "reading images") as reading:
            opened = held.enter_context(open_run(reading))
        for note in opened.notes:
            STATUS.print(f"note: {note}", markup=False, soft_wrap=True)
        try:
            tell = held.enter_context(tensorboard_of(opened.directory)).tell if board else lambda event: None
            with training_progress(STATUS, opened) as listen:
                for event in opened.events():
                    listen(event)
                    tell(event)
            results = opened.finish()
            if opened.stream.left_out is not None and (opened.stream.left_out.grey or opened.stream.left_out.much):
                STATUS.print(f"note: {opened.stream.left_out.told(opened.stream.name)}", markup=False, soft_wrap=True)
        except (KeyboardInterrupt, OSError) as error:
            again = f"esacl resume {quote(str(opened.directory.path))}"
            if isinstance(error, KeyboardInterrupt):
                STATUS.print(f"\ninterrupted. Continue with: {again}", markup=False, soft_wrap=True)
                raise SystemExit(130) from None
            told = f"error: stopped: {error.strerror or error}. Put that right (what was saved is whole), then: {again}"
            STATUS.print(f"\n{told}", style="red", markup=False, highlight=False, soft_wrap=True)
            raise SystemExit(2) from None
        _show(results, opened.directory.path, json)


def _show(results: Results, directory: Path, json: bool) -> None:
    from esacl.report import load_run, summary_table

    if json:
        print(json_text.dumps(results.to_json(), indent=1))
        return
    TEXT.print(summary_table([load_run(directory)]))
    TEXT.print(f"report: {(directory / 'report.html').resolve()}", markup=False, soft_wrap=True)
