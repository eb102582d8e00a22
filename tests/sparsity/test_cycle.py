from copy import deepcopy
from math import exp
from pathlib import Path

import pytest
import torch

from esacl.config import Config, NetConfig, TrainConfig
from esacl.errors import ConfigError
from esacl.grid.recipe import read_recipe
from esacl.methods import build_parts, resolve
from esacl.nets import Network
from esacl.optim.polytope_update import PolytopeUpdate
from esacl.optim.update import UpdateRule
from esacl.sparsity.esacl import Esacl, EsaclOptions
from esacl.types import UNKNOWN_TASKS
from tests.builders import context, finish, network, stream, trainer

STREAM = stream()


def strategy(start: float, pull: float) -> tuple[Esacl, Network]:
    net = network("cnn", 4)
    options = EsaclOptions(level=0.8, form="cycle", scope="global", recalibrate="no", start=start, pull=pull)
    part = Esacl(options, context(STREAM, epochs=4))
    part.attach(net)
    return part, net


@pytest.mark.parametrize(
    ("backbone", "method", "given", "form", "update"),
    [
        ("mlp", "esacl-er", {}, "freeze", PolytopeUpdate),
        ("cnn", "esacl-er", {}, "cycle", UpdateRule),
        ("cnn", "esacl", {}, "freeze", PolytopeUpdate),
        ("cnn", "esacl-ewc", {}, "freeze", PolytopeUpdate),
        ("cnn", "esacl-er", {"polytope": False}, "freeze", UpdateRule),
        ("cnn", "esacl-er", {"form": "freeze"}, "freeze", PolytopeUpdate),
        ("mlp", "esacl-er", {"form": "cycle"}, "cycle", UpdateRule),
    ],
)
def test_the_form_follows_the_network_the_memory_and_what_is_given(
    backbone: str, method: str, given: dict[str, object], form: str, update: type
) -> None:
    config = Config(method, net=NetConfig(backbone, 4), options={"sparsity": given} if given else {})
    run = resolve(config, STREAM)
    assert run.options["sparsity"]["form"] == form
    assert type(build_parts(run, context(STREAM)).update) is update
    assert resolve(run, STREAM) == run


@pytest.mark.parametrize(
    ("backbone", "given", "remedy"),
    [
        ("cnn", {}, {"form": "freeze"}),
        ("cnn", {"form": "cycle"}, {"form": "freeze"}),
        ("mlp", {"form": "cycle"}, {"form": "freeze"}),
        ("mlp", {"form": "cycle", "polytope": False}, {"form": "freeze", "polytope": True}),
    ],
)
def test_the_cycle_refuses_settings_of_frank_wolfe_and_its_remedy_works(
    backbone: str, given: dict[str, object], remedy: dict[str, object]
) -> None:
    def run(sparsity: dict[str, object]) -> Config:
        options = {"sparsity": sparsity, "update": {"radius": 2.0}}
        return resolve(Config("esacl-er", net=NetConfig(backbone, 4), options=options), STREAM)

    with pytest.raises(ConfigError) as error:
        run(given)
    asked = "sparsity.form = 'freeze'" + (" and sparsity.polytope = true" if "polytope" in remedy else "")
    reason = "has no use for update.radius = 2.0 while sparsity.form = 'cycle'"
    assert str(error.value) == f"method 'esacl-er' {reason}. Leave it out, or use {asked}."
    assert run({**given, **remedy}).options["update"]["radius"] == 2.0


def test_the_cycle_refuses_frank_wolfe() -> None:
    both = Config("esacl-er", options={"sparsity": {"form": "cycle", "polytope": True}})
    with pytest.raises(ConfigError, match=r"trains by SGD .* Leave it out, or use sparsity\.form = 'freeze'"):
        resolve(both, STREAM)


@pytest.mark.parametrize(("name", "value"), [("start", 0.2), ("pull", 3.0)])
@pytest.mark.parametrize("form", [{"form": "freeze"}, {}])
def test_freezing_refuses_settings_of_the_pull(name: str, value: float, form: dict[str, str]) -> None:
    wrong = Config("esacl-er", net=NetConfig("mlp", 4), options={"sparsity": {**form, name: value}})
    with pytest.raises(ConfigError) as error:
        resolve(wrong, STREAM)
    assert str(error.value) == (
        f"esacl-er: sparsity.{name} = {value} is of use for sparsity.form = 'cycle' only, which pulls weights to zero, "
        f"but the form is 'freeze'. Leave it out, or use sparsity.form = 'cycle'."
    )
    right = wrong.with_options(sparsity={"form": "cycle"})
    assert resolve(right, STREAM).options["sparsity"][name] == value


def test_the_smallest_weights_shrink_after_each_step_and_the_others_stay() -> None:
    part, net = strategy(start=0.5, pull=3.0)
    part.begin_task(net, STREAM.tasks[0])
    part.begin_epoch(net, 1)
    assert not part.constrained(), "nothing before the pull starts"
    part.begin_epoch(net, 2)
    every = torch.cat([net.stored[name].flatten() for name in part.kept])
    zeros = round(0.5 * round(0.8 * len(every)))  # geometric: half of what is to go, after the first of three tasks
    bound = every.abs().sort().values[zeros]
    factor = exp(-3.0 / (2 * 3))  # two epochs of three steps are left
    for name in part.constrained():
        value = net.stored[name].detach()
        expected = torch.where(value.abs() >= bound, value, value * factor)
        torch.testing.assert_close(part.constrain(name, value, value), expected)


def test_all_weights_learn_in_every_task_and_zeros_grow_to_the_level() -> None:
    training = trainer("esacl-er", {"sparsity": {"level": 0.8}}, net=NetConfig("cnn", 8), train=TrainConfig(epochs=4))
    part = training.parts.sparsity
    shares, before = [], {}
    for event in training.run():
        if type(event).__name__ == "TaskDone":
            weights = torch.cat([training.net.stored[name].detach().flatten() for name in part.kept])  # type: ignore[attr-defined]
            shares.append((weights == 0).float().mean().item())
            if before:
                moved = (weights != before["weights"]) & (before["weights"] != 0) & (weights != 0)
                assert moved.any(), "what an earlier task kept goes on learning"
            before = {"weights": weights.clone()}
    assert shares == pytest.approx([0.4, 0.6, 0.8], abs=0.005)
    assert part.frozen() == {}


def test_pruning_changes_little_after_the_pull_and_much_without_it() -> None:
    drops = {}
    for start, pull in ((0.4, 10.0), (0.99, 0.1)):
        options = {"sparsity": {"level": 0.9, "ratio": 0.99, "start": start, "pull": pull}}
        training = trainer("esacl-er", options, net=NetConfig("cnn", 8), train=TrainConfig(epochs=10))
        net, part = training.net, training.parts.sparsity
        events = training.run()
        for event in events:
            if type(event).__name__ == "EpochDone" and event.epoch == 9:  # type: ignore[union-attr]
                break
        unpruned = torch.cat([net.stored[name].detach().flatten() for name in part.kept]).clone()  # type: ignore[attr-defined]
        next(events)
        pruned = torch.cat([net.stored[name].detach().flatten() for name in part.kept])  # type: ignore[attr-defined]
        drops[pull] = ((pruned - unpruned).norm() / unpruned.norm()).item()
    assert drops[10.0] < 0.05 < 0.2 < drops[0.1]


def test_a_cycle_goes_on_from_its_saved_state() -> None:
    whole = trainer("esacl-er", {}, net=NetConfig("cnn", 4), train=TrainConfig(epochs=3))
    epochs = (event for event in whole.run() if type(event).__name__ == "EpochDone")
    saved = [deepcopy(whole.state_dict()) for _ in epochs]
    for state in saved:
        again = trainer("esacl-er", {}, net=NetConfig("cnn", 4), train=TrainConfig(epochs=3), seed=0)
        again.load_state_dict(deepcopy(state))
        finish(again)
        for name, value in whole.net.stored.items():
            assert torch.equal(again.net.stored[name], value), name


def test_one_epoch_is_enough_for_the_pull() -> None:
    net = network("cnn", 4)
    part = Esacl(EsaclOptions(form="cycle", scope="global", recalibrate="no"), context(STREAM, epochs=1))
    part.attach(net)
    part.begin_task(net, STREAM.tasks[0])
    part.begin_epoch(net, 0)
    assert set(part.constrained()) == set(net.partition.prunable)


def test_without_a_last_task_all_zeros_are_there_after_the_first() -> None:
    net = network("cnn", 4)
    options = EsaclOptions(level=0.8, form="cycle", quota="geometric", ratio=0.25, scope="global", recalibrate="no")
    part = Esacl(options, context(STREAM, tasks=UNKNOWN_TASKS))
    part.attach(net)
    part.end_task(net, STREAM.tasks[0], None)
    sizes = {name: net.stored[name].numel() for name in net.partition.prunable}
    kept = sum(int(net.stored[name].count_nonzero()) for name in sizes)
    assert kept == round(0.2 * sum(sizes.values()))


def test_beside_gpm_the_statistics_of_the_first_task_stay() -> None:
    run = resolve(Config("esacl-gpm", net=NetConfig("cnn", 4)), STREAM)
    assert run.options["sparsity"]["recalibrate"] == "no"
    again = Config("esacl-gpm", net=NetConfig("cnn", 4), options={"sparsity": {"recalibrate": "mixed"}})
    with pytest.raises(ConfigError, match=r"sparsity\.recalibrate = 'mixed' takes them anew"):
        resolve(again, STREAM)


@pytest.mark.parametrize("name", ["ablation-pruning", "rho-sweep"])
def test_recipes_about_parts_of_the_paper_compare_rows_of_one_form(name: str) -> None:
    recipe = read_recipe(Path(__file__).parents[2] / "recipes" / "small" / f"{name}.toml")
    large = stream(shape=(3, 32, 32))
    forms = {resolve(point.config(seed=0), large).options["sparsity"]["form"] for point in recipe.points}
    assert forms == {"freeze"}
