"""The loss around a trained network: how flat it is, and what pruning does there."""

from esacl.landscape.measure import Landscape, landscape
from esacl.landscape.picture import draw, labels

__all__ = ["Landscape", "draw", "labels", "landscape"]
