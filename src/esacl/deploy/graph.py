"""A model as an ONNX graph: normalisation, network and softmax, for batches of any size."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from esacl.deploy.model import Trained
from esacl.errors import ConfigError
from esacl.files import write_atomic
from esacl.nets.macs import macs_per_example

OUTPUTS = ["probabilities", "logits"]


def write_onnx(path: Path, model: Trained, compact: bool = False) -> int:
    """Write the graph; its metadata hold the class names and what else is known. Returns its multiply-adds."""
    for package in ("onnx", "onnxscript"):
        if find_spec(package) is None:
            raise ConfigError(
                f"--format onnx needs the package {package!r}, which is not installed. "
                f"Install it with: pip install 'esacl[export]'"
            )
    name, module = input_name(model), model.compacted() if compact else model.answering()
    with _quiet():
        program = torch.onnx.export(
            module,
            (_example(model),),
            input_names=[name],
            output_names=OUTPUTS,
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    about = model.about()
    for key, value in {"classes": about["classes"], "esacl": about}.items():
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, json.dumps(value)
    write_atomic(path, proto.SerializeToString())
    return sum(macs_per_example(module.get_submodule("model"), model.shape).values())


def input_name(model: Trained) -> str:
    """What the graph calls its input."""
    return "features" if model.scale.kind == "features" else "images"


def _example(model: Trained) -> Tensor:
    """A batch to trace with: of two, as one is taken for a constant."""
    return torch.zeros(2, model.shape[-1]) if model.scale.kind == "features" else torch.zeros(2, *model.shape)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter tells its developers."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
