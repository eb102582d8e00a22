"""An exported ONNX graph, run by onnxruntime."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from esacl.deploy.about import exported
from esacl.deploy.model import Trained
from esacl.documents import as_record, parse_json
from esacl.errors import CheckpointError, ConfigError, RunError

SUFFIX = ".onnx"


@dataclass(frozen=True, slots=True)
class Graph(Trained):
    """A model that answers by onnxruntime; its weights stay in the file."""

    session: Any = None
    columns: tuple[int, ...] = ()  # outputs that answer

    def answering(self) -> nn.Module:
        """The module that turns examples into answers."""
        return _Session(self.session, self.columns, self.scale.kind == "features")

    def with_columns(self, columns: tuple[int, ...]) -> "Graph":
        """The same with these outputs, in this order."""
        found = Trained.with_columns(self, columns)
        assert isinstance(found, Graph)
        return replace(found, columns=tuple(self.columns[column] for column in columns))


class _Session(nn.Module):
    """Probabilities and logits of some outputs of a graph."""

    def __init__(self, session: Any, columns: tuple[int, ...], features: bool) -> None:
        super().__init__()
        self._session, self._columns, self._features = session, list(columns), features

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Probabilities and logits, [N, classes] each."""
        given = self._session.get_inputs()[0].name
        try:
            found = self._session.run(["logits"], {given: (x.flatten(1) if self._features else x).numpy()})[0]
            logits = torch.from_numpy(found)[:, self._columns]
        except Exception as error:
            raise RunError(f"onnxruntime cannot run the graph: {_first_line(error)}. Export the model again.") from None
        return logits.softmax(1), logits


def open_graph(path: Path) -> Graph:
    """The model in a file of `esacl export --format onnx`; anything wrong with it is a CheckpointError."""
    if not path.is_file():
        raise CheckpointError(f"there is no file {str(path)!r}. Give one of `esacl export --format onnx`.")
    if find_spec("onnxruntime") is None:
        raise ConfigError(
            f"{str(path)!r} needs the package 'onnxruntime', which is not installed. Install it with: "
            f"pip install 'esacl[export]'"
        )
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)  # what goes wrong is told below
    try:
        session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
        metadata = session.get_modelmeta().custom_metadata_map
    except Exception as error:  # of the format, the system, an operator that it does not have
        raise CheckpointError(
            f"{str(path)!r} cannot be read: {_first_line(error)}. Give a file of `esacl export --format onnx`."
        ) from None
    try:
        about = as_record(parse_json(metadata.get("esacl", "")), dict[str, Any])
    except ValueError:
        raise CheckpointError(
            f"{str(path)!r} does not say what its classes are: it was not exported by esacl. Give a file of "
            f"`esacl export --format onnx`."
        ) from None
    found = exported(about, {})
    fields = {name: getattr(found, name) for name in Trained.__dataclass_fields__}
    graph = Graph(**{**fields, "kind": "onnx"}, session=session, columns=tuple(range(len(found.classes))))
    shape = {each.name: each.shape for each in session.get_outputs()}.get("logits", [])
    if len(session.get_inputs()) != 1 or shape[1:] != [len(graph.classes)]:
        raise CheckpointError(f"{str(path)!r} does not answer for the classes that it names. Export the model again.")
    return graph


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
