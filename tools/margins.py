"""Prints data/margins.csv of the model: how far it was off the papers' figures, by what bound them.

    python tools/margins.py > src/gridwright/model/data/margins.csv

`tests/unit/model/test_papers.py` holds the file to the model.
"""

from __future__ import annotations

import csv
import sys

from gridwright.cli.plan.predict import workload_matrix
from gridwright.model.papers import check_papers, measured_margins
from gridwright.model.prediction import Margin

COLUMNS = ("kind", "count", "median", "p90")


def row(margin: Margin) -> list[str]:
    """A margin as the file has it; errors to a hundredth of a percent."""
    return [margin.kind, str(margin.count), f"{margin.median:.4f}", f"{margin.p90:.4f}"]


def main() -> None:
    """Compare the model with the papers."""
    check = check_papers(matrices={name: workload_matrix(name) for name in ("mixed-30", "mixed-20")})
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    out.writerows(row(each) for each in measured_margins(check))


if __name__ == "__main__":
    main()
