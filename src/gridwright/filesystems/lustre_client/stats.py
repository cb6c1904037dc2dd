"""Lustre's statistics as `lctl get_param *.stats` and `*.job_stats` print them.

Rows are `name N samples [unit] min max sum sumsq`, `name N samples [unit] min max sum` of older releases, or
`name N samples [reqs]`; what never happened has no row. Figures read without root are refused: the last digit
of each line is cut off then, which shows in elapsed_time and in units that do not end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from gridwright.errors import environment_error

_MOST_DIGITS = 20
_TIME = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
_ROW = re.compile(
    r"^(?P<name>[A-Za-z_]\w*)\s+(?P<samples>\d{1,20})\s+samples\s+\[(?P<unit>[\w./]+)(?P<closed>\]?)"
    r"(?:\s+(?P<min>\d{1,20})\s+(?P<max>\d{1,20})\s+(?P<sum>\d{1,20}))?"
)
_JOB_ROW = re.compile(
    r"^\s+(?P<name>[A-Za-z_]\w*):\s+\{\s*samples:\s*(?P<samples>\d{1,20}),\s*unit:\s*(?P<unit>\w+)"
    r"(?:,\s*min:\s*(?P<min>\d{1,20}),\s*max:\s*(?P<max>\d{1,20}),\s*sum:\s*(?P<sum>\d{1,20}))?"
)
_CLOCKS_DIFFER_S = 2.0
"""elapsed_time is snapshot_time less start_time; more than rounding apart is no reading of root's."""


class Row(NamedTuple):
    """One operation: how often, and of what it was (bytes, usecs) the sum; None where it has only a count."""

    samples: int
    unit: str
    minimum: int | None = None
    maximum: int | None = None
    sum: int | None = None


class Stats(NamedTuple):
    """The statistics of one device, or of one job on it, at one moment."""

    snapshot_s: float | None
    """Seconds since 1970 on that node; None where its header is switched off."""
    start_s: float | None
    """Since when it counts."""
    rows: Mapping[str, Row] = MappingProxyType({})

    def total(self, operation: str) -> int:
        """The sum of an operation, such as read_bytes; 0 where it never happened."""
        row = self.rows.get(operation)
        return row.sum or 0 if row else 0

    def samples(self, operation: str) -> int:
        """How often an operation happened."""
        row = self.rows.get(operation)
        return row.samples if row else 0


def parse_stats(text: str) -> Stats:
    """The value of a `stats` or `md_stats` parameter.

    Raises GridwrightError (status ENVIRONMENT) where it was read without root, and figures are cut.
    """
    rows: dict[str, Row] = {}
    for line in text.splitlines():
        found = _ROW.match(line)
        if found is None:
            continue
        if not found["closed"]:
            raise cut_figures()
        rows[found["name"]] = _row(found)
    return _stats(text, rows)


def parse_job_stats(text: str) -> dict[str, Stats]:
    """The value of a `job_stats` parameter, by job; none where no job has been seen.

    Write-back that no job waits for counts as one of a kernel thread, such as `kworker.0`.
    """
    jobs: dict[str, Stats] = {}
    for name, block in _jobs(text):
        rows = {
            found["name"]: _row(found)
            for line in block.splitlines()
            if (found := _JOB_ROW.match(line)) and found["samples"].strip("0")
        }
        jobs[name] = _stats(block, rows)
    return jobs


def cut_figures() -> Exception:
    """The error for figures that were read without root."""
    return environment_error(
        "statistics of Lustre were read without root: their last digits are cut off",
        remedy="run it as root (sudo)",
    )


def _jobs(text: str) -> Iterator[tuple[str, str]]:
    name, lines = "", list[str]()
    for line in text.splitlines():
        if found := re.match(r"^\s*-\s+job_id:\s+(.*?)\s*$", line):
            if name:
                yield name, "\n".join(lines)
            name, lines = found[1].strip("\"'"), []
        elif name:
            lines.append(line)
    if name:
        yield name, "\n".join(lines)


def _stats(text: str, rows: Mapping[str, Row]) -> Stats:
    snapshot, start, elapsed = (_time(text, name) for name in ("snapshot_time", "start_time", "elapsed_time"))
    known = snapshot is not None and start is not None and elapsed is not None
    if known and abs((snapshot or 0) - (start or 0) - (elapsed or 0)) > _CLOCKS_DIFFER_S:
        raise cut_figures()
    return Stats(snapshot, start, rows)


def _time(text: str, name: str) -> float | None:
    found = re.search(rf"^\s*{name}:?\s+{_TIME}", text, re.MULTILINE)
    return float(found[1]) if found else None


def _row(found: re.Match[str]) -> Row:
    least, most, total = (int(found[part]) if found[part] else None for part in ("min", "max", "sum"))
    return Row(int(found["samples"]), found["unit"], least, most, total)
