"""Declares the events of a test of libraries: a worker tells them, the journal and the display take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from gridwright.errors import ExitStatus, Finding, Problem
from gridwright.messages import LEFT_OUT, Extensible
from gridwright.runs.journal import Events
from gridwright.runs.phase_record import (
    ActualLayout,
    LibraryUnderTest,
    Op,
    PhaseRecord,
    RecordedNode,
    RequestedLayout,
    RequestedSettings,
    Sweep,
    Used,
)
from gridwright.runs.samples import Measured

Ended = Literal["complete", "interrupted", "failed"]
"""How the test of a library ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IotestStep(Extensible):
    """An event of iotest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesKnown(IotestStep):
    """Which nodes take part."""

    nodes: list[RecordedNode]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesAwaited(IotestStep):
    """Nodes that have not come yet, and what is known of why; told every few seconds."""

    waiting: dict[str, str]

    @property
    def text(self) -> str:
        """The first of them in words."""
        shown = [f"{name} ({why})" if why else name for name, why in islice(self.waiting.items(), 3)]
        more = len(self.waiting) - len(shown)
        return f"waiting for {', '.join(shown)}{f' and {more} others' if more else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatBegun(IotestStep):
    """A repeat of the test of all libraries begins: which one, from 1, of how many."""

    number: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryBegun(LibraryUnderTest, IotestStep):
    """A library is to be tested."""

    layout: RequestedLayout | None = field(default=None, metadata=LEFT_OUT)
    """Where two layouts are compared: which one this test has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceDetected(IotestStep):
    """The device below the library was detected."""

    device: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScratchMade(IotestStep):
    """Where the test writes."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutSeen(IotestStep):
    """The layout of a file that the test has made."""

    layout: ActualLayout


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBegun(IotestStep):
    """A phase begins; the limits are those of each stream."""

    limit_s: float | None = None
    limit_bytes: int | None = None
    op: Op
    started: float | None
    """Unix time."""
    asked: RequestedSettings
    used: Used


@dataclass(frozen=True, slots=True)
class Progress(Extensible):
    """What streams have done since the phase began."""

    syncing: bool
    elapsed_s: float
    read_bytes: int
    written_bytes: int
    operations: int
    unflushed_bytes: int | None = field(default=None, metadata=LEFT_OUT)
    """Of a node that writes: what is in its memory yet, and the closing fsync waits for."""
    flush_s: float | None = field(default=None, metadata=LEFT_OUT)
    """How long that takes, by the rate of the last seconds."""

    @property
    def moved_bytes(self) -> int:
        """Read and written."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseProgress(Progress, IotestStep):
    """What all streams have done since the phase began."""

    op: str
    rate_bytes_per_s: float | None = field(default=None, metadata=LEFT_OUT)
    """Of all nodes; left out on one, whose samples say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTaken(Measured, IotestStep):
    """What was done within an interval that ended at the Unix time `time`."""

    op: str
    time: float | None = None
    node: str | None = field(default=None, metadata=LEFT_OUT)
    """Left out on one node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseDone(IotestStep):
    """A phase has ended."""

    phase: PhaseRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalBegun(IotestStep):
    """Files are being removed, and that takes a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryDone(IotestStep):
    """The test of a library has ended."""

    status: Ended
    exit: ExitStatus


IotestEvent = IotestStep | Sweep | Finding | Problem
IOTEST_EVENTS: Events[IotestEvent] = Events(
    {
        "nodes": NodesKnown,
        "awaited": NodesAwaited,
        "repeat": RepeatBegun,
        "library": LibraryBegun,
        "device": DeviceDetected,
        "scratch": ScratchMade,
        "layout": LayoutSeen,
        "phase": PhaseBegun,
        "progress": PhaseProgress,
        "sample": SampleTaken,
        "result": PhaseDone,
        "sweep": Sweep,
        "removing": RemovalBegun,
        "finding": Finding,
        "problem": Problem,
        "done": LibraryDone,
    }
)
