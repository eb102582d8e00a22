"""Networks: backbones, the user's own, the model, and the one place where it is called."""

from esacl.code import is_own
from esacl.nets.backbones import BACKBONES, Backbone
from esacl.nets.model import Model, OwnNet, build_model, check_backbone, is_small, outline, resolve_backbone, traits_of
from esacl.nets.network import Network
from esacl.nets.own import Given, name_of, once_more, own_net
from esacl.nets.partition import Partition
from esacl.nets.traits import NetTraits

__all__ = [
    "BACKBONES",
    "Backbone",
    "Given",
    "Model",
    "NetTraits",
    "Network",
    "OwnNet",
    "Partition",
    "build_model",
    "check_backbone",
    "is_own",
    "is_small",
    "name_of",
    "once_more",
    "outline",
    "own_net",
    "resolve_backbone",
    "traits_of",
]
