"""Whether somebody waits for storage, and for how much of the time, by jobs, pressure and CPUs (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.monitor.rows import NodeRow, SeenNode

WAITING = 0.05
"""From this part of the time or of the CPUs on somebody waits for storage."""
HOLDS_UP = 0.25
"""From this part of the time on storage may be why cores get less than is required: without any wait, those
that wait for less would move a third more at most. A machine whose CPUs others use waits for 5 to 10 %."""


def jobs_wait(seen: Sequence[SeenNode]) -> bool | None:
    """Whether any job waits, where the kernel counts it exactly for each of them (see `job_waits`).

    What waits on nodes may then be nobody's of the grid, such as a backup that is held back on purpose.
    """
    metric, waits = "gridwright_job_waiting_seconds_total", []
    for node in seen:
        figures = node.figures
        for job, *_ in figures.labels("gridwright_job_processes"):
            waits.append(figures.rate(metric, job, "pressure"))
    if any((wait or 0.0) >= WAITING for wait in waits):
        return True
    return None if not waits or None in waits else False


def most_waited(seen: Sequence[SeenNode]) -> float:
    """The part of its time in which the job waits that waits most, as far as that is counted."""
    metric = "gridwright_job_waiting_seconds_total"
    rates = (node.figures.rate(metric, *labels) for node in seen for labels in node.figures.labels(metric))
    return max((min(1.0, rate) for rate in rates if rate is not None), default=0.0)


def somebody_waits(nodes: Sequence[NodeRow]) -> bool:
    """Whether anybody does on any node that answered."""
    return any(_waits(row) for row in nodes if not row.absent)


def _waits(row: NodeRow) -> bool:
    """Without pressure (psi=0, as RHEL has it), CPUs tell it: one job that waits of 64 is somebody, too."""
    iowait = row.iowait or 0.0
    if row.io_pressure is None:
        return iowait >= WAITING * max(1.0, row.busy_cores or 0.0)
    return row.io_pressure >= WAITING or iowait >= WAITING * row.cpus


def waiting_part(row: NodeRow) -> float:
    """The part of the time in which a task of a node waits for I/O; by CPUs, the most that it can be."""
    return max(row.io_pressure or 0.0, min(1.0, row.iowait or 0.0))
