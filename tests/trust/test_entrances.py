"""Whatever enters from outside and cannot be right is refused in one line, where it enters."""

import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from time import sleep

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from esacl import Config, ContinualClassifier, resume, run
from esacl.cli import main
from esacl.config import StreamConfig, set_option
from esacl.deploy import open_model
from esacl.deploy.summary import summary
from esacl.deploy.weights import write_export
from esacl.errors import CheckpointError, ConfigError, DataError, EsaclError
from esacl.estimator.storage import FORM
from esacl.sealed import digest, seal
from esacl.streams import absolute, as_stream, from_arrays
from esacl.streams.archive import open_archive
from esacl.toml import read_toml
from esacl.training.checkpoint import FORMAT, Checkpoints, pack, unpack
from tests.builders import stream
from tests.deploy.models import saved

QUICK = Config.of(method="finetune", epochs=2, batch_size=8, width=16)


@pytest.mark.parametrize("text", ["seed = " + "1" * 5000, "x = " + "[" * 50_000, 'x = "\0"', "x = 1e999999x"])
def test_toml_that_cannot_be_parsed_is_one_line(tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(ConfigError, match="as TOML"):
        read_toml(tmp_path / "a.toml")


def test_an_assignment_of_too_many_digits_is_text_that_its_setting_refuses():
    tables = {}
    set_option(tables, "train.epochs=" + "1" * 5000)
    with pytest.raises(ConfigError, match=r"train\.epochs"):
        Config.from_mapping(tables)


@pytest.mark.parametrize("path", ["a\0b", "~nobody-has-this-name/x", "a\udcffb"])
def test_a_path_that_cannot_be_used_is_named(path):
    for config in (StreamConfig(f"folder:{path}"), StreamConfig("split-cifar10", data_dir=path)):
        with pytest.raises(ConfigError, match="cannot be used"):
            absolute(config)


@pytest.mark.parametrize(
    "tree",
    [
        "[",
        "[" * 50000,
        "1" * 5000,
        "3",
        '["list", []]',
        '["what", 1]',
        '["dict", 3]',
        '["dict", [[1]]]',
        '["dict", [[null, 1]]]',
        '["dict", [["a", ["tensor", "none"]]]]',
        '["dict", [["a", {"b": 1}]]]',
    ],
)
def test_a_right_digest_over_a_bad_tree_is_a_checkpoint_error(tmp_path, tree):
    path = tmp_path / "bad.safetensors"
    save_file({}, path, {"format": FORMAT, "tree": tree, "sha256": digest(tree, {})})
    with pytest.raises(CheckpointError, match="does not hold what esacl"):
        unpack(path)


def test_only_names_that_a_run_writes_are_checkpoints(tmp_path):
    for name in ("²³.safetensors", "००००००.safetensors", "0000001.safetensors"):
        (tmp_path / name).touch()
    assert Checkpoints(tmp_path).numbers() == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run with two checkpoints and no results, as one that was interrupted."""
    out = tmp_path_factory.mktemp("entrances") / "run"
    results = run(QUICK, out, stream=stream())
    (out / "results.json").unlink()
    return out, results


def spoil(state, name):
    """The same state with something else where its trainer has `name`."""
    *places, last = name.split(".")
    at = state
    for place in places:
        at = at[place]
    at[last] = "other"


PLACES = [
    "config",
    "number",
    "trainer",
    "trainer.position",
    "trainer.rows",
    "trainer.net.model",
    "trainer.parts.update",
]


@pytest.mark.parametrize("name", PLACES)
def test_an_unfit_checkpoint_is_passed_over_for_the_one_before_it(whole, tmp_path, name):
    out = shutil.copytree(whole[0], tmp_path / "run")
    newest = sorted((out / "checkpoint").iterdir())[-1]
    state = unpack(newest)
    spoil(state, name)
    newest.write_bytes(pack(state))
    assert resume(out, stream=stream()).matrix == whole[1].matrix


def test_where_all_checkpoints_are_unfit_none_is_thrown_away(whole, tmp_path):
    out = shutil.copytree(whole[0], tmp_path / "run")
    files = sorted((out / "checkpoint").iterdir())
    for path in files:
        state = unpack(path)
        spoil(state, "trainer.rows")
        path.write_bytes(pack(state))
    with pytest.raises(CheckpointError, match="does not hold what esacl"):
        resume(out, stream=stream())
    assert sorted((out / "checkpoint").iterdir()) == files


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A saved classifier, and the same exported."""
    folder = tmp_path_factory.mktemp("models")
    path = saved(folder, method="er", epochs=1)
    write_export(folder / "export", open_model(path), sparse=False)
    return path, folder / "export"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("net", {"backbone": "mlpp", "width": 8}),
        ("net", {"backbone": "mlp", "width": -3}),
        ("net", {"backbone": "mlp", "width": 2**40}),
        ("net", {"backbone": 3, "width": 8}),
        ("net", "mlp"),
        ("shape", [3, -8, 8]),
        ("shape", [3, 8]),
        ("shape", "388"),
        ("input", {"kind": "sound", "mean": [0.0], "std": [1.0]}),
        ("input", {"kind": "bytes", "mean": ["0"], "std": [1.0]}),
        ("input", {"kind": "bytes", "mean": [0.0, 0.0], "std": [1.0, 1.0]}),
        ("input", {"kind": "bytes", "mean": [0.0], "std": [0.0]}),
        ("classes", 5),
        ("classes", [["a"]] * 5),
        ("tasks", [[0, 99]]),
        ("tasks", [["0"]]),
        ("accuracy", {"task_il": [1.0]}),
        ("accuracy", [1.0]),
        ("sparse", 3),
        ("method", None),
    ],
)
def test_an_export_that_says_what_cannot_be_is_refused(models, tmp_path, name, value):
    with safe_open(models[1], "pt") as file:
        about = json.loads(file.metadata()["esacl"])
    del about["sha256"]
    (tmp_path / "bad").write_bytes(seal(load_file(models[1]), {**about, name: value})[0])
    with pytest.raises(EsaclError):
        summary(open_model(tmp_path / "bad"), tmp_path / "bad")


@pytest.mark.parametrize(
    "name",
    [
        "params",
        "features",
        "labels",
        "labels.values",
        "labels.type",
        "layout",
        "layout.kind",
        "layout.mean",
        "config",
        "config.net",
        "columns",
        "expected",
        "history",
        "trainer",
        "trainer.rows",
        "trainer.net",
    ],
)
def test_a_saved_classifier_with_a_bad_tree_is_refused(models, tmp_path, name):
    state = unpack(models[0], FORM)
    spoil(state, name)
    (tmp_path / "bad").write_bytes(pack(state, FORM))
    with pytest.raises(EsaclError):
        ContinualClassifier.load(tmp_path / "bad")


def test_a_damaged_lzma_member_of_a_zip_is_damage(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as made:
        made.writestr("top/a", bytes(range(256)) * 20)
    data = bytearray(path.read_bytes())
    data[60:90] = b"\xff" * 30
    path.write_bytes(data)
    with open_archive(path, "top") as archive, pytest.raises(DataError, match="damaged"):
        archive.read_one("a")


X, Y = np.random.default_rng(0).random((40, 6), np.float32), np.arange(40) % 4


def test_bfloat16_and_sparse_tensors_are_read():
    x = torch.from_numpy(X).bfloat16()
    assert from_arrays(x, Y).shape == (1, 1, 6)
    assert from_arrays(torch.from_numpy(X).to_sparse(), Y).shape == (1, 1, 6)
    assert len(ContinualClassifier("finetune", epochs=1).fit(x, torch.from_numpy(Y).bfloat16()).predict(x)) == 40


@pytest.mark.parametrize("read", [from_arrays, lambda x, y: as_stream((x, y)), ContinualClassifier("finetune").fit])
def test_tensors_without_values_are_refused(read):
    meta = torch.empty(40, 6, device="meta")
    for x, y in ((meta, Y), (X, meta[:, 0])):
        with pytest.raises(DataError, match="holds no values"):
            read(x, y)


@pytest.mark.parametrize("y", [3, None, np.array(3), torch.tensor(3)])
def test_labels_that_are_not_a_list_are_refused(y):
    with pytest.raises(DataError, match="one label for each example"):
        from_arrays(X, y)


def test_class_names_that_are_not_a_list_are_refused():
    with pytest.raises(DataError, match="class_names = 5 is not allowed"):
        from_arrays(X, Y, class_names=5)


def test_what_nobody_foresaw_is_one_line_with_the_place_of_the_traceback(capsys, monkeypatch, tmp_path):
    def fail(*_, **__):
        raise KeyError("strange")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("esacl.streams.available", fail)
    with pytest.raises(SystemExit) as left:
        main(["streams"])
    told, (file,) = capsys.readouterr().err, tmp_path.iterdir()
    assert left.value.code == 2
    assert told.count("\n") == 1
    assert str(file) in told
    assert "strange" in file.read_text()
    assert "Traceback" in file.read_text()


def started(*words, **settings):
    """The command line in a process of its own."""
    return subprocess.Popen([sys.executable, "-m", "esacl", *words], stderr=subprocess.PIPE, text=True, **settings)


@pytest.mark.parametrize("words", [["methods", "esacl"], ["--help"]])
def test_an_ascii_terminal_is_shown_what_it_can_show(words):
    terminal = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    with started(*words, stdout=subprocess.PIPE, env=terminal) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "esacl" in out


def test_a_reader_that_has_gone_ends_a_command_quietly():
    reading, writing = os.pipe()
    os.close(reading)
    with started("methods", stdout=writing) as process:
        assert process.communicate()[1] == ""
    os.close(writing)
    assert process.returncode == 141


def test_sigterm_is_one_line(tmp_path):
    words = ["run", "--method", "finetune", "--epochs", "5000", "--out", str(tmp_path / "run")]
    with started(*words, stdout=subprocess.PIPE) as process:
        while not (tmp_path / "run" / "checkpoint").exists() and process.poll() is None:
            sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate()
    assert process.returncode == 130
    assert told.strip() == f"interrupted. Continue with: esacl resume {tmp_path / 'run'}"
