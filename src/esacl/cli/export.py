"""`esacl export`: a trained model as a file for elsewhere."""

from pathlib import Path
from typing import Annotated, Literal

from esacl.cli.consoles import STATUS, TEXT
from esacl.cli.flags import OUTPUT, Code, described
from esacl.cli.inspect import Model, Own
from esacl.cli.predict import Task
from esacl.errors import ConfigError
from esacl.files import check_place


def export_command(
    model: Model,
    /,
    *,
    format: Annotated[
        Literal["safetensors", "onnx", "torch"],
        described("safetensors: sparse weights; onnx: a graph for any runtime; torch: a plain state dict", OUTPUT),
    ],
    out: Annotated[Path, described("file to write", OUTPUT, name=["--out", "-o"])],
    compact: Annotated[
        bool,
        described("onnx: leave out channels that answers do not need, branches of grow apart", OUTPUT, negative=""),
    ] = False,
    task: Task = None,
    backbone: Own = None,
    code: Code = None,
) -> None:
    """Write a trained model to a file: small, or for use without this library.

    Example: esacl export animals.esacl --format onnx --out animals.onnx
    """
    from esacl.deploy import open_model
    from esacl.deploy.graph import write_onnx
    from esacl.deploy.weights import write_export

    check_place(out, "model")
    if compact and format != "onnx":
        raise ConfigError(f"--compact is a form of ONNX graphs, but --format is {format}. Use --format onnx.")
    opened = open_model(model, backbone, code or ()).for_task(task)
    if format == "onnx":
        with STATUS.status("building the graph (some seconds)"):
            macs = write_onnx(out, opened, compact)
    else:
        write_export(out, opened, sparse=format == "safetensors")
    TEXT.print(f"{out}: {out.stat().st_size:,} bytes", markup=False, highlight=False, soft_wrap=True)
    if compact:
        dense = opened.multiply_adds()
        TEXT.print(f"multiply-adds of an example: {macs:,} compact, {dense:,} dense ({macs / dense:.2f})")
