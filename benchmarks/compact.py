"""What the compact ONNX form of a grown network saves in onnxruntime, against the dense form of the same network.

The small ResNet grows through five tasks of random 32×32 images, at two widths. All graphs run on one thread, in one
process and in alternation, with one image and with 32. Run: make bench-compact
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import onnxruntime
from synthetic import MEAN, STD, random_stream, trainer_of
from tree import WIDE

from esacl.deploy import Trained
from esacl.deploy.graph import write_onnx
from esacl.deploy.model import InputScale

FORMS = {"width 16": {"net": {"backbone": "resnet10", "width": 16}}, "width 40, trunk of 16": WIDE}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="alternations between the graphs")
    parser.add_argument("--calls", type=int, default=20, help="calls of each graph in a round")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        graphs, macs = exported(Path(folder))
        for size in (1, 32):
            x = np.random.default_rng(0).random((size, 3, 32, 32), np.float32)
            calls = {name: partial(graph.run, ["logits"], {"images": x}) for name, graph in graphs.items()}
            agree(calls)
            report(size, timed(calls, given.rounds, given.calls), macs)


def exported(folder: Path) -> tuple[dict[str, onnxruntime.InferenceSession], dict[str, int]]:
    """Both graphs of a network at each width, and their multiply-adds."""
    graphs, macs = {}, {}
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    for width, form in FORMS.items():
        model = grown(form)
        for kind in ("dense", "compact"):
            name = f"{width}, {kind}"
            path = folder / f"{len(graphs)}.onnx"
            macs[name] = write_onnx(path, model, compact=kind == "compact")
            graphs[name] = onnxruntime.InferenceSession(path, settings)
    return graphs, macs


def grown(form: dict[str, dict[str, object]]) -> Trained:
    """A network after its fifth task."""
    stream = random_stream([64] * 5)
    trainer = trainer_of(stream, "grow", 1, form)
    for _ in trainer.run():
        pass
    return Trained(
        kind="export",
        method="grow",
        backbone="resnet10",
        width=int(str(form["net"]["width"])),
        shape=stream.shape,
        scale=InputScale("bytes", MEAN, STD),
        classes=stream.class_names,
        tasks=tuple(task.classes for task in stream.tasks),
        weights={name: value.contiguous() for name, value in trainer.net.effective_state().items()},
    )


def agree(calls: dict[str, Callable[[], list[np.ndarray]]]) -> None:
    """Both forms answer alike."""
    for width in FORMS:
        dense, compact = (calls[f"{width}, {kind}"]()[0] for kind in ("dense", "compact"))
        np.testing.assert_allclose(dense, compact, atol=1e-5, rtol=1e-4)


def timed(calls: dict[str, Callable[[], object]], rounds: int, count: int) -> list[dict[str, float]]:
    """Seconds of a call of each graph in each round."""
    found = []
    for _ in range(rounds + 1):
        seconds = {}
        for name, call in calls.items():
            each = []
            for _ in range(count):
                began = perf_counter()
                call()
                each.append(perf_counter() - began)
            seconds[name] = median(each)
        found.append(seconds)
    return found[1:]  # the first warms up


def report(size: int, rounds: list[dict[str, float]], macs: dict[str, int]) -> None:
    """Ratios to the dense form of the same width, and to that of width 16."""
    print(f"{size} image(s) a call, one thread")
    for name in rounds[0]:
        first, own = next(iter(rounds[0])), name.rpartition(", ")[0] + ", dense"
        ratios = sorted(each[name] / each[own] for each in rounds)
        narrow = median(each[name] / each[first] for each in rounds)
        print(
            f"  {name:32} {1e3 * median(each[name] for each in rounds):7.3f} ms   {macs[name] / 1e6:6.2f} MMAC "
            f"({macs[name] / macs[own]:.2f} of dense)   time {median(ratios):.2f} of dense "
            f"(rounds from {ratios[0]:.2f} to {ratios[-1]:.2f}), {narrow:.2f} of {first}"
        )


if __name__ == "__main__":
    main()
