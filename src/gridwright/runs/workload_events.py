"""Declares the events of the workload: agents and jobs tell them, the journal and the display take them.

Records among them are plain data, as `gridwright.runs.workload_record` declares them: nodes do without
pydantic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gridwright.errors import ExitStatus, Finding, Problem
from gridwright.runs.events import Events
from gridwright.runs.iotest_events import Ended

if TYPE_CHECKING:
    from gridwright.runs.workload_record import LaunchRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStep:
    """An event of the workload; `more` is what another release also says of it."""

    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadBegun(WorkloadStep):
    """What is to be run; logs that are imported tell neither matrix, scale nor seed."""

    matrix: str | None
    scale: str | None
    seed: int | None
    streams: int
    launches: int
    copies: int | None = None
    """Of the data; left out where logs are imported."""
    nodes: list[str] | None = None
    """Those of the grid; left out on one node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryDevice(WorkloadStep):
    """What lies below a library."""

    library: str
    device: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataProgress(WorkloadStep):
    """How many of the missing tables are made, where this run makes them."""

    state: Literal["waiting", "making"]
    done: int | None = None
    of: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMade(WorkloadStep):
    """A table of a copy of the data was made."""

    table: str
    copy: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReady(WorkloadStep):
    """The data set is whole; `made` of its `tables` were made just now, in so many seconds."""

    directory: str
    bytes: int
    tables: int
    made: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFailed(WorkloadStep):
    """The data set cannot be made ready; told to the agent alone, which tells the problems."""

    problems: list[Problem]
    exit: ExitStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsBegun(WorkloadStep):
    """The streams begin, at the Unix time `time`."""

    time: float
    streams: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStarted(WorkloadStep):
    """A launch has started, at the Unix time `time`."""

    time: float
    node: str | None = None
    """Left out on one node."""
    number: int
    label: str
    stream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchLost(WorkloadStep):
    """The node of a launch was lost, and the launch starts again; `begun` is whether it had started there."""

    time: float
    node: str
    number: int
    begun: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEnded(WorkloadStep):
    """A launch has ended; `launch` is its `LaunchRecord`."""

    launch: dict[str, Any]
    output: str | None = None
    """What it printed; the log takes it, and the journal does without."""

    def record(self) -> LaunchRecord:
        """The record of the launch. Raises ValueError if it is none."""
        from gridwright.runs.workload_record import LaunchRecord

        return LaunchRecord.model_validate(self.launch)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSample(WorkloadStep):
    """What was done on one library within an interval that ended at the Unix time `time`.

    What was not measured is null.
    """

    op: Literal["workload"] = "workload"
    time: float
    elapsed_s: float
    interval_s: float
    cpu_percent: float | None = None
    memory_used_bytes: int | None = None
    launches_running: int | None = None
    library: str
    read_bytes: int
    written_bytes: int
    device: str | None = None
    device_read_bytes: int | None = None
    device_written_bytes: int | None = None
    node: str | None = None
    """Left out on one node."""

    @property
    def moved_bytes(self) -> int:
        """Read and written."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAlive(WorkloadStep):
    """The agent has nothing to tell, and lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoreDone(WorkloadStep):
    """What came of a chore that is no part of a run; the fields are those of `ChoreResult`."""

    exit: ExitStatus
    removed: list[str]
    locked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadDone(WorkloadStep):
    """The workload has ended."""

    status: Ended
    exit: ExitStatus


WorkloadEvent = WorkloadStep | Finding | Problem
WORKLOAD_EVENTS: Events[WorkloadEvent] = Events(
    {
        "workload": WorkloadBegun,
        "device": LibraryDevice,
        "data": DataProgress,
        "table": TableMade,
        "ready": DataReady,
        "unready": DataFailed,
        "running": StreamsBegun,
        "launch-started": LaunchStarted,
        "launch-lost": LaunchLost,
        "launch": LaunchEnded,
        "sample": WorkloadSample,
        "progress": AgentAlive,
        "chore": ChoreDone,
        "finding": Finding,
        "problem": Problem,
        "done": WorkloadDone,
    },
    absent=("copies", "nodes", "done", "of", "output", "node"),
)
