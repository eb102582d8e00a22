"""What training leaves behind, without what a clock or a memory gauge said; and where two of that differ."""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from esacl.estimator.storage import FORM
from esacl.training.checkpoint import Checkpoints, fingerprint, unpack

Bits = dict[str, Any]


def of_run(directory: Path) -> Bits:
    """Results, events, weights and the last checkpoint of a run, by name."""
    results = json.loads((directory / "results.json").read_text())
    del results["seconds"], results["peak_memory_bytes"]
    events = [json.loads(line) for line in (directory / "events.jsonl").read_text().splitlines()]
    for event in events:
        event.pop("seconds", None)
    weights = load_file(directory / "model.safetensors")
    last, _ = Checkpoints(directory / "checkpoint").newest()
    assert last is not None
    return {
        **{f"results: {name}": value for name, value in results.items()},
        **{f"event {number}": event for number, event in enumerate(events)},
        **{f"weights: {name}": value.numpy().tobytes() for name, value in weights.items()},
        **_state(last["trainer"]),
    }


def of_classifier(path: Path) -> Bits:
    """All that the file of a classifier holds, by name."""
    saved = unpack(path, FORM)
    return {name: fingerprint({name: saved[name]}) for name in saved.keys() - {"trainer"}} | _state(saved["trainer"])


def _state(trainer: dict[str, Any]) -> Bits:
    """Digests of weights, masks, memories, generators and counters."""
    parts = {f"state: {name}": value for name, value in trainer["parts"].items()}
    others = {f"state: {name}": value for name, value in trainer.items() if name not in ("parts", "seconds")}
    return {name: fingerprint({name: value}) for name, value in (parts | others).items()}


def differences(expected: Bits, found: Bits) -> list[str]:
    """Names of all that is not the same."""
    return [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]
