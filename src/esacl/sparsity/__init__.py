"""Sparsity: which weights a task may use, and what happens to them when it ends."""
