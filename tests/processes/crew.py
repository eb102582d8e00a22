"""A few processes that form a group and do the same thing, each with its share."""

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import torch

from esacl.assembly import assemble
from esacl.config import Config
from esacl.methods import METHODS, resolve
from esacl.nets.data_parallel import Shares, share_norms
from esacl.processes.group import joined, rendezvous
from esacl.streams import open_stream
from tests.builders import CPU, finish
from tests.conformance.test_every_composition import build
from tests.conformance.toys import COMPOSITIONS
from tests.forks import forks


def crew(size, function, *arguments):
    """What `function(shares, *arguments)` returns in each of so many processes; an error where it raises."""
    with TemporaryDirectory() as folder:
        pipes, members = [], []
        for rank in range(size):
            mine, theirs = forks.Pipe(duplex=False)
            member = forks.Process(target=_member, args=(rank, size, folder, theirs, function, arguments))
            member.start()
            theirs.close()
            pipes.append(mine)
            members.append(member)
        results = [pipe.recv() for pipe in pipes]
        for member in members:
            member.join()
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def _member(rank, size, folder, pipe, function, arguments):
    torch.set_num_threads(1)
    try:
        with joined(rank, size, rank, rendezvous(Path(folder), size)):
            shares = Shares(rank, size)
            shares.active = True
            result = function(shares, *arguments)
    except Exception as error:
        result = error
    pipe.send(result)


def plain(tensors):
    """Tensors as arrays, which outlive the process that sends them."""
    return {name: value.detach().numpy().copy() for name, value in tensors.items()}


def sharing(trainer, shares):
    """The same trainer, with its network's calls shared."""
    if shares is not None:
        share_norms(trainer.net.model, shares)
        trainer.net.shares = shares
    return trainer


def trained(shares, epochs):
    """What becomes of compositions, by name, that are trained for so many epochs a task."""
    with patch.dict(METHODS, COMPOSITIONS):
        return {name: _result(sharing(build(name, epochs=many), shares)) for name, many in epochs.items()}


def trained_on_digits(shares, settings):
    """What becomes of runs on split-digits, by name."""
    results = {}
    for name, own in settings.items():
        config = Config.of(**own)
        stream = open_stream(config.stream, config.seed)
        results[name] = _result(assemble(resolve(config, stream), stream, CPU, shares=shares))
    return results


def _result(trainer):
    """Weights, accuracies and arithmetic."""
    finish(trainer)
    rows = [(row.task_il, row.class_il) for row in trainer.rows]
    return plain(trainer.net.model.state_dict()), rows, trainer.net.meter.executed_macs
