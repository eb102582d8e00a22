"""Fine-tuning, the lower bound: cross-entropy on whatever arrives, nothing remembered."""

from esacl.objectives.base import Objective


class Finetune(Objective):
    """Cross-entropy on the current task."""
