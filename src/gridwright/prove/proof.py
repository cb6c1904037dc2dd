"""One proof: today iotest of every library; the verdict and the report come out of its run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import ExitStatus
from gridwright.iotest.options import IotestOptions
from gridwright.iotest.recorded import record_iotest
from gridwright.iotest.targets import library_targets
from gridwright.report.write import write_report
from gridwright.runs.directory import RunDirectory
from gridwright.runs.records import IotestRecord
from gridwright.runs.worker_process import Observer
from gridwright.spec import GridSpec


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of it."""

    run: Path
    report: Path
    iotest: IotestRecord
    status: ExitStatus


def prove(
    spec: GridSpec,
    options: IotestOptions,
    *,
    runs: Path,
    command: list[str],
    observers: Sequence[Observer],
    stop: threading.Event,
) -> Proof:
    """Run what the spec calls for, and write the report. Raises GridwrightError."""
    run = RunDirectory.create(
        runs,
        spec.name,
        command=command,
        what=["iotest"],
        spec_path=str(spec.file) if spec.file else None,
        spec_text=spec.source_text,
    )
    result, status = record_iotest(
        run, library_targets(spec), options, observers=observers, stop=stop, silenced=spec.silence
    )
    return Proof(run.path, write_report(run.path), result, status)
