"""Makes the record of the workload from its events, for a run that ended and for one that was killed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gridwright.errors import Finding, Problem
from gridwright.messages import plain, shared_fields
from gridwright.runs.disturbed import finding, of_launches
from gridwright.runs.events import recorded_finding
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.page_cache import cached_finding, cached_reads, with_cached_reads
from gridwright.runs.phase_record import Status
from gridwright.runs.records import FindingRecord
from gridwright.runs.samples import SampleRow
from gridwright.runs.unwaited import of_unwaited
from gridwright.runs.workload_diagnosis import causes, sentence
from gridwright.runs.workload_events import (
    DataReady,
    ImportRefused,
    LaunchEnded,
    LibraryDevice,
    WorkloadBegun,
    WorkloadEvent,
    WorkloadRepeatBegun,
    WorkloadSample,
)
from gridwright.runs.workload_judge import JudgedRequirement, WorkloadNeeds, judge_workload, met_by
from gridwright.runs.workload_nodes import between_launches, queued, summarize_nodes
from gridwright.runs.workload_record import TestSummary, WorkloadRecord, WorkloadSummary
from gridwright.runs.workload_repeats import (
    Repeat,
    counting_repeats,
    judge_repeats,
    repeated_workload,
    repeats_of,
)


@dataclass(slots=True)
class WorkloadReducer:
    """Takes events one by one; `record` is what they amount to so far."""

    header: WorkloadBegun | None = None
    data: dict[str, object] | None = None
    launches: list[LaunchRecord] = field(default_factory=list)
    findings: list[FindingRecord] = field(default_factory=list)
    samples: list[SampleRow] = field(default_factory=list)
    devices: dict[str, object] = field(default_factory=dict)
    refused: list[ImportRefused] = field(default_factory=list)
    repeat: int | None = None
    """The repeat that is running, from 1."""

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
                # The first repeat made what was missing.
                self.data = self.data or plain(event)
            case WorkloadRepeatBegun():
                self.repeat = event.number
            case LibraryDevice():
                self.devices[event.library] = event.device
            case LaunchEnded():
                self.launches.append(replace(event.launch, repeat=self.repeat))
            case ImportRefused():
                self.refused.append(event)
            case WorkloadSample():
                self.samples.append(SampleRow(**shared_fields(event, SampleRow)))
            case Finding() | Problem():
                # What is wrong with a library is told in each repeat.
                if (found := recorded_finding(event, failure="workload-failed")) not in self.findings:
                    self.findings.append(found)

    def record(self, run: str, status: Status) -> WorkloadRecord:
        """Sum up what was measured. `status` is that of the run."""
        header = self.header or WorkloadBegun(matrix=None, scale=None, seed=None, streams=0, launches=0)
        launches = with_cached_reads(sorted(self.launches, key=lambda each: each.number), self.devices)
        ended = status not in ("running", "interrupted", "failed")
        summary = self._summary(header, launches)
        repeats = self._repeats(header, launches)
        found = self._judged(header, launches, repeats, summary) if ended else []
        allowed = bool(header.allow_disturbed)
        findings = list(self.findings)
        if disturbed := of_launches(launches):
            left_out = "" if allowed or self.repeat is None else "; their repeats do not count"
            findings.append(finding(f"{disturbed}{left_out}", allowed=allowed))
        if unwaited := of_unwaited(launches):
            findings.append(unwaited)
        if cached := cached_finding(launches):
            findings.append(cached)
        return WorkloadRecord(
            run=run,
            status=status,
            matrix=header.matrix,
            scale=header.scale,
            seed=header.seed,
            block_bytes=header.block_bytes,
            streams=header.streams,
            data=self.data,
            devices=self.devices,
            tests=summarize_tests(launches),
            launches=launches,
            refused=self.refused,
            nodes=summarize_nodes(launches, self.samples),
            summary=summary,
            requirements=found,
            findings=findings,
            met=self._met(launches, found) if ended else None,
            allow_disturbed=allowed,
            repeats=list(repeated_workload(repeats, ran=self.repeat, allow_disturbed=allowed))
            if self.repeat
            else [],
        )

    def _repeats(self, header: WorkloadBegun, launches: Sequence[LaunchRecord]) -> list[Repeat]:
        return repeats_of(launches, header.launches // header.repeat if header.repeat else None)

    def _judged(
        self,
        header: WorkloadBegun,
        launches: Sequence[LaunchRecord],
        repeats: Sequence[Repeat],
        summary: WorkloadSummary,
    ) -> list[JudgedRequirement]:
        """What is required, with what was measured; open where too little of it was undisturbed."""
        needs = header.requires or WorkloadNeeds()
        allowed = bool(header.allow_disturbed)
        counted = counting_repeats(repeats, allow_disturbed=allowed)
        if header.repeat and len(counted) > 1:
            return judge_repeats(needs, counted, summary.mean_concurrency)
        found = judge_workload(needs, launches, summary.wall_s, summary.mean_concurrency)
        open_ = header.repeat or (not allowed and any(each.disturbed for each in launches))
        return [replace(each, met=None) for each in found] if open_ else found

    def _summary(self, header: WorkloadBegun, launches: Sequence[LaunchRecord]) -> WorkloadSummary:
        summary = summarize(launches, header.streams, self.samples)
        # Jobs that were imported follow each other as their site wished: no harness stood between them.
        return summary if header.matrix else summary.model_copy(update={"harness_s_mean": None})

    def _met(self, launches: Sequence[LaunchRecord], found: Sequence[JudgedRequirement]) -> bool | None:
        if any(not each.ok for each in launches):
            return False
        met = met_by(found)
        return met if met is False or (launches and not self.refused) else None


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
    launches: Sequence[LaunchRecord], streams: int, samples: Sequence[SampleRow] = ()
) -> WorkloadSummary:
    """All launches together; times and ratios of those that ran to their end."""
    whole = [each for each in launches if each.ok]
    ratios = [each.cpu_real_ratio for each in whole if each.cpu_real_ratio is not None]
    real, user, system = (
        _sum(getattr(each, key) for each in whole) for key in ("real_s", "user_s", "system_s")
    )
    shares = causes(whole)
    cause = max(shares, key=lambda each: shares[each]) if shares else None
    wall, concurrency, until_tail = _concurrency_of_repeats(launches)
    cached = cached_reads(whole)
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
        cached_read_bytes=cached[0] if cached else None,
        bound_by=cause,
        bound_share=shares[cause] if cause else None,
        shares={name: round(share, 4) for name, share in shares.items()},
        harness_s_mean=_mean(between_launches(launches)),
        queued_s_mean=_mean(queued(launches)),
        diagnosis=sentence(whole, shares, samples),
    )


def _concurrency_of_repeats(
    launches: Sequence[LaunchRecord],
) -> tuple[float | None, float | None, float | None]:
    """The figures of `_concurrency`; of a workload that was repeated, the median of its repeats.

    One that was cut short has fewer launches than the others, and counts only where there is no other.
    """
    sizes = [len(each.launches) for each in repeats_of(launches, None)]
    whole = repeats_of(launches, max(sizes, default=0))
    each = [_concurrency(repeat.launches) for repeat in whole if repeat.whole]
    wall, concurrency, until_tail = zip(*each, strict=True) if each else ((), (), ())
    return _median(wall), _median(concurrency), _median(until_tail)


def _median(figures: Iterable[float | None]) -> float | None:
    found = _values(figures)
    return statistics.median(found) if found else None


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


def _values(figures: Iterable[float | None]) -> list[float]:
    return [figure for figure in figures if figure is not None]


def _mean(figures: Iterable[float | None]) -> float | None:
    found = _values(figures)
    return statistics.fmean(found) if found else None


def _sum(figures: Iterable[float | None]) -> float | None:
    found = _values(figures)
    return sum(found) if found else None


def _whole(figure: float | None) -> int | None:
    return int(figure) if figure is not None else None
