"""Grids of runs: methods × streams × sparsities × seeds × overrides, from a recipe to a table."""
