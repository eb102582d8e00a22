"""A method, a stream and a backbone from outside: `anchor`, `stripes` and `tiny`."""

from dataclasses import dataclass

import numpy as np
from torch import nn

from esacl import Backbone, Method, Objective, from_arrays, option


@dataclass(frozen=True, slots=True)
class AnchorOptions:
    """Settings of the anchor; the default is a guess."""

    strength: float = option(0.1, "weight of the distance to the last task's weights", low=0)


class Anchor(Objective):
    """strength · ‖θ − θ*‖², θ* the weights at the end of the last task."""

    Options = AnchorOptions

    def __init__(self, options, context):
        super().__init__(options, context)
        self.anchor = {}

    def retain_loss(self, net, *of_the_batch):
        """Distance to the anchor, from the second task on."""
        if not self.anchor:
            return None
        return self.options.strength * sum((net.stored[name] - old).square().sum() for name, old in self.anchor.items())

    def end_task(self, net, task):
        """The anchor moves to where this task ended."""
        self.anchor = {name: net.stored[name].detach().clone() for name in net.partition.prunable}

    def state_dict(self):
        """The anchor, besides what every objective has."""
        return {**super().state_dict(), "anchor": dict(self.anchor)}

    def load_state_dict(self, state):
        """Continue from a state of before."""
        super().load_state_dict(state)
        self.anchor = {name: value.clone() for name, value in state["anchor"].items()}


ANCHOR = Method("hold the weights near those of the last task", {"objective": Anchor})


def stripes(config, seed):
    """Six classes of striped 8×8 images in three tasks: the width and the direction of the stripes tell them apart."""
    draw = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 30)
    rows, columns = np.mgrid[:8, :8]
    patterns = [np.where(axis // width % 2, 200, 50) for width in (1, 2, 3) for axis in (rows, columns)]
    noise = draw.normal(0, 20, (len(labels), 8, 8))
    images = np.clip(np.stack(patterns)[labels] + noise, 0, 255).astype(np.uint8)
    return from_arrays(images, labels, tasks=config.tasks or 3)


class Tiny(nn.Module):
    """One convolution and its mean."""

    def __init__(self, shape, width):
        super().__init__()
        self.layer = nn.Conv2d(shape[0], width, 3, padding=1)
        self.features = width

    def forward(self, x):
        """Features of a batch."""
        return self.layer(x).relu().mean((2, 3))


TINY = Backbone(Tiny, width=16, smallest=1, about="one convolution")
