"""Declares the events of the workload: agents and jobs tell them, the journal and the display take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from gridwright.errors import ExitStatus, Finding, Problem
from gridwright.messages import LEFT_OUT, Extensible
from gridwright.runs.iotest_events import Ended
from gridwright.runs.journal import Events
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.samples import Measured
from gridwright.runs.workload_judge import WorkloadNeeds


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStep(Extensible):
    """An event of the workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadBegun(WorkloadStep):
    """What is to be run; logs that are imported tell neither matrix, scale nor seed."""

    matrix: str | None
    scale: str | None
    seed: int | None
    streams: int
    launches: int
    """Of all repeats."""
    block_bytes: int | None = field(default=None, metadata=LEFT_OUT)
    """What a call reads or writes of a file; left out where logs are imported."""
    copies: int | None = field(default=None, metadata=LEFT_OUT)
    """Of the data; left out where logs are imported."""
    nodes: list[str] | None = field(default=None, metadata=LEFT_OUT)
    """Those of the grid; left out on one node."""
    requires: WorkloadNeeds | None = field(default=None, metadata=LEFT_OUT)
    """Left out where logs are imported."""
    allow_disturbed: bool | None = field(default=None, metadata=LEFT_OUT)
    """Whether launches that were disturbed are judged all the same; left out where they are not."""
    repeat: int | None = field(default=None, metadata=LEFT_OUT)
    """How many times it is run; left out where that is once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRepeatBegun(WorkloadStep):
    """A repeat of the workload begins: which one, from 1, of how many."""

    number: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryDevice(WorkloadStep):
    """What lies below a library."""

    library: str
    device: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataProgress(WorkloadStep):
    """How many of the missing tables are made, where this run makes them."""

    state: Literal["waiting", "making"]
    done: int | None = field(default=None, metadata=LEFT_OUT)
    of: int | None = field(default=None, metadata=LEFT_OUT)


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
    node: str | None = field(default=None, metadata=LEFT_OUT)
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
    """A launch has ended."""

    launch: LaunchRecord
    output: str | None = field(default=None, metadata=LEFT_OUT)
    """What it printed; the log takes it, and the journal does without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRefused(WorkloadStep):
    """A log that was to be imported could not be read, for this reason."""

    log: str
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSample(Measured, WorkloadStep):
    """What was done on one library within an interval that ended at the Unix time `time`."""

    op: Literal["workload"] = "workload"
    time: float
    library: str
    launches_running: int | None = None
    node: str | None = field(default=None, metadata=LEFT_OUT)
    """Left out on one node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAlive(WorkloadStep):
    """The agent has nothing to tell, and lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoreDone(WorkloadStep):
    """What came of a chore that is no part of a run; `locked` where a run uses the data."""

    exit: ExitStatus
    removed: list[str] = field(default_factory=list)
    """Directories."""
    locked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadDone(WorkloadStep):
    """The workload has ended."""

    status: Ended
    exit: ExitStatus


WorkloadEvent = WorkloadStep | Finding | Problem
WORKLOAD_EVENTS: Events[WorkloadEvent] = Events(
    {
        "workload": WorkloadBegun,
        "repeat": WorkloadRepeatBegun,
        "device": LibraryDevice,
        "data": DataProgress,
        "table": TableMade,
        "ready": DataReady,
        "unready": DataFailed,
        "running": StreamsBegun,
        "launch-started": LaunchStarted,
        "launch-lost": LaunchLost,
        "launch": LaunchEnded,
        "refused": ImportRefused,
        "sample": WorkloadSample,
        "progress": AgentAlive,
        "chore": ChoreDone,
        "finding": Finding,
        "problem": Problem,
        "done": WorkloadDone,
    }
)
