"""Figures of runs as inline SVG that follows the colours of the page."""

from esacl.report.figures.accuracy import accuracy_over_time, heat_map
from esacl.report.figures.comparison import (
    accuracy_against_cost,
    average_over_time,
    cost_comparison,
    final_accuracy,
)
from esacl.report.figures.cost import flops_bars, memory_bars, time_bar
from esacl.report.figures.drawing import Drawing, Key
from esacl.report.figures.loss import training_loss

__all__ = [
    "Drawing",
    "Key",
    "accuracy_against_cost",
    "accuracy_over_time",
    "average_over_time",
    "cost_comparison",
    "final_accuracy",
    "flops_bars",
    "heat_map",
    "memory_bars",
    "time_bar",
    "training_loss",
]
