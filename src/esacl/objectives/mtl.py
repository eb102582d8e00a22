"""Multi-task learning, the upper bound: all tasks at once."""

from esacl.objectives.base import Objective


class Mtl(Objective):
    """Cross-entropy on the union of all tasks, trained as one stage for as many epochs as a task has elsewhere."""

    joint = True
