"""The report: one self-contained HTML file out of a run, verdict first."""

from gridwright.report.page import ReportInput, render_report

__all__ = ["ReportInput", "render_report"]
