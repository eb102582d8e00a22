"""Networks: backbones, the user's own, the model, and the one place where it is called."""

from esacl.code import is_own
from esacl.nets.backbones import BACKBONES, Backbone
from esacl.nets.model import Model, OwnNet, build_model, check_backbone, is_small, outline, resolve_backbone, traits_of
from esacl.nets.network import Network
from esacl.nets.partition import Partition
from esacl.nets.traits import NetTraits
from esacl.nets.user_module import Given, name_of, own_net, require_user_module
from esacl.nets.weights import begin_with_weights

__all__ = [
    "BACKBONES",
    "Backbone",
    "Given",
    "Model",
    "NetTraits",
    "Network",
    "OwnNet",
    "Partition",
    "begin_with_weights",
    "build_model",
    "check_backbone",
    "is_own",
    "is_small",
    "name_of",
    "outline",
    "own_net",
    "require_user_module",
    "resolve_backbone",
    "traits_of",
]
