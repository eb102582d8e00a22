"""Reports of runs: tables for people and programs, and one self-contained HTML page."""

from esacl.report.formats import summary_table
from esacl.report.load import load_run
from esacl.report.page import write_report

__all__ = ["load_run", "summary_table", "write_report"]
