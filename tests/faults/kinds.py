"""Every kind of input that is read."""

from tests.faults import kinds_data, kinds_environment, kinds_models, kinds_python, kinds_settings, kinds_weights
from tests.faults.case import Kind

KINDS: dict[str, Kind] = {
    kind.name: kind
    for module in (kinds_settings, kinds_models, kinds_weights, kinds_data, kinds_python, kinds_environment)
    for kind in module.KINDS
}
