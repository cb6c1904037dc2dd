"""What jobs have used: the records of a scheduler's accounting, the same for every scheduler."""

from __future__ import annotations

from dataclasses import dataclass

from gridwright.schedulers.job import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUsage:
    """What one job that has ended, or one element of an array, used.

    Times in seconds, moments in seconds since 1970, sizes in bytes; None is what the accounting does not
    know. A job that was restarted has the times of its last run.
    """

    id: str
    """As its scheduler writes it."""
    name: str
    state: JobState
    user: str | None = None
    account: str | None = None
    queue: str | None = None
    node: str | None = None
    cores: int = 1
    """Physical cores that it held, whether it used them or not."""
    submitted: float | None = None
    started: float | None = None
    """None where it never ran."""
    ended: float | None = None
    cpu_s: float | None = None
    """User and system time of all its processes."""
    memory_bytes: int | None = None
    """What it had asked for."""
    memory_peak_bytes: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    """What its processes read from and wrote to file systems, all libraries together."""
    eligible: float | None = None
    """When it could have started: its dependencies and its begin time were met. None: not known."""
    forgeable: bool = False
    """Whether any user can write such a record, of any other: by the name of an own job."""
    refused: bool = False
    """Whether it counts for nobody: it contradicts an earlier record of its number, or cannot be."""

    @property
    def elapsed_s(self) -> float:
        """How long it ran; 0 where it never did."""
        if self.started is None or self.ended is None:
            return 0.0
        return max(0.0, self.ended - self.started)

    @property
    def core_s(self) -> float:
        """Cores that it held, times how long."""
        return self.cores * self.elapsed_s

    @property
    def waited_s(self) -> float | None:
        """How long it waited for its start since it could have started, or since it was submitted."""
        since = self.eligible if self.eligible is not None else self.submitted
        if since is None or self.started is None:
            return None
        return max(0.0, self.started - since)
