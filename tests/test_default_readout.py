from typing import Any

import pytest

from esacl.config import Config
from esacl.methods import check_settings, compose
from esacl.readouts.base import Readout
from esacl.readouts.bias import Bias
from esacl.readouts.nearest_mean import NearestMean
from esacl.readouts.probe import LinearProbe
from esacl.readouts.refit import Refit
from esacl.readouts.two_step import TwoStep


@pytest.mark.parametrize(
    ("settings", "default", "own"),
    [
        ({"method": "er"}, Bias, Readout),
        ({"method": "esacl-der++"}, Bias, Readout),
        ({"method": "la-maml"}, Bias, Readout),
        ({"method": "finetune"}, Readout, Readout),
        ({"method": "mtl"}, Readout, Readout),
        ({"method": "grow-er"}, TwoStep, Readout),
        ({"method": "grow"}, Readout, Readout),
        ({"method": "icarl"}, NearestMean, NearestMean),
        ({"method": "esacl-icarl"}, Refit, Refit),
        ({"method": "co2l"}, LinearProbe, LinearProbe),
        ({"method": "packnet-er"}, Readout, Readout),
        ({"method": "er", "constraint": "gpm"}, Readout, Readout),
    ],
)
def test_a_memory_corrects_the_bias_of_the_head_unless_the_authors_readout_is_asked_for(
    settings: dict[str, Any], default: type[Readout], own: type[Readout]
) -> None:
    assert compose(Config.of(**settings)).part("readout") is default
    asked = Config.of(**settings, readout="own")
    assert compose(asked).part("readout") is own
    assert asked.composition == Config.of(**settings).composition
    check_settings(asked)
