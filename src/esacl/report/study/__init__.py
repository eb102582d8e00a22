"""The page of a grid: what it compares, plotted against what it cost, and the same plots as files."""

from esacl.report.study.page import Study, write_page
from esacl.report.study.plots import save_figures

__all__ = ["Study", "save_figures", "write_page"]
