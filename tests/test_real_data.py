"""One epoch of replay on each of the real data sets, where they are there."""

import os
from pathlib import Path

import pytest

from esacl import Config, run
from esacl.config import NetConfig, StreamConfig, TrainConfig
from esacl.streams.locate import find
from esacl.streams.official import official

DATA = os.environ.get("ESACL_DATA")
STREAMS = {"split-cifar10": (20, 5), "split-cifar100": (5, 10), "split-tinyimagenet": (2, 10)}


@pytest.mark.parametrize("stream", STREAMS)
def test_one_epoch_of_er_runs(stream, tmp_path):
    if not DATA:
        pytest.skip("ESACL_DATA is not set: no folder with the real data sets")
    if find(official(stream), Path(DATA)) is None:
        pytest.skip(f"{stream} is not in {DATA}")
    limit, tasks = STREAMS[stream]
    images = StreamConfig(stream, limit_per_class=limit)
    settings = Config("er", stream=images, net=NetConfig(width=4), train=TrainConfig(epochs=1))
    results = run(settings, tmp_path / "run")
    assert results.tasks == tasks
    assert [len(row) for row in results.matrix["class_il"]] == [tasks] * tasks
    assert 0 < results.task_il <= 1
    assert (tmp_path / "run" / "report.html").exists()
