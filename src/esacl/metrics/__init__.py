"""Figures: accuracy, cost, capacity, memory."""
