"""Makes the table of checks in docs/doctor.md, and the names for `silence` in a spec, from the checks.

Run `python -m gridwright.doctor.reference docs/doctor.md` to bring the page up to date, and
`python -m gridwright.doctor.reference src/gridwright/spec/data/findings.csv` for the names.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from gridwright.doctor.check import Check
from gridwright.doctor.checks import all_checks
from gridwright.doctor.examination import TUNING_DRIFT
from gridwright.setup.tuning import not_set
from gridwright.spec.reference import with_parts

ROOM = "nodes"
_DRIFT = "settings of nodes differ from the tuning table (a proof has one line for all of them)"


def checks_text() -> str:
    """All checks, a section a topic: what is wrong, why that matters with its source, how to mend it."""
    parts = []
    for topic in dict.fromkeys(check.topic for check in all_checks()):
        members = [check for check in all_checks() if check.topic == topic]
        parts.append(f"### {topic}\n")
        parts += [_described(check) for check in members]
    return "\n".join(parts).rstrip()


def _described(check: Check) -> str:
    watched = "Cheap: [watched each minute](watch.md#rounds).\n" if check.is_cheap else ""
    return (
        f"#### {check.name}\n\n**{check.level}:** {check.fault}.\n"
        f"{check.reason} Source: {check.source}.\n"
        f"To mend it: {check.remedy}.\n{watched}"
    )


def not_set_text() -> str:
    """What the papers set and nodes do not get."""
    rows = ["| setting of the papers | value | source | why not |", "|---|---|---|---|"]
    rows += [f"| {each.name} | {each.paper} | {each.source} | {each.reason} |" for each in not_set()]
    return "\n".join(rows)


def refreshed(text: str) -> str:
    """The page with its generated parts made anew. Raises ValueError when a part has no markers."""
    return with_parts(text, {"checks": checks_text(), "not-set": not_set_text()})


def findings(text: str) -> str:
    """The names of all findings, those of checks made anew; other rooms' stay as they are, in their order."""
    rows = list(csv.reader(text.splitlines()))
    others = [row for row in rows if row[1] != ROOM]
    declared = [(check.name, ROOM, check.fault) for check in all_checks()]
    return _written([*others, *declared, (TUNING_DRIFT, ROOM, _DRIFT)])


def _written(rows: Sequence[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _main() -> None:
    path = Path(sys.argv[1])
    make = findings if path.suffix == ".csv" else refreshed
    path.write_text(make(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    _main()
