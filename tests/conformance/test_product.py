"""Every sparsity on every base, and every part of the other slots: it keeps the promises, or says why it cannot be."""

import pytest

from esacl.config import CHOSEN, Config, PartsConfig
from esacl.errors import ConfigError
from esacl.methods import METHODS, PARTS, check_settings, compose, method
from esacl.methods.names import above_names, base_names
from esacl.testing import check_method

SMALL = {"reach": 0.2, "k": 0.2, "radius": 2.0, "averaging": 0.9, "lr": 0.03}
PRODUCT = [f"{above}-{base}" for above in above_names() for base in base_names()]
REFUSED = {
    "packnet-co2l": "fitted with the weights of the last task",
    "packnet-icarl": "fitted with the weights of the last task",
    "wsn-co2l": "fitted with the weights of the last task",
    "wsn-icarl": "fitted with the weights of the last task",
    "wsn-la-maml": "AdamUpdate and LearnedRates both claim the update slot",
    "esacl-la-maml": "SharpnessAware and Lookahead both claim the gradient slot",
    "grow-ewc": "Ewc keeps the network near what it was",
    "grow-lwf": "Lwf keeps the network near what it was",
    "grow-gpm": "Gpm watches what the layers of the whole network read",
    "grow-la-maml": "both claim the update slot",
}
BESIDE = [
    ("der++", {"gradient": "sharpness"}, {"gradient": {"rho": 0.05}}),
    ("er", {"update": "frank-wolfe"}, {"update": SMALL}),
    ("er", {"update": "adam"}, {}),
    ("er", {"constraint": "gpm"}, {}),
    *(("er", {"readout": name}, {}) for name in ("nearest-mean", "refit", "lda", "two-step", "random-features")),
    ("esacl-icarl", {"readout": "probe"}, {}),
    ("finetune", {"readout": "bias"}, {}),
    ("esacl-er", {"average": "ema", "readout": "refit"}, {}),
    ("co2l", {"readout": "nearest-mean"}, {}),
    ("co2l", {"selection": "loss-removal"}, {}),
    ("er", {"selection": "removal"}, {}),
    ("lwf", {"selection": "ranked"}, {"selection": {"keep": 0.5}}),
    ("er", {"gradient": "lookahead", "update": "learned-rates"}, {}),
    ("esacl-er", {"update": "sgd", "selection": "all"}, {}),
    ("icarl", {"readout": "head"}, {}),
    ("grow", {"update": "frank-wolfe"}, {"update": SMALL}),
    ("grow-er", {"gradient": "sharpness"}, {"gradient": {"rho": 0.05}}),
    ("grow-der++", {"selection": "ranked"}, {"selection": {"keep": 0.5}}),
]


def options_of(chosen, **own):
    """Settings for tasks of few steps."""
    options = {slot: dict(values) for slot, values in own.items()}
    if "buffer" in chosen.options("objective"):
        options.setdefault("objective", {})["buffer"] = 20
    if "reach" in chosen.options("update"):
        options.setdefault("update", SMALL)
    return options


@pytest.mark.parametrize("name", [name for name in PRODUCT if name not in REFUSED and name not in METHODS])
def test_a_combination_by_name_keeps_every_promise(name):
    done = check_method(name, options_of(method(name)))
    assert len(done.rows) == (1 if method(name).joint else 3)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_combined_is_refused_with_the_reason(name):
    with pytest.raises(ConfigError) as error:
        check_settings(Config(name))
    assert REFUSED[name] in str(error.value)


@pytest.mark.parametrize(("name", "parts", "options"), BESIDE, ids=lambda value: str(value))
def test_a_part_that_is_chosen_keeps_every_promise(name, parts, options):
    chosen = compose(Config(name, parts=PartsConfig(**parts)))
    for slot, part in parts.items():
        assert chosen.part(slot) is PARTS[slot][part]
    assert check_method(chosen, options_of(chosen, **options)).rows


def test_every_part_that_can_be_chosen_is_tried_beside_some_method():
    tried = {(slot, name) for _, parts, _ in BESIDE for slot, name in parts.items()}
    defaults = {("gradient", "plain"), ("constraint", "none"), ("average", "last")}  # of every other method
    assert tried | defaults == {(slot, name) for slot in CHOSEN for name in PARTS[slot]}
