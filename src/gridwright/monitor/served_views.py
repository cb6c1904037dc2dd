"""The tables of targets as servers tell of them: OSTs, MDTs, jobs, and how far recoveries are (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gridwright.monitor.frame import Frame
from gridwright.monitor.served_rows import (
    MDT_OPERATIONS,
    ServedJob,
    ServedMdt,
    ServedOst,
    by_server,
    mdts_by_server,
    waiting_words,
)
from gridwright.monitor.table_cells import figure, last_words, megabytes, part
from gridwright.report.table import Cell, Table, TableRow, columns_of, keyed_row

OSTS, MDTS, SERVED_JOBS = "OSTs", "MDTs", "Jobs, as servers count"
_OST_FIGURES = (
    *("exports", "connects/s", "read MB/s", "write MB/s", "bulk/s", "locks", "grants/s", "cancels/s"),
    *("cpu", "mem", "space"),
)
_MDT_FIGURES = (*(f"{name}/s" for name in MDT_OPERATIONS), "cpu", "mem", "space")
_JOB_FIGURES = ("read MB/s", "write MB/s", "reads/s", "writes/s", "operations/s")
_STYLES = {"D": "red", "E": "red", "r": "yellow"}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a reader has chosen to see of targets."""

    filesystem: str = ""
    """Empty for all."""
    servers: bool = False
    """One row for each server."""

    def has(self, filesystem: str) -> bool:
        """Whether a row of this file system is shown."""
        return self.filesystem in {"", filesystem}


def file_systems(frame: Frame) -> list[str]:
    """The names of file systems whose targets are known, in order."""
    return sorted({row.filesystem for row in frame.osts} | {row.filesystem for row in frame.mdts})


def served_views(frame: Frame, chosen: Chosen) -> list[Table]:
    """The tables that have rows."""
    osts = [row for row in frame.osts if chosen.has(row.filesystem)]
    mdts = [row for row in frame.mdts if chosen.has(row.filesystem)]
    if chosen.servers:
        osts, mdts = by_server(osts), mdts_by_server(mdts)
    jobs = [row for row in frame.served_jobs if chosen.has(row.filesystem)]
    stale = last_words("stale")
    found = [
        Table(OSTS, columns_of(("OST", "st", "server"), _OST_FIGURES, stale), tuple(map(_ost, osts))),
        Table(MDTS, columns_of(("MDT", "server"), _MDT_FIGURES, stale), tuple(map(_mdt, mdts))),
        Table(SERVED_JOBS, columns_of(("job", "of", "on"), _JOB_FIGURES), tuple(map(_job, jobs))),
    ]
    return [view for view in found if view.rows]


def recovery_lines(frame: Frame, chosen: Chosen | None = None) -> Iterator[str]:
    """A line for each file system whose targets wait for clients."""
    names = sorted({row.filesystem for row in frame.recovery if chosen is None or chosen.has(row.filesystem)})
    for name in names:
        parts = [
            f"{row.target} on {row.server}: {', '.join(waiting_words(row))}"
            for row in frame.recovery
            if row.filesystem == name
        ]
        yield f"recovery of {name}: {'; '.join(parts)}"


def _ost(row: ServedOst) -> TableRow:
    return keyed_row(
        f"{row.server} {row.target}",
        row.target,
        Cell(row.state or "-", style=_STYLES.get(row.state[:1], "")),
        row.server or "(clients)",
        figure(row.exports, 0),
        figure(row.connects_per_s),
        megabytes(row.read_bytes_per_s),
        megabytes(row.written_bytes_per_s),
        figure(row.bulk_per_s),
        figure(row.locks, 0),
        figure(row.grants_per_s),
        figure(row.cancels_per_s),
        part(row.cpu),
        part(row.memory),
        part(row.space),
        Cell(row.stale, style="red"),
    )


def _mdt(row: ServedMdt) -> TableRow:
    return keyed_row(
        f"{row.server} {row.target}",
        row.target,
        row.server,
        *(figure(row.operations[name]) for name in MDT_OPERATIONS),
        part(row.cpu),
        part(row.memory),
        part(row.space),
        Cell(row.stale, style="red"),
    )


def _job(row: ServedJob) -> TableRow:
    return keyed_row(
        f"{row.component} {row.filesystem} {row.job}",
        row.job,
        row.filesystem,
        f"{row.component.upper()}s",
        megabytes(row.read_bytes_per_s),
        megabytes(row.written_bytes_per_s),
        figure(row.reads_per_s),
        figure(row.writes_per_s),
        figure(row.operations_per_s),
    )
