"""Plots of runs and of rows: in the page as inline SVG that follows its colours, in files for papers."""
