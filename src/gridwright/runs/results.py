"""What the parts of a run measured, and what they say together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from gridwright.runs.grade import Graded, grade_of
from gridwright.runs.iotest_record import IotestReducer
from gridwright.runs.phase_record import Status
from gridwright.runs.readable import readable
from gridwright.runs.records import FindingRecord, IotestRecord, NodeCheck
from gridwright.runs.stream_sweep.file import SWEEP_FILE
from gridwright.runs.verdict import VerdictKind, make_verdict, met_of
from gridwright.runs.workload_record import WorkloadRecord
from gridwright.runs.workload_reducer import WorkloadReducer


@dataclass(frozen=True, slots=True)
class Results:
    """What a run measured; None where it holds no such part."""

    iotest: IotestRecord | None
    workload: WorkloadRecord | None
    checks: list[NodeCheck] = field(default_factory=list)
    status: Status = "complete"

    @property
    def verdict(self) -> VerdictKind:
        """The verdict on the run."""
        return make_verdict(self.status, self.iotest, self.workload, self.checks)

    @property
    def met(self) -> bool | None:
        """Whether all that is required is met; None where nothing is, or it is open."""
        return met_of(self.verdict)

    def graded(self, memory_bytes: int) -> Graded | None:
        """How much it shows; None for a run that did not end. `memory_bytes` is that of this machine."""
        return grade_of(self.iotest, self.workload, memory_bytes) if self.status == "complete" else None

    @property
    def findings(self) -> list[FindingRecord]:
        """Those of all parts."""
        parts = [part for part in (self.iotest, self.workload) if part is not None]
        return [*self.checks, *(finding for part in parts for finding in part.findings)]


def results_of(
    path: Path, status: Status, iotest: IotestReducer, workload: WorkloadReducer, checks: list[NodeCheck]
) -> Results:
    """What the parts of a run at `path` have measured so far."""
    others = workload.begun or (path / SWEEP_FILE).exists()
    measured = iotest.libraries or iotest.findings or not others
    return Results(
        iotest.record(readable(str(path)), status) if measured else None,
        workload.record(readable(str(path)), status) if workload.begun else None,
        checks,
        status,
    )
