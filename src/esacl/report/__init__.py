"""Reports of runs: a summary for the terminal, and one self-contained HTML page."""

from esacl.report.html import write_report
from esacl.report.load import load_run
from esacl.report.tables import summary_table

__all__ = ["load_run", "summary_table", "write_report"]
