"""Networks: backbones, the user's own, the model, and the one place where it is called."""

from esacl.nets.backbones import BACKBONES
from esacl.nets.model import Model, OwnNet, build_model, check_backbone, is_own, resolve_backbone
from esacl.nets.network import Network
from esacl.nets.own import Given, name_of, once_more, own_net
from esacl.nets.partition import Partition

__all__ = [
    "BACKBONES",
    "Given",
    "Model",
    "Network",
    "OwnNet",
    "Partition",
    "build_model",
    "check_backbone",
    "is_own",
    "name_of",
    "once_more",
    "own_net",
    "resolve_backbone",
]
