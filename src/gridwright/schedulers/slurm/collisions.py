"""Finds jobs that Slurm started a second time, while they ran or after they had run.

A slurmctld that was killed after it had started a job and before it saved that has the job as waiting when it
comes back, and starts it again. On the same node, slurmd refuses that; slurmctld then drains the node
("Duplicate jobid") and cancels the job, or holds it where it may be requeued (seen with 22.05). On another,
our script finds that the run has begun, and ends. The first run goes on, or was killed with the second. That
is not what the user wanted: such a job is settled like one that was lost.
"""

from __future__ import annotations

from collections.abc import Collection

from gridwright.errors import GridwrightError
from gridwright.schedulers.slurm.cluster import read_nodes
from gridwright.schedulers.slurm.job_directories import JobDirectories
from gridwright.schedulers.slurm.job_script import REPEATED
from gridwright.schedulers.slurm.queue_row import QueueRow
from gridwright.schedulers.slurm.tools import Tools

DRAINED = "Duplicate jobid"
_HELD = "launch failed"


def may_be_refused(row: QueueRow, *, cancelled: bool) -> bool:
    """Whether a job ended, or waits again, as one that was started twice does."""
    if row.words[0] == "PENDING":
        return row.reason.startswith(_HELD)
    if row.words == ("FAILED",):
        return row.exit_status == REPEATED
    return row.words == ("CANCELLED",) and row.node is not None and not cancelled


def drained_nodes(tools: Tools) -> frozenset[str]:
    """Nodes that refused a job. Raises GridwrightError (ENVIRONMENT)."""
    nodes = read_nodes(tools).values()
    return frozenset(each.state.name for each in nodes if (each.state.reason or "").startswith(DRAINED))


def was_refused(
    directories: JobDirectories, run: str | None, row: QueueRow, drained: Collection[str] | None
) -> bool:
    """Whether it was started twice.

    `run` is the file of its last run. `drained` are the nodes that refused a job; None where it is known that
    this one was refused, although they may have been resumed.
    """
    if row.words == ("FAILED",):
        # A command may end with that status too, and then it stands in the file.
        return run is not None and directories.run_status(run) != REPEATED
    if drained is None:
        return True
    return row.node in drained if row.node is not None else bool(drained)


def resume(tools: Tools, nodes: Collection[str]) -> None:
    """Let nodes take jobs again that were drained for this alone, where this user may."""
    for node in sorted(nodes):
        try:
            tools.query(["scontrol", "update", f"NodeName={node}", "State=RESUME"])
        except GridwrightError:
            return
