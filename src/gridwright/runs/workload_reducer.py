"""Makes the record of the workload from its events, for a run that ended and for one that was killed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gridwright.errors import Finding, Problem
from gridwright.runs.events import recorded_finding
from gridwright.runs.records import FindingRecord, Status
from gridwright.runs.samples import SAMPLE_COLUMNS
from gridwright.runs.workload_diagnosis import causes, sentence
from gridwright.runs.workload_events import (
    WORKLOAD_EVENTS,
    DataReady,
    LaunchEnded,
    LibraryDevice,
    WorkloadBegun,
    WorkloadEvent,
    WorkloadSample,
)
from gridwright.runs.workload_nodes import between_launches, queued, summarize_nodes
from gridwright.runs.workload_record import (
    LaunchRecord,
    TestSummary,
    WorkloadRecord,
    WorkloadSummary,
)


@dataclass(slots=True)
class WorkloadReducer:
    """Takes events one by one; `record` is what they amount to so far."""

    header: WorkloadBegun | None = None
    data: dict[str, object] | None = None
    launches: list[LaunchRecord] = field(default_factory=list)
    findings: list[FindingRecord] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    devices: dict[str, object] = field(default_factory=dict)

    @property
    def begun(self) -> bool:
        """Whether the run has a workload."""
        return self.header is not None

    def take(self, event: WorkloadEvent) -> None:
        """Account for one event; the first is that it begins."""
        match event:
            case WorkloadBegun():
                self.header = event
            case DataReady():
                self.data = WORKLOAD_EVENTS.values(event)
            case LibraryDevice():
                self.devices[event.library] = event.device
            case LaunchEnded():
                self.launches.append(event.record())
            case WorkloadSample():
                self.samples.append({key: getattr(event, key, None) for key in SAMPLE_COLUMNS})
            case Finding() | Problem():
                self.findings.append(recorded_finding(event, failure="workload-failed"))

    def record(self, run: str, status: Status) -> WorkloadRecord:
        """Sum up what was measured. `status` is that of the run."""
        header = self.header or WorkloadBegun(matrix=None, scale=None, seed=None, streams=0, launches=0)
        launches = sorted(self.launches, key=lambda each: each.number)
        ended = status not in ("running", "interrupted", "failed")
        return WorkloadRecord(
            run=run,
            status=status,
            matrix=header.matrix,
            scale=header.scale,
            seed=header.seed,
            streams=header.streams,
            data=self.data,
            devices=self.devices,
            tests=summarize_tests(launches),
            launches=launches,
            nodes=summarize_nodes(launches, self.samples),
            summary=summarize(launches, header.streams, self.samples),
            findings=self.findings,
            met=all(each.ok for each in launches) if ended and launches else None,
        )


def summarize_tests(launches: Sequence[LaunchRecord]) -> list[TestSummary]:
    """One row per test, in the order of their first launch."""
    groups: dict[str, list[LaunchRecord]] = {}
    for launch in launches:
        groups.setdefault(launch.test, []).append(launch)
    return [_test(name, group) for name, group in groups.items()]


def _test(name: str, group: Sequence[LaunchRecord]) -> TestSummary:
    whole = [each for each in group if each.ok]
    shares = causes(whole)
    return TestSummary(
        test=name,
        class_=group[0].class_,
        launches=len(group),
        failed=sum(not each.ok for each in group),
        real_s_mean=_mean(each.real_s for each in whole),
        user_s_mean=_mean(each.user_s for each in whole),
        system_s_mean=_mean(each.system_s for each in whole),
        peak_memory_bytes_mean=_mean(each.peak_memory_bytes for each in whole),
        ratio_mean=_mean(each.cpu_real_ratio for each in whole),
        bound_by=max(shares, key=lambda cause: shares[cause]) if shares else None,
    )


def summarize(
    launches: Sequence[LaunchRecord], streams: int, samples: Sequence[dict[str, Any]] = ()
) -> WorkloadSummary:
    """All launches together; times and ratios of those that ran to their end."""
    whole = [each for each in launches if each.ok]
    ratios = [each.cpu_real_ratio for each in whole if each.cpu_real_ratio is not None]
    real, user, system = (
        _sum(getattr(each, key) for each in whole) for key in ("real_s", "user_s", "system_s")
    )
    shares = causes(whole)
    cause = max(shares, key=lambda each: shares[each]) if shares else None
    wall, concurrency, until_tail = _concurrency(launches)
    return WorkloadSummary(
        launches=len(launches),
        failed=sum(not each.ok for each in launches),
        real_s=real,
        user_s=user,
        system_s=system,
        peak_memory_bytes=_whole(_sum(each.peak_memory_bytes for each in whole)),
        ratio_mean=_mean(ratios),
        ratio_stdev=statistics.stdev(ratios) if len(ratios) > 1 else None,
        ratio_min=min(ratios, default=None),
        ratio_max=max(ratios, default=None),
        ratio_of_sums=((user or 0.0) + (system or 0.0)) / real if real and user is not None else None,
        mean_concurrency=concurrency,
        mean_concurrency_until_tail=until_tail,
        streams=streams,
        wall_s=wall,
        read_bytes=_whole(_sum(each.read_bytes for each in whole)),
        written_bytes=_whole(_sum(each.written_bytes for each in whole)),
        bound_by=cause,
        bound_share=shares[cause] if cause else None,
        shares={name: round(share, 4) for name, share in shares.items()},
        harness_s_mean=_mean(between_launches(launches)),
        queued_s_mean=_mean(queued(launches)),
        diagnosis=sentence(whole, shares, samples),
    )


def _concurrency(launches: Sequence[LaunchRecord]) -> tuple[float | None, float | None, float | None]:
    """Wall time, and launches running at once on average: in all, and until a stream first ran out.

    The streams of a node begin together; the tail begins when the first of any node's ends. Those of a
    grid, whose launches are jobs, are spread over its nodes.
    """
    timed = [each for each in launches if each.started is not None and each.ended is not None]
    if not timed:
        return None, None, None
    begin = min(each.started or 0.0 for each in timed)
    end = max(each.ended or 0.0 for each in timed)
    last: dict[tuple[str, int], float] = {}
    for each in timed:
        key = (each.node if each.job is None else "", each.stream)
        last[key] = max(last.get(key, 0.0), each.ended or 0.0)
    tail = min(last.values())
    return end - begin, _running(timed, begin, end), _running(timed, begin, tail)


def _running(timed: Sequence[LaunchRecord], begin: float, end: float) -> float | None:
    if end <= begin:
        return None
    inside = sum(max(0.0, min(each.ended or 0.0, end) - max(each.started or 0.0, begin)) for each in timed)
    return inside / (end - begin)


def _values(figures: Any) -> list[float]:  # noqa: ANN401 - any iterable of figures
    return [figure for figure in figures if figure is not None]


def _mean(figures: Any) -> float | None:  # noqa: ANN401
    found = _values(figures)
    return statistics.fmean(found) if found else None


def _sum(figures: Any) -> float | None:  # noqa: ANN401
    found = _values(figures)
    return sum(found) if found else None


def _whole(figure: float | None) -> int | None:
    return int(figure) if figure is not None else None
