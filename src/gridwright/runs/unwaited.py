"""Says which launches used CPU time that was counted in part only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gridwright.runs.launch_record import LaunchRecord
    from gridwright.runs.records import FindingRecord

_REMEDY = (
    "have the program wait for its children, give its user a control group (Delegate=yes of systemd), or set "
    "kernel.perf_event_paranoid to 2 on the nodes"
)


def of_unwaited(launches: Sequence[LaunchRecord]) -> FindingRecord | None:
    """The finding of launches with processes that nobody waited for, where only looks saw these."""
    # Nodes do without pydantic.
    from gridwright.runs.records import FindingRecord

    found = [each for each in launches if each.unwaited_counted == "looks"]
    if not found:
        return None
    names = ", ".join(dict.fromkeys(each.test for each in found))
    text = (
        f"{len(found)} of {len(launches)} launches ({names}) started processes that nobody waited for "
        f"(SIGCHLD ignored): of their CPU time {sum(each.unwaited_cpu_s for each in found):.2f} s were seen "
        "and counted, what used less than 0.1 s may be missing, and the CPU/real ratio is at least what is "
        "shown"
    )
    return FindingRecord(level="warning", name="workload-unwaited", text=text, remedy=_REMEDY)
