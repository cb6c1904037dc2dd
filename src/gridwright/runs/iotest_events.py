"""Declares the events of a test of libraries: a worker tells them, the journal and the display take them.

Records among them are plain data, as `gridwright.runs.records` declares them: workers do without pydantic.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from gridwright.errors import ExitStatus, Finding, Problem
from gridwright.runs.events import Events

if TYPE_CHECKING:
    from gridwright.runs.records import PhaseRecord

Ended = Literal["complete", "interrupted", "failed"]
"""How the test of a library ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IotestStep:
    """An event of iotest; `more` is what another release also says of it."""

    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesKnown(IotestStep):
    """Which nodes take part, each a `RecordedNode`."""

    nodes: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryBegun(IotestStep):
    """A library is to be tested; the fields are those of `LibraryRecord`."""

    streams: int
    device: dict[str, Any] | None = None
    library: str
    path: str
    filesystem: str | None
    requires_bytes_per_s_per_core: float | None
    cores: int
    nodes: int
    all_cores: int | None = None
    """Left out where all nodes have as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFound(IotestStep):
    """What lies below the library."""

    device: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchMade(IotestStep):
    """Where the test writes."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBegun(IotestStep):
    """A phase begins; `asked` and `used` are those of its `PhaseRecord`, the limits those of each stream."""

    limit_s: float | None = None
    limit_bytes: int | None = None
    op: str
    started: float | None
    """Unix time."""
    asked: dict[str, Any]
    used: dict[str, Any]

    @property
    def streams(self) -> int:
        """How many streams it has."""
        return int(self.used["streams"])


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseProgress(IotestStep):
    """What all streams have done since the phase began."""

    op: str
    rate_bytes_per_s: float | None = None
    """Of all nodes; left out on one, whose samples say it."""
    syncing: bool
    elapsed_s: float
    read_bytes: int
    written_bytes: int
    operations: int

    @property
    def moved_bytes(self) -> int:
        """Read and written."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTaken(IotestStep):
    """What was done within an interval that ended at the Unix time `time`; null where it was not measured."""

    op: str
    time: float | None = None
    node: str | None = None
    """Left out on one node."""
    elapsed_s: float
    interval_s: float
    read_bytes: int
    written_bytes: int
    operations: int | None = None
    cpu_percent: float | None = None
    memory_used_bytes: int | None = None
    device: str | None = None
    device_read_bytes: int | None = None
    device_written_bytes: int | None = None

    @property
    def moved_bytes(self) -> int:
        """Read and written."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseDone(IotestStep):
    """A phase has ended; `phase` is its `PhaseRecord`."""

    phase: dict[str, Any]

    def record(self) -> PhaseRecord:
        """The record of the phase. Raises ValueError if it is none."""
        from gridwright.runs.records import PhaseRecord

        return PhaseRecord.model_validate(self.phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepDone(IotestStep):
    """All phases of a sweep have ended; the fields are those of `Sweep`."""

    op: str
    points: list[dict[str, Any]]
    knee_streams: int | None
    peak_bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalBegun(IotestStep):
    """Files are being removed, and that takes a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryDone(IotestStep):
    """The test of a library has ended."""

    status: Ended
    exit: ExitStatus


IotestEvent = IotestStep | Finding | Problem
IOTEST_EVENTS: Events[IotestEvent] = Events(
    {
        "nodes": NodesKnown,
        "library": LibraryBegun,
        "device": DeviceFound,
        "scratch": ScratchMade,
        "phase": PhaseBegun,
        "progress": PhaseProgress,
        "sample": SampleTaken,
        "result": PhaseDone,
        "sweep": SweepDone,
        "removing": RemovalBegun,
        "finding": Finding,
        "problem": Problem,
        "done": LibraryDone,
    },
    absent=("all_cores", "rate_bytes_per_s", "node"),
)
