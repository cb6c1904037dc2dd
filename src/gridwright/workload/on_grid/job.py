"""One job of a run on several nodes, over all its submissions and restarts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from gridwright.schedulers.job import Job, JobRequest, JobState
from gridwright.workload.exchange import Tail
from gridwright.workload.messages import JobStart

Result = TypeVar("Result")


@dataclass(slots=True)
class GridJob(Generic[Result]):
    """A job of the run, until its result is there or it is given up."""

    name: str
    """In the exchange directory."""
    request: JobRequest
    leaves: type[Result]
    """What kind of result it leaves."""
    quiet_s: float
    """A job that runs and for so long neither said anything nor ended hangs."""
    begun: Callable[[GridJob[Result]], None]
    """Called each time it has started on a node."""
    ended: Callable[[GridJob[Result]], None]
    """Called once."""
    lost: Callable[[GridJob[Result], str, bool], None]
    """Called each time its node, which is named, was lost and it starts again; and whether it had begun."""
    id: str | None = None
    submissions: int = 0
    submitted: float | None = None
    """Unix time of the last submission."""
    job: Job | None = None
    """As the scheduler saw it last."""
    starts: list[JobStart] = field(default_factory=list)
    on: str | None = None
    """The node on which it has begun, as far as is known."""
    result: Result | None = None
    reason: str = ""
    """Why there is no result."""
    node_lost: bool = False
    restarts: int = 0
    lost_on: list[str] = field(default_factory=list)
    lost_here: int = 0
    """How often it was lost since it was submitted last."""
    heard: float = 0.0
    asked_to_end: float | None = None
    missing_since: float | None = None
    tail: Tail | None = None
    started_tail: Tail | None = None

    @property
    def node(self) -> str | None:
        """Where it runs, or ran last."""
        if self.starts:
            return self.starts[-1].node
        return self.job.node if self.job else None

    @property
    def scheduler_name(self) -> str:
        """Its name in the scheduler; no two submissions of a run share one."""
        return self.request.name


def why_no_result(state: Job) -> str:
    """Why a job ended without a result, in the words of its scheduler."""
    said = f": {state.reason}" if state.reason else ""
    if state.state == JobState.OUT_OF_MEMORY:
        return f"its job used more memory than it may{said}"
    if state.state == JobState.TIMED_OUT:
        return f"its job was ended by the scheduler at its time limit{said}"
    if state.state == JobState.CANCELLED:
        return f"its job was cancelled{said}"
    if state.state == JobState.NODE_FAILED:
        return f"its node was lost{f' ({state.node})' if state.node else ''}{said}"
    ended = f"signal {state.signal}" if state.signal else f"exit status {state.exit_status}"
    return f"its job ended with {ended} and without a result{said}"
