"""Efficient continual learning: one small network that learns task after task, cheaply, without forgetting."""

__version__ = "0.1.0"
