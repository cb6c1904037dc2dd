"""The report: one self-contained HTML file out of a run, verdict first."""
