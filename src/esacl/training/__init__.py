"""Training: one step, one loop, evaluation, checkpoints."""
