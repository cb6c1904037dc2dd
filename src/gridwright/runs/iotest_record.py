"""Makes the record of iotest from its events: the same way for a run that ended and one that was killed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import Finding, Problem
from gridwright.runs.events import recorded_finding
from gridwright.runs.iotest_events import (
    IOTEST_EVENTS,
    DeviceFound,
    IotestEvent,
    LibraryBegun,
    LibraryDone,
    NodesKnown,
    PhaseBegun,
    PhaseDone,
    SampleTaken,
    SweepDone,
)
from gridwright.runs.judge import judge_library, judge_run
from gridwright.runs.records import (
    FindingRecord,
    IotestRecord,
    LibraryRecord,
    PhaseRecord,
    RecordedNode,
    Status,
    Sweep,
)
from gridwright.runs.samples import SAMPLE_COLUMNS


@dataclass(slots=True)
class IotestReducer:
    """Takes events one by one; `record` is what they amount to so far."""

    libraries: list[LibraryRecord] = field(default_factory=list)
    findings: list[FindingRecord] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[RecordedNode] = field(default_factory=list)
    _open: PhaseBegun | None = None
    _moved: list[dict[str, Any]] = field(default_factory=list)

    def take(self, event: IotestEvent) -> None:
        """Account for one event."""
        match event:
            case LibraryBegun():
                self._close_open("interrupted")
                self.libraries.append(LibraryRecord(**IOTEST_EVENTS.values(event), met=None))
            case NodesKnown():
                self.nodes = [RecordedNode.model_validate(node) for node in event.nodes]
            case Finding() | Problem():
                self.findings.append(recorded_finding(event, failure="library-failed"))
            case PhaseBegun():
                self._open, self._moved = event, []
            case SampleTaken():
                self._sample(event)
            case LibraryDone():
                self._close_open(event.status)
            case DeviceFound() if self.libraries:
                self.libraries[-1].device = event.device
            case PhaseDone() if self.libraries:
                self._open = None
                self.libraries[-1].phases.append(event.record())
            case SweepDone() if self.libraries:
                self.libraries[-1].sweeps.append(Sweep.model_validate(IOTEST_EVENTS.values(event)))

    def record(self, run: str, status: Status) -> IotestRecord:
        """Judge what was measured. `status` is that of the run."""
        if status != "running":
            self._close_open("interrupted")
        for library in self.libraries:
            library.met = judge_library(library)
        return IotestRecord(
            run=run,
            status=status,
            libraries=self.libraries,
            findings=self.findings,
            met=judge_run(self.libraries),
            nodes=self.nodes,
        )

    def _sample(self, event: SampleTaken) -> None:
        library = self.libraries[-1].library if self.libraries else None
        row = {key: getattr(event, key, None) for key in SAMPLE_COLUMNS} | {"library": library}
        self.samples.append(row)
        self._moved.append(row)

    def _close_open(self, status: Status) -> None:
        """Keep what the samples say of a phase that never came to its result."""
        event, self._open = self._open, None
        if event is None or not self.libraries:
            return
        read = sum(row["read_bytes"] for row in self._moved)
        written = sum(row["written_bytes"] for row in self._moved)
        seconds = max((row["elapsed_s"] for row in self._moved), default=None)
        self.libraries[-1].phases.append(
            PhaseRecord(
                op=event.op,
                status="interrupted" if status == "complete" else status,
                started=event.started,
                asked=event.asked,
                used=event.used,
                bytes=read + written if self._moved else None,
                read_bytes=read if self._moved else None,
                written_bytes=written if self._moved else None,
                seconds_last=seconds,
                # Without its closing fsync a write has no rate; see gridwright.iotest.figures.
                rate_last_bytes_per_s=read / seconds if seconds and read and not written else None,
            )
        )
