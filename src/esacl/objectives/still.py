"""Nothing is minimised: the network stays as it was given, and a readout learns."""

from esacl.objectives.base import Objective


class Still(Objective):
    """No training: one look at the images of a task, for the readout."""

    trains = False
    trains_head = False
