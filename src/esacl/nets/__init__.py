"""Networks: backbones, the model, and the one place where it is called."""

from esacl.nets.backbones import BACKBONES
from esacl.nets.model import Model, build_model, check_backbone, resolve_backbone
from esacl.nets.network import Network
from esacl.nets.partition import Partition

__all__ = ["BACKBONES", "Model", "Network", "Partition", "build_model", "check_backbone", "resolve_backbone"]
