"""The names of all findings that a spec can silence, of every room, and silencing itself."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from importlib import resources

from gridwright.errors import Finding


def _read() -> list[dict[str, str]]:
    text = resources.files("gridwright.spec").joinpath("data/findings.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


_ROWS = _read()
OF_NODES = frozenset(row["name"] for row in _ROWS if row["room"] == "nodes")
"""Those that the doctor's checks have."""
KNOWN: Mapping[str, str] = {row["name"]: row["meaning"] for row in _ROWS}
"""Finding name to meaning. A file, no registry, since the rooms that make findings import this one."""


def known_findings() -> dict[str, str]:
    """Finding name to meaning, with those that kinds of a site's own packages bring."""
    from gridwright.spec.filesystem import FILESYSTEMS

    found = dict(KNOWN)
    for _, kind in FILESYSTEMS.kinds():
        found |= kind.finding_names
    return found


def unsilenced(findings: Iterable[Finding], silence: Mapping[str, str]) -> list[Finding]:
    """The findings to report. An error cannot be silenced: it stops what the user asked for."""
    return [finding for finding in findings if finding.level == "error" or finding.name not in silence]
