"""Our ER and DER++ beside reference loops in plain torch that do what the published algorithms do."""

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

import parity
import parity_page
import pytest
import torch
from reference.common import Memory, Result, Settings, Task, bare, resnet18
from reference.derpp import derpp
from reference.er import er
from torch import Tensor, nn

import esacl
from esacl.assembly import assemble
from esacl.config import StreamConfig
from esacl.methods import METHODS, resolve
from esacl.nets import build_model
from esacl.streams import Stream

SEEDS, EPOCHS, BATCH, BUFFER, WIDTH, LR = range(3), 3, 16, 50, 8, 0.03
NOISE = 0.1
"""How far our mean may be below the reference's: two standard errors of the difference of two means of three seeds.

Class-IL of the reference loops over seeds 0 to 11 has a standard deviation of 0.063 (ER) and 0.061 (DER++).
"""


class Logits(nn.Module):
    """The library's network as a plain one."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(x).logits
        return logits


@pytest.fixture(scope="module")
def digits() -> Stream:
    return esacl.open_stream(StreamConfig(validation=0), 0)


def reference(loop: Callable[..., Iterator[float | Result]], stream: Stream, seed: int) -> Result:
    """What a reference loop reaches from the same weights."""
    own = {"mean": stream.inputs.mean, "std": stream.inputs.std, "padding": 0, "flip": False}
    settings = Settings(lr=LR, epochs=EPOCHS, batch=BATCH, buffer=BUFFER, seed=seed, **own)
    model = Logits(build_model("cnn", WIDTH, stream.shape, len(stream.class_names), seed))
    *_, result = loop(parity.reference_tasks(stream), model, settings)
    assert isinstance(result, Result)
    return result


def class_il(method: str, stream: Stream, seed: int) -> float:
    """Class-IL of ours with the same optimiser, network, batch and buffer."""
    choices = METHODS[method].options("objective")
    tables: dict[str, Any] = {
        "method": method,
        "seed": seed,
        "net": {"backbone": "cnn", "width": WIDTH},
        "train": {"epochs": EPOCHS, "batch_size": BATCH},
        "update": {"lr": LR, "momentum": 0.0, "schedule": "constant"},
        "objective": {key: value for key, value in (("buffer", BUFFER), ("batch", "joint")) if key in choices},
    }
    trainer = assemble(resolve(esacl.Config.from_mapping(tables), stream), stream, torch.device("cpu"))
    for _ in trainer.run():
        pass
    found = trainer.rows[-1].class_il
    assert found is not None
    return mean(found)


@pytest.mark.parametrize(("method", "loop"), [("er", er), ("der++", derpp)])
def test_ours_is_not_below_the_reference_beyond_noise(method: str, loop: Any, digits: Stream) -> None:
    expected = mean(reference(loop, digits, seed).class_il for seed in SEEDS)
    assert mean(class_il(method, digits, seed) for seed in SEEDS) > expected - NOISE
    assert class_il("finetune", digits, 0) < expected - NOISE  # without replay it would not have passed


def test_the_reference_memory_is_a_fair_sample() -> None:
    counts = torch.zeros(40)
    for seed in range(400):
        memory = Memory(10, torch.Generator().manual_seed(seed))
        for rows in torch.arange(40).split(7):
            memory.add(rows)
        counts[memory.stored[0]] += 1
    assert (counts / 400 - 0.25).abs().max() < 0.1  # more than four standard deviations
    assert sorted(memory.draw(10)[0].tolist()) == sorted(memory.stored[0].tolist())


def test_the_reference_network_is_the_library_s_resnet18() -> None:
    own, ours = resnet18(10, 10, 0), build_model("resnet18", 10, (3, 32, 32), 10, 0)
    sizes = [sorted(tuple(p.shape) for p in model.parameters()) for model in (own, ours)]
    assert sizes[0] == sizes[1]
    with torch.no_grad():
        for theirs, mine in zip(own.state_dict().values(), ours.state_dict().values()):
            theirs.copy_(mine)
        images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(own(images), ours(images).logits)


def row(seed: int, loops: dict[str, tuple[float, float, float]]) -> dict[str, Any]:
    shown = {
        name: {"class_il": class_il, "task_il": task_il, "times_bare": ratio, "cpu_seconds": []}
        for name, (class_il, task_il, ratio) in loops.items()
    }
    settings = {"method": "er", "seed": seed, "train.fit_loss": "ce", "train.epochs": 5}
    versions = {"torch": "2"}
    return {"limit": 5, "test": 5, "reference_lr": 0.1, "settings": settings, "loops": shown, "versions": versions}


def test_the_page_gets_one_line_a_loop_from_the_raw_results(tmp_path: Path) -> None:
    raw, page = tmp_path / "raw.jsonl.gz", tmp_path / "page.md"
    rows = [
        row(1, {"bare": (0.1, 0.5, 1), "ours": (0.4, 0.8, 2.5)}),
        row(0, {"bare": (0.2, 0.6, 1), "ours": (0.3, 0.7, 1.5)}),
    ]
    parity.write_rows(raw, rows)
    assert parity.read_rows(raw) == rows
    page.write_text(f"above\n{parity_page.BEGIN}\nold\n{parity_page.END}\nbelow\n", encoding="utf-8")
    parity_page.write_page(page, parity.read_rows(raw))
    text = page.read_text(encoding="utf-8")
    assert "| ours, `er` | ce | 0, 1 | 30.0 / 70.0; 40.0 / 80.0 | 35.0 ±7.1 | 75.0 ±7.1 | 2.00 |" in text
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert "old" not in text


def test_the_page_of_results_has_a_place_for_the_table() -> None:
    text = parity.PAGE.read_text(encoding="utf-8")
    assert (text.count(parity_page.BEGIN), text.count(parity_page.END)) == (1, 1)


def test_loops_take_turns_and_time_counts_from_the_second_task() -> None:
    turns: list[str] = []

    def loop(name: str, seconds: list[list[float]]) -> Iterator[float | Result]:
        for epoch in chain(*seconds):
            turns.append(name)
            yield epoch
        yield Result(0.5, 0.75, seconds)

    found = parity.compare({"bare": loop("bare", [[9.0], [1.0]]), "ours": loop("ours", [[1.0], [3.0]])}, 2)
    assert turns == ["bare", "ours", "bare", "ours"]
    assert (found["ours"]["times_bare"], found["ours"]["class_il"]) == (3.0, 0.5)


def test_the_bare_loop_stores_nothing() -> None:
    x, y = torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 0, 1])
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    settings = Settings(epochs=1, mean=(0.0,), std=(1.0,), padding=0)
    *_, result = bare([Task((0, 1), x, y, x, y)], model, settings)
    assert isinstance(result, Result)
    assert len(result.seconds) == 1
