import tomllib
from pathlib import Path
from typing import Any

import pytest

import esacl
from esacl.config import SLOTS, Config
from esacl.errors import ConfigError
from esacl.methods import METHODS, build_parts, resolve
from esacl.optim.gradient import GradientRule
from esacl.optim.update import UpdateRule
from esacl.presets import PAPER_STREAMS, PRESETS, settings_of
from esacl.runner import start
from esacl.streams.base import Stream
from esacl.training.events import EpochDone
from tests.builders import context, stream

LARGE = stream(shape=(3, 16, 16))
SMALL = {"train": {"epochs": 2, "batch_size": 8}, "net": {"backbone": "mlp", "width": 16}}


def resolved(method: str = "esacl-er", name: str = "split-cifar10", of: Stream = LARGE, **tables: Any) -> Config:
    """A run with the paper's settings, and others over them."""
    given = {"method": method, "preset": "paper", "stream": {"name": name}, **tables}
    return resolve(Config.from_mapping(given), of)


@pytest.mark.parametrize(
    ("name", "radius", "k", "rate", "rho", "epochs"),
    [
        ("split-cifar10", 5.0, 0.05, 0.01, 0.05, 50),
        ("split-cifar100", 8.0, 0.1, 0.1, 0.5, 80),
        ("split-tinyimagenet", 8.0, 0.08, 0.01, 0.1, 100),
    ],
)
@pytest.mark.parametrize("method", ["esacl-er", "esacl-der++"])
def test_the_paper_s_settings_are_those_of_its_authors(
    method: str, name: str, radius: float, k: float, rate: float, rho: float, epochs: int
) -> None:
    run = resolved(method, name)
    update, gradient, selection = (run.options[slot] for slot in ("update", "gradient", "selection"))
    assert (update["radius"], update["radius_scale"]) == (radius, "absolute")
    assert (update["k"], update["eta"], update["lr"]) == (k, rate, rate)
    assert (update["momentum_mode"], update["schedule"], update["pull"]) == ("accumulate", "constant", False)
    assert (gradient["rho"], gradient["ascent"], gradient["every"]) == (rho, "total", 1)
    assert (selection["keep"], selection["rule"], selection["ranking"]) == (0.4, "loss", "reuse")
    assert selection["support"]
    assert selection["redundant"]
    assert run.options["objective"]["buffer"] == 500
    assert run.train.epochs == epochs
    assert run.net.backbone == "resnet18"


@pytest.mark.parametrize("name", ["split-digits", "folder:somewhere", "arrays:mine"])
@pytest.mark.parametrize(("shape", "backbone"), [((1, 8, 8), "mlp"), ((3, 16, 16), "resnet10")])
def test_other_streams_take_the_settings_of_cifar10_and_their_own_network(
    name: str, shape: tuple[int, int, int], backbone: str
) -> None:
    run, paper = resolved(name=name, of=stream(shape=shape)), resolved()
    assert run.net.backbone == backbone
    assert run.train == paper.train
    for slot in ("gradient", "objective", "selection"):
        assert run.options[slot] == paper.options[slot]
    given = settings_of("paper", "split-cifar10")["update"]
    assert {key: run.options["update"][key] for key in given} == given


def test_a_preset_for_no_stream_is_that_of_the_default_stream() -> None:
    assert Config.of(preset="paper") == Config.of(preset="paper", stream="split-digits")
    assert Config.of(preset="paper").train.epochs == 50


def test_without_a_preset_nothing_is_filled_in() -> None:
    assert Config.of(method="esacl-er").preset is None
    assert Config.of(method="esacl-er").options == {}


def test_what_is_given_wins_over_a_preset() -> None:
    given = {
        "net": {"backbone": "cnn"},
        "train": {"epochs": 3},
        "objective": {"buffer": 20},
        "gradient": {"rho": 0.3},
        "update": {"radius": 2.5, "lr": 0.7},
        "selection": {"keep": 0.9, "rule": "random"},
        "sparsity": {"level": 0.6},
    }
    run, paper = resolved(**given), resolved()
    assert (run.net.backbone, run.train.epochs) == ("cnn", 3)
    for slot, values in run.options.items():
        assert values == {**paper.options[slot], **given.get(slot, {})}
    short = Config.of(method="esacl-er", preset="paper", stream="split-cifar10", rho=0.3, keep=0.9, epochs=3)
    assert (short.options["gradient"]["rho"], short.options["selection"]["keep"], short.train.epochs) == (0.3, 0.9, 3)


@pytest.mark.parametrize("name", ["nope", "Papers", ""])
def test_an_unknown_preset_is_refused_with_those_that_exist(name: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"unknown preset '{name}'\.( Did you mean 'paper'\?)? Allowed: full, paper\."
    ):
        Config.of(preset=name)
    with pytest.raises(ConfigError, match="unknown preset"):
        settings_of(name, "split-cifar10")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("name", [*PAPER_STREAMS, "split-digits"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_what_it_has_a_use_for(method: str, name: str, preset: str) -> None:
    if preset == "full" and not method.startswith("esacl"):
        with pytest.raises(ConfigError, match=r"preset 'full' switches all parts of EsaCL on, but the method is"):
            Config.of(method=method, stream=name, preset=preset)
        return
    run = resolve(Config.of(method=method, stream=name, preset=preset), LARGE)
    for slot, table in settings_of(preset, name, method).items():
        if slot in SLOTS:
            used = {key: value for key, value in table.items() if key in METHODS[method].options(slot)}
            assert {key: run.options[slot][key] for key in used} == used
    assert resolve(run, LARGE) == run


def test_an_option_without_a_use_is_refused_beside_a_preset_as_well() -> None:
    with pytest.raises(ConfigError, match=r"method 'er' has no use for gradient\.rho = 0\.3"):
        resolved("er", gradient={"rho": 0.3})
    with pytest.raises(ConfigError, match=r"unknown option of update 'lrr'"):
        resolved("er", update={"lrr": 0.3})


@pytest.mark.parametrize("off", ["sharpness", "polytope"])
def test_a_preset_leaves_out_what_is_switched_off(off: str) -> None:
    run = resolved(sparsity={off: False})
    built = build_parts(run, context())
    if off == "sharpness":
        assert type(built.gradient) is GradientRule
        assert "gradient" not in run.options
    else:
        assert type(built.update) is UpdateRule
        assert run.options["update"] == {
            "lr": 0.01,
            "backbone_lr": None,
            "momentum": 0.0,
            "weight_decay": 0.0,
            "schedule": "constant",
        }
    assert resolve(run, LARGE) == run


def test_the_settings_of_a_preset_survive_the_way_through_toml() -> None:
    given = Config.of(method="er", preset="paper", stream="split-cifar100", buffer=20)
    read = Config.from_mapping(tomllib.loads(given.to_toml()))
    assert read == given
    run = resolve(given, LARGE)
    assert resolve(Config.from_mapping(tomllib.loads(run.to_toml())), LARGE) == run


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("er", {}),
        ("finetune", {}),
        ("esacl-der++", {"sparsity": {"level": 0.5}}),
        ("esacl-er", {"sparsity": {"sharpness": False}}),
    ],
)
def test_a_run_with_a_preset_resumes_to_the_same_bits(method: str, more: dict[str, Any], tmp_path: Path) -> None:
    of = stream(tasks=2)
    config = Config.from_mapping({"method": method, "preset": "paper", **SMALL, **more})
    whole = esacl.run(config, tmp_path / "whole", stream=of)
    with start(config, tmp_path / "half", stream=of) as half:
        for event in half.events():
            if isinstance(event, EpochDone) and (event.task, event.epoch) == (1, 0):
                break
    resumed = esacl.resume(tmp_path / "half", stream=of)
    assert resumed.matrix == whole.matrix
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "half")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("method", [name for name in METHODS if not name.startswith("esacl")])
@pytest.mark.parametrize("name", PAPER_STREAMS)
def test_rivals_take_network_buffer_and_epochs_of_the_paper_and_rates_of_their_own(method: str, name: str) -> None:
    run = resolved(method, name)
    bare = resolve(Config.of(method=method, stream=name, backbone="resnet18", readout="own"), LARGE)
    assert run.net.backbone == "resnet18"
    assert run.train.epochs == PAPER_STREAMS[name]["train"]["epochs"]
    assert run.options.get("objective", {}).get("buffer", 500) == 500
    for slot in {*SLOTS} - {"objective"}:
        assert run.options.get(slot) == bare.options.get(slot)
    assert resolved(method, update={"lr": 0.02}).options["update"]["lr"] == 0.02
