"""Files that ask for more than any honest one: refused in one line, before anything is read or allocated."""

import gzip
import io
import json
import pickle
import tarfile
from pathlib import Path
from time import perf_counter

import pytest
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file

from esacl import Config, run
from esacl.deploy import open_model
from esacl.deploy.model import Trained
from esacl.deploy.weights import read_export, write_export
from esacl.errors import ConfigError, DataError, EsaclError
from esacl.nets import build_model
from esacl.sealed import seal
from esacl.streams import photos
from esacl.streams.archive import open_archive
from esacl.streams.images import decode_rgb
from esacl.streams.limits import max_pixels
from esacl.streams.unpickle import load
from tests.builders import stream
from tests.deploy.models import saved


def tar_of(path, size, kind=tarfile.REGTYPE):
    """A tar whose first member says that it has so many bytes."""
    info = tarfile.TarInfo("top/data")
    info.size, info.type = size, kind
    path.write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(10240)))
    return path


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_a_tar_member_with_an_absurd_size_is_refused(tmp_path, kind):
    path = tar_of(tmp_path / "a.tar.gz", 10**20, kind)
    with open_archive(path, "top") as archive, pytest.raises(DataError, match=f"says it has {10**20} bytes"):
        archive.names()


@pytest.mark.timeout(20)
def test_a_pickle_of_tuples_in_tuples_is_refused():
    data = b"\x80\x02}(" + b"K\x01K\x02\x86q\x00" + b"".join(b"h%c0h%c\x86q%c" % (n, n, n + 1) for n in range(45))
    doubled = b"\x80\x02}K\x01K\x02\x86q\x00" + b"".join(b"h%ch%c\x86q%c" % (n, n, n + 1) for n in range(45))
    for text in (data, doubled + b"K\x01s."):
        began = perf_counter()
        with pytest.raises(DataError):
            load(text, "it")
        assert perf_counter() - began < 5


@pytest.mark.parametrize("key", [(1, 2), 3, None])
def test_names_in_a_pickle_are_text(key):
    with pytest.raises(DataError, match="not text"):
        load(pickle.dumps({key: 1}, protocol=2), "it")


def test_a_pickle_of_endless_steps_is_refused(monkeypatch):
    monkeypatch.setattr("esacl.pickles.MOST_OPERATIONS", 100)
    with pytest.raises(DataError, match="steps"):
        load(pickle.dumps({"a": list(range(200))}, protocol=2), "it")


def test_an_image_of_too_many_pixels_is_refused_until_the_cap_is_raised(monkeypatch):
    file = io.BytesIO()
    Image.new("RGB", (40, 30)).save(file, "png")
    monkeypatch.setenv("ESACL_MAX_PIXELS", "1199")
    with pytest.raises(DataError, match="ESACL_MAX_PIXELS"):
        decode_rgb(file.getvalue())
    monkeypatch.setenv("ESACL_MAX_PIXELS", "1200")
    assert decode_rgb(file.getvalue()).shape == (30, 40, 3)


@pytest.mark.parametrize("text", ["many", "-1", "0", "1e9", "²"])
def test_a_cap_that_is_no_number_is_told(monkeypatch, text):
    monkeypatch.setenv("ESACL_MAX_PIXELS", text)
    with pytest.raises(EsaclError, match="ESACL_MAX_PIXELS"):
        max_pixels()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A sparse export."""
    folder = tmp_path_factory.mktemp("exported")
    path = folder / "sparse"
    write_export(path, open_model(saved(folder, method="esacl-er", sparsity=0.9)), sparse=True)
    return path


def changed(path, out, change):
    """The same file with another description, and a digest that fits it."""
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()["esacl"])
    del about["sha256"]
    change(about)
    out.write_bytes(seal(load_file(path), about)[0])
    return out


def test_an_export_is_compared_with_its_tensors_before_memory_is_taken(exported, tmp_path, monkeypatch):
    path = changed(exported, tmp_path / "large", lambda about: about.update(shape=[3, 1024, 2048]))
    model = open_model(path)
    monkeypatch.setattr("torch.nn.Module.to_empty", None)  # nothing is allocated
    with pytest.raises(EsaclError, match="do not fit"):
        model.answering()
    assert isinstance(model, Trained)


def test_a_packed_layer_of_another_shape_is_refused(exported, tmp_path):
    def enlarge(about):
        name = next(iter(about["sparse"]))
        about["sparse"][name] = [2**20, 2**20]

    with pytest.raises(EsaclError, match="does not fit a mask"):
        read_export(changed(exported, tmp_path / "large", enlarge))


def test_a_flipped_bit_in_an_export_is_noticed_and_others_still_read_it(exported, tmp_path):
    data = bytearray(exported.read_bytes())
    data[-2] ^= 1
    (tmp_path / "flipped").write_bytes(bytes(data))
    with pytest.raises(EsaclError, match="do not match its digest"):
        open_model(tmp_path / "flipped")
    assert load_file(tmp_path / "flipped").keys() == load_file(exported).keys()


def test_a_network_larger_than_the_memory_is_one_line_with_its_size(tmp_path, monkeypatch):
    monkeypatch.setattr("esacl.nets.room.physical_memory", lambda: 1000)
    with pytest.raises(ConfigError, match=r"a mlp of width 16 needs 0\.0 GiB"):
        run(Config.of(method="finetune", width=16), tmp_path / "run", stream=stream())
    assert not (tmp_path / "run").exists()


def test_memory_that_runs_out_while_building_is_one_line(monkeypatch):
    def full(*_, **__):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")

    monkeypatch.setattr("torch.nn.Module.to_empty", full)
    with pytest.raises(ConfigError, match="GiB for its weights"):
        build_model("mlp", 4096, (1, 8, 8), 10, 0)


def test_a_folder_of_too_many_images_says_how_much_memory_it_needs(monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr(photos.np, "empty", full)
    with pytest.raises(DataError, match=r"1,024 images of 512 × 512 need 0\.8 GiB.*smaller image size or fewer"):
        photos.decoded([(Path("x.png"), 0)] * 1024, (512, 512), "crop")
