"""Every readout on one trained run: what each would answer, and what fitting it costs."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from statistics import fmean
from time import perf_counter
from typing import Any

from esacl.artifacts import RunDirectory
from esacl.config import SLOTS
from esacl.errors import ConfigError, RunError
from esacl.methods import PARTS
from esacl.methods.names import part
from esacl.methods.settings import fill
from esacl.metrics.memory import tensor_bytes
from esacl.nets import Given, is_own
from esacl.options import parse
from esacl.part import Part
from esacl.readouts.base import Readout
from esacl.readouts.bias import Bias
from esacl.runner.active_run import Run
from esacl.runner.entry import open_finished
from esacl.streams import Stream
from esacl.training.diverged import Unsolvable
from esacl.training.evaluate import evaluate


@dataclass(frozen=True, slots=True)
class ReadoutResult:
    """What a readout answers after the last task of a run, and what it costs to fit it at the end of a task."""

    readout: str  # its name, and the options that it was given
    split: str  # of the stream, that was evaluated
    task_il: float | None = None  # mean over the tasks
    class_il: float | None = None
    seconds: float | None = None
    macs: int | None = None  # multiply-adds
    share: float | None = None  # of what the run's training took, if it is fitted after every task
    bytes: int | None = None  # that it adds to the saved model
    refused: str | None = None  # why this run cannot be read out so

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


BOTH = ("validation", "test")
"""One split to choose a readout on, the other to report it."""

Wanted = str | tuple[str, Mapping[str, Any]]
"""A readout by name, with options of its own if it is to have any."""


def compare_readouts(
    out: Path | str,
    readouts: Sequence[Wanted] | None = None,
    stream: Stream | None = None,
    backbone: Given | None = None,
    code: Collection[str] = (),
    split: str | None = None,
) -> list[ReadoutResult]:
    """Fit readouts on the weights and the memory that a finished run ended with; nothing is written.

    All of this library by default; others by name, with options: ("refit", {"decay": 0.1}). Training does not depend
    on the readout, so accuracies are those of a run with that readout. But for `bias`, which holds examples out of
    training: unless the run did so, it is fitted on what was rehearsed.
    """
    directory = RunDirectory(Path(out))
    recorded = directory.config()
    if directory.read_results() is None:
        raise RunError(f"the run in {str(out)!r} is not finished. Finish it first: `esacl resume {quote(str(out))}`.")
    own = backbone if is_own(recorded.net.backbone) else None
    splits = BOTH if split == "both" else (split or recorded.train.split,)
    every: list[Wanted] = [*PARTS["readout"], ("bias", {"form": "norms"})]
    wanted = every if readouts is None else readouts
    with open_finished(directory.path, stream, own, code) as run, run.trainer.parts.average.answering(run.trainer.net):
        return [row for each in wanted for row in _results(run, each, splits, code)]


def _results(run: Run, wanted: Wanted, splits: Sequence[str], code: Collection[str]) -> list[ReadoutResult]:
    """One readout on a run that was loaded, on each split; a readout that does not fit it says why."""
    net, parts, stream = run.trainer.net, run.trainer.parts, run.trainer.stream
    name, given = (wanted, {}) if isinstance(wanted, str) else wanted
    called = " ".join([name, *(f"{key}={value}" for key, value in given.items())])
    kind = part("readout", name, code)
    assert issubclass(kind, Readout)
    kinds: dict[str, type[Part]] = {**{slot: type(each) for slot, each in zip(SLOTS, parts.all())}, "readout": kind}
    own = run.config.options.get("readout", {}) if type(parts.readout) is kind else {}
    settings = {slot: run.config.options.get(slot, {}) for slot in SLOTS}
    filled = asdict(parse(kind.Options, given or own, "readout"))
    settings["readout"] = filled
    fill(filled, kind.beside(settings))
    options = parse(kind.Options, filled, "readout")
    refused = kind.misfit(kinds) or kind.problem(settings)
    if refused is not None:
        return [ReadoutResult(called, split, refused=str(refused)) for split in splits]
    readout = kind(options, parts.readout.context)
    macs, began = Counter(net.meter.executed_macs), perf_counter()
    try:
        readout.attach(net)
        if isinstance(readout, Bias) and isinstance(parts.readout, Bias):
            readout.kept = dict(parts.readout.kept)  # what was held out while the run was trained
        streams = getattr(readout, "streams", False)
        stages = stream.stages if streams else stream.stages[-1:]
        for stage in stages:
            readout.fit(net, stage, parts.objective.buffer_examples())
    except (ConfigError, Unsolvable) as error:
        return [ReadoutResult(called, split, refused=str(error)) for split in splits]
    seconds = perf_counter() - began
    spent = (Counter(net.meter.executed_macs) - macs).total()
    state = net.effective_state()
    added = tensor_bytes(readout.folded(state)) - tensor_bytes(state)
    results = []
    for split in splits:
        found = evaluate(net, readout, stream, split, parts.needs_task)
        result = ReadoutResult(
            called,
            split,
            task_il=fmean(found.task_il),
            class_il=None if found.class_il is None else fmean(found.class_il),
            seconds=seconds / len(stages),
            macs=spent // len(stages),
            bytes=added,
            share=len(stream.stages) * seconds / len(stages) / run.trainer.seconds["train"],
        )
        results.append(result)
    return results
