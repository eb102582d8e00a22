"""Exported files are small, whole, and answer as the model does."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import esacl
from esacl.deploy import open_model
from esacl.deploy.graph import write_onnx
from esacl.deploy.weights import write_export
from esacl.errors import CheckpointError
from tests.builders import same
from tests.deploy.models import features, large, saved

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def sparse(tmp_path_factory):
    """A small ResNet of density 0.2."""
    return open_model(saved(tmp_path_factory.mktemp("sparse"), large, epochs=2))


def test_sparse_weights_take_at_most_a_quarter_and_come_back_bit_for_bit(sparse, tmp_path):
    write_export(tmp_path / "sparse", sparse, sparse=True)
    write_export(tmp_path / "dense", sparse, sparse=False)
    assert (tmp_path / "sparse").stat().st_size <= 0.25 * (tmp_path / "dense").stat().st_size
    assert same(esacl.load_sparse(tmp_path / "sparse"), sparse.weights)
    write_export(tmp_path / "again", sparse, sparse=True)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "sparse").read_bytes()


def test_minus_zero_survives(sparse, tmp_path):
    value = torch.zeros(16, 3, 3, 3)
    value[0, 0, 0, 0] = -0.0
    write_export(
        tmp_path / "m", replace(sparse, weights={**sparse.weights, "backbone.stem.weight": value}), sparse=True
    )
    back = esacl.load_sparse(tmp_path / "m")["backbone.stem.weight"]
    assert torch.equal(back.view(torch.int32), value.view(torch.int32))


def test_the_torch_format_is_a_state_dict_that_any_reader_of_safetensors_loads(sparse, tmp_path):
    write_export(tmp_path / "m.safetensors", sparse, sparse=False)
    assert same(load_file(tmp_path / "m.safetensors"), sparse.weights)


@pytest.mark.parametrize("packed", [True, False])
def test_an_exported_file_is_a_model_again(sparse, tmp_path, packed):
    write_export(tmp_path / "m", sparse, sparse=packed)
    again = open_model(tmp_path / "m")
    assert again.about() == sparse.about()
    x = torch.rand(3, 3, 16, 16)
    with torch.no_grad():
        assert torch.equal(again.answering()(x)[1], sparse.answering()(x)[1])


def test_files_that_were_not_exported_or_are_damaged_are_refused(sparse, tmp_path):
    write_export(tmp_path / "m", sparse, sparse=True)
    data = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(data[: len(data) // 2])
    (tmp_path / "text").write_text("no weights")
    for name in ("m", "text", "missing"):
        with pytest.raises(CheckpointError, match="esacl export"):
            esacl.load_sparse(tmp_path / name)


def test_the_graph_takes_images_of_0_to_1_in_batches_of_any_size(sparse, tmp_path):
    write_onnx(tmp_path / "m.onnx", sparse)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    _check(session, sparse, "images", (3, 16, 16))
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == list(sparse.classes)


def test_the_graph_takes_features_as_they_were_learnt(tmp_path):
    model = open_model(saved(tmp_path, features, epochs=1))
    write_onnx(tmp_path / "m.onnx", model)
    _check(onnxruntime.InferenceSession(tmp_path / "m.onnx"), model, "features", (12,))


def _check(session, model, name, shape):
    for count in (1, 3, 17):
        x = np.random.default_rng(count).random((count, *shape), dtype=np.float32)
        chances, logits = session.run(["probabilities", "logits"], {name: x})
        with torch.no_grad():
            expected = model.answering()(torch.from_numpy(x))
        np.testing.assert_allclose(chances, expected[0], atol=1e-5)
        np.testing.assert_allclose(logits, expected[1], rtol=1e-5, atol=1e-5)
