"""Data selection: which examples a step or an epoch learns from."""
