"""One proof: checks of the nodes, iotest of every library, then the mixed workload; verdict and report."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gridwright.doctor.access import NodeAccess
from gridwright.doctor.check import CheckResult
from gridwright.doctor.examination import examine, faults
from gridwright.errors import ExitStatus, input_error
from gridwright.iotest.coordinator.coordinator import Fleet
from gridwright.iotest.options import IotestOptions
from gridwright.iotest.recorded import library_targets, run_iotest, run_status
from gridwright.report.page import write_report
from gridwright.runs.directory import Results, RunDirectory
from gridwright.runs.iotest_events import IotestEvent
from gridwright.runs.phase_record import Status
from gridwright.runs.records import NodeCheck
from gridwright.runs.worker_process import Observer
from gridwright.runs.workload_events import WorkloadEvent
from gridwright.spec import GridSpec
from gridwright.spec.hosts import fold_hosts
from gridwright.units import format_duration, format_rate
from gridwright.workload.options import LIBRARIES, WorkloadOptions, library_directories, needs_of
from gridwright.workload.session import OnGrid, run_workload


@dataclass(frozen=True, slots=True)
class Parts:
    """What a proof consists of; None, or false, for a part that is left out."""

    doctor: bool
    iotest: IotestOptions | None
    workload: WorkloadOptions | None


@dataclass(frozen=True, slots=True)
class Displays:
    """Who else sees the events of each part."""

    doctor: Sequence[Observer[NodeCheck]]
    iotest: Sequence[Observer[IotestEvent]]
    workload: Sequence[Observer[WorkloadEvent]]


@dataclass(frozen=True, slots=True)
class RunPlaces:
    """Where each part runs; None, as a whole or for a part, is this machine."""

    doctor: NodeAccess | None = None
    iotest: Fleet | None = None
    workload: OnGrid | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of it."""

    run: Path
    report: Path
    results: Results
    ended: Status
    status: ExitStatus
    grade: str | None
    not_shown: str | None


def prove(
    spec: GridSpec,
    parts: Parts,
    *,
    runs: Path,
    command: list[str],
    displays: Displays,
    stop: threading.Event,
    places: RunPlaces = RunPlaces(),
) -> Proof:
    """Run what is asked for, and write the report. Raises GridwrightError.

    The workload runs also where iotest found a library too slow, but not where one failed.
    """
    libraries = _workload_libraries(spec, parts.workload)
    run = RunDirectory.of_spec(
        runs,
        spec,
        command=command,
        what=[name for name in ("doctor", "iotest", "workload") if getattr(parts, name)],
        unmeasured=list(_unmeasured(spec, parts)),
    )
    if parts.doctor:
        _examine(spec, run, displays.doctor, places.doctor)
    ended = {}
    if parts.iotest is not None:
        ended["iotest"] = run_iotest(
            run,
            library_targets(spec),
            parts.iotest,
            observers=displays.iotest,
            stop=stop,
            silenced=spec.silence,
            fleet=places.iotest,
        )
    if parts.workload is not None and max(ended.values(), default=ExitStatus.DONE) == ExitStatus.DONE:
        ended["workload"] = run_workload(
            run,
            parts.workload,
            libraries,
            observers=displays.workload,
            stop=stop,
            silenced=spec.silence,
            grid=places.workload,
            needs=needs_of(spec),
        )
    worst = max(ended.values(), default=ExitStatus.DONE)
    results = run.finish(run_status(worst))
    record = run.record
    report = write_report(run.path)
    status = run.exit_status(worst)
    return Proof(run.path, report, results, record.status, status, record.grade, record.not_shown)


def _unmeasured(spec: GridSpec, parts: Parts) -> Iterator[str]:
    """The requirements of a spec that parts leave out, in words."""
    needs = needs_of(spec)
    if parts.iotest is None:
        for library, bytes_per_s in needs.libraries.items():
            yield f"{format_rate(bytes_per_s, per_core=True)} of library {library}"
    if parts.workload is None:
        if needs.ratio is not None:
            yield f"a CPU/real ratio of {needs.ratio:g} of the workload"
        for test, ratio in needs.tests.items():
            yield f"a CPU/real ratio of {ratio:g} of test {test}"
        if needs.real_s is not None:
            yield f"a real time of {format_duration(needs.real_s)} of the workload"


def _examine(
    spec: GridSpec, run: RunDirectory, displays: Sequence[Observer[NodeCheck]], access: NodeAccess | None
) -> None:
    for fault in faults(examine(spec, access), spec.silence):
        event = check_event(fault)
        for observer in (run, *displays):
            observer.take(event)


def _workload_libraries(spec: GridSpec, workload: WorkloadOptions | None) -> Mapping[str, Path]:
    """The directories the workload needs, checked before anything is measured. Raises GridwrightError."""
    if workload is None:
        return {}
    if any(name not in spec.libraries for name in LIBRARIES):
        raise input_error(
            f"the workload needs the libraries {', '.join(LIBRARIES)}, and the grid has "
            f"{', '.join(spec.libraries)}",
            where=str(spec.file) if spec.file else None,
            remedy="add what is missing, or leave the workload out with --skip workload",
        )
    return library_directories(spec)


def check_event(result: CheckResult) -> NodeCheck:
    """The event of a check that failed; its text names the nodes folded, as `compute[1-16]`."""
    where = f"{fold_hosts(result.nodes)}: " if result.nodes else ""
    return NodeCheck(
        level=result.level,
        name=result.name,
        text=f"{where}{result.found}; expected: {result.expected}. {result.reason}",
        remedy=result.remedy,
        nodes=list(result.nodes),
        found=result.found,
        expected=result.expected,
        why=result.reason,
    )
