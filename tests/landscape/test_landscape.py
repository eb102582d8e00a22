import json
import subprocess
from dataclasses import replace
from shutil import copytree

import pytest
import torch

from esacl.artifacts import RunDirectory
from esacl.cli import app
from esacl.config import Config
from esacl.errors import ConfigError, RunError
from esacl.grid.run_files import so_far, unpack, whole
from esacl.landscape import draw, labels, landscape
from esacl.runner import run, start
from esacl.training.events import TaskDone
from tests.nets.own_nets import Recurrent, made

QUICK = {"epochs": 1, "limit_per_class": 20, "width": 16}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("landscape")
    run(Config.of(method="esacl-er", sparsity=0.6, **QUICK), place / "esacl")
    run(Config.of(method="er", **QUICK), place / "dense")
    return place


@pytest.fixture(scope="module")
def found(runs):
    return [landscape(runs / name, steps=5, examples=64, sparsity=0.7) for name in ("esacl", "dense")]


def test_a_network_with_nothing_to_prune_is_told(tmp_path):
    few = Config.of(method="finetune", epochs=1, tasks=2, limit_per_class=6)
    run(few, tmp_path, backbone=made(Recurrent))
    with pytest.raises(ConfigError, match="nothing of this network can be pruned"):
        landscape(tmp_path, steps=5, examples=8, backbone=made(Recurrent))


def test_the_way_leads_from_the_weights_to_the_pruned_ones(found):
    for each in found:
        assert each.lengths == [-0.5, 0.0, 0.5, 1.0, 1.5]
        assert each.to_pruned[1] == pytest.approx(each.loss, rel=1e-5)
        assert each.to_pruned[3] == pytest.approx(each.pruned_loss, rel=1e-5)
        assert each.sideways[2] == pytest.approx(each.loss, rel=1e-5)
        assert each.plane[2] == pytest.approx(each.to_pruned, rel=1e-5)
        assert each.loss != each.pruned_loss


def test_a_run_that_prunes_has_its_own_pruned_point_and_a_dense_one_the_sparsity_asked_for(found):
    esacl, dense = found
    assert esacl.sparsity == pytest.approx(0.6, abs=1e-3)
    assert dense.sparsity == pytest.approx(0.7, abs=1e-3)


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_looking_around_leaves_the_run_as_it_was(runs, found, tmp_path):
    run(Config.of(method="esacl-er", sparsity=0.6, **QUICK), tmp_path / "esacl")  # nobody has looked at it yet
    (tmp_path / "esacl" / "checkpoint" / ".another.tmp").write_text("what another process is writing")
    before = files(tmp_path)
    assert json.loads((tmp_path / "esacl" / "events.jsonl").read_text().splitlines()[-1])["event"] == "finished"
    assert landscape(tmp_path / "esacl", steps=5, examples=64, sparsity=0.7) == found[0]
    assert files(tmp_path) == before


def test_a_run_of_several_processes_is_looked_at_by_one(tmp_path, monkeypatch):
    run(Config.of(method="er", processes=2, **QUICK), tmp_path / "two")
    before = files(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", None)
    seen = landscape(tmp_path / "two", steps=3, examples=32)
    assert seen.to_pruned[0] > 0
    assert files(tmp_path) == before


def test_a_run_that_went_through_a_grid_is_seen_as_one_that_did_not(runs, found, tmp_path):
    (tmp_path / "esacl").mkdir()
    came = RunDirectory(tmp_path / "esacl")
    unpack(so_far(RunDirectory(runs / "esacl")), came)  # as it comes, a checkpoint now and then
    unpack(whole(RunDirectory(runs / "esacl")), came)
    assert landscape(tmp_path / "esacl", steps=5, examples=64, sparsity=0.7) == found[0]


def test_weights_of_before_other_training_are_not_taken_for_those_before_the_last_pruning(runs, tmp_path):
    with start(Config.of(method="esacl-er", sparsity=0.6, **QUICK), tmp_path / "esacl") as opened:
        next(event for event in opened.events() if isinstance(event, TaskDone))
    earlier = max((tmp_path / "esacl" / "checkpoint").iterdir())
    copytree(runs / "esacl", tmp_path / "other")
    min((tmp_path / "other" / "checkpoint").iterdir()).write_bytes(earlier.read_bytes())
    with pytest.raises(RunError, match="the weights before the last pruning are not in"):
        landscape(tmp_path / "other", steps=5, examples=64)


def test_a_run_whose_last_checkpoint_is_gone_is_refused(runs, tmp_path):
    copytree(runs / "dense", tmp_path / "dense")
    max((tmp_path / "dense" / "checkpoint").iterdir()).unlink()
    with pytest.raises(RunError, match=r"last checkpoint of the run in .*dense.* is deleted or damaged"):
        landscape(tmp_path / "dense")


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_picture_has_the_kind_that_its_name_asks_for(found, tmp_path, kind):
    draw(found, tmp_path / f"picture.{kind}")
    beginning = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[kind]
    assert (tmp_path / f"picture.{kind}").read_bytes().startswith(beginning)


def test_runs_of_one_method_and_seed_are_told_apart_by_their_directories(found, tmp_path):
    esacl, dense = found
    assert labels(found) == ["esacl-er, seed 0", "er, seed 0"]
    twins = [esacl, replace(esacl, run="the $other$"), dense]
    assert labels(twins) == ["esacl-er, seed 0 (esacl)", "esacl-er, seed 0 (the $other$)", "er, seed 0"]
    draw(twins, tmp_path / "picture.svg")
    assert "the $other$" in (tmp_path / "picture.svg").read_text()  # beside the shapes, as a comment


def test_another_kind_of_picture_is_refused(found, tmp_path):
    with pytest.raises(ConfigError, match=r"png, svg, pdf, but 'picture\.bmp'"):
        draw(found, tmp_path / "picture.bmp")


def test_the_command_writes_picture_and_figures_and_tells_them(runs, tmp_path, capsys):
    out = tmp_path / "around.png"
    app(
        ["landscape", str(runs / "esacl"), str(runs / "dense"), "-o", str(out), "--steps", "3", "--examples", "32"],
        result_action="return_value",
    )
    told = capsys.readouterr().out
    assert "esacl-er, seed 0" in told
    written = json.loads(out.with_suffix(".json").read_text())
    assert [each["method"] for each in written] == ["esacl-er", "er"]
    assert torch.tensor(written[0]["plane"]).shape == (3, 3)
    for each in written:
        assert each["relative_sharpness"] == pytest.approx(each["sharpness"] / each["loss"])
        assert f"{each['pruned_sharpness'] / each['pruned_loss']:.2f}" in told


def test_the_figures_are_never_written_over_the_results_of_a_run(runs):
    before = files(runs)
    with pytest.raises(ConfigError, match="is what a run calls its results"):
        app(["landscape", str(runs / "dense"), "-o", str(runs / "dense" / "results.png")], result_action="return_value")
    assert files(runs) == before


def test_more_images_than_there_are_are_not_counted(runs):
    assert landscape(runs / "dense", steps=3, examples=5000).examples < 200


def test_an_unfinished_run_is_refused_with_the_command_that_finishes_it(tmp_path):
    with start(Config.of(method="er", **QUICK), tmp_path / "half") as opened:
        next(opened.events())
    with pytest.raises(RunError, match="esacl resume"):
        landscape(tmp_path / "half")
