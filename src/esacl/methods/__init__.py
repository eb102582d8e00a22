"""Methods: which part fills which slot, by name, by combination, and with the settings of each part."""

from esacl.methods.catalogue import METHODS, PARTS
from esacl.methods.method import DEFAULT_PARTS, Method, combine
from esacl.methods.names import Given, compose, method
from esacl.methods.settings import build_parts, check_settings, resolve, training_columns

__all__ = [
    "DEFAULT_PARTS",
    "METHODS",
    "PARTS",
    "Given",
    "Method",
    "build_parts",
    "check_settings",
    "combine",
    "compose",
    "method",
    "resolve",
    "training_columns",
]
