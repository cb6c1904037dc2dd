"""The record of the mixed workload in a run directory, and how events become it, of a killed run, too.

Keys carry their unit. A figure that was not measured, or that a SAS log does not tell, is null.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from gridwright.errors import Finding, Problem
from gridwright.messages import plain, shared_fields
from gridwright.runs.journal import recorded_finding
from gridwright.runs.launch_record import Bound, LaunchRecord, TestClass
from gridwright.runs.phase_record import Status
from gridwright.runs.records import (
    SCHEMA,
    FindingRecord,
    Record,
    interference_finding,
    interference_of_launches,
)
from gridwright.runs.repeats import RepeatedFigure
from gridwright.runs.samples import SampleRow
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
from gridwright.runs.workload_judge import (
    JudgedRequirement,
    Repeat,
    WorkloadNeeds,
    counting_repeats,
    judge_repeats,
    judge_workload,
    met_by,
    repeated_workload,
    repeats_of,
)
from gridwright.units import format_bytes, format_rate


class NodeSummary(Record):
    """The launches of one node: sums, and the mean ratio of single launches, of those that ended well."""

    node: str
    launches: int
    failed: int
    real_s: float | None
    user_s: float | None
    system_s: float | None
    ratio_mean: float | None
    ratio_of_sums: float | None
    read_bytes: int | None
    written_bytes: int | None
    cpu_percent_mean: float | None
    """Of all its cores, while launches ran there; null where no sample was taken."""
    bound_by: Bound | None
    """What bound most of their time."""
    lost: int = 0
    """Launches that it was lost under, and that were started again."""


class TestSummary(Record):
    """All launches of one test: means over those that ran to their end."""

    test: str
    class_: TestClass = Field(alias="class")
    launches: int
    failed: int
    real_s_mean: float | None
    user_s_mean: float | None
    system_s_mean: float | None
    peak_memory_bytes_mean: float | None
    ratio_mean: float | None
    bound_by: Bound | None
    """What bound most of their time."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


class WorkloadSummary(Record):
    """All launches: sums of times and memory, and the CPU/real ratio per launch.

    The published test beds print the mean, the standard deviation and the range of the ratio of
    single launches; `ratio_of_sums` is all CPU time over all real time, which is another figure. Of a
    workload that was repeated, launches and sums are those of all repeats, times and concurrency medians.
    """

    launches: int
    failed: int
    real_s: float | None
    user_s: float | None
    system_s: float | None
    peak_memory_bytes: int | None
    """Sum over the launches, as the published tables have it."""
    ratio_mean: float | None
    ratio_stdev: float | None
    """Of the sample (n - 1)."""
    ratio_min: float | None
    ratio_max: float | None
    ratio_of_sums: float | None
    mean_concurrency: float | None
    """Launches running, averaged over the wall time."""
    mean_concurrency_until_tail: float | None
    """The same until the first stream ran out of launches."""
    streams: int
    wall_s: float | None
    read_bytes: int | None
    written_bytes: int | None
    cached_read_bytes: int | None = None
    """Of what was read of libraries, that which came out of the page cache; null where that is not known."""
    bound_by: Bound | None
    bound_share: float | None
    shares: dict[str, float] = Field(default_factory=dict)
    """The real time of all launches by cause."""
    harness_s_mean: float | None = None
    """From the end of a launch to the start of the next of its stream, mean: what running them costs, and
    on a grid that is busy also the wait for free cores."""
    queued_s_mean: float | None = None
    """From handing a launch's job in to the launch's start, mean; null where launches are no jobs."""
    diagnosis: str | None
    """One sentence on what held the cores back, with its figures."""


class WorkloadRecord(Record):
    """The document that `gridwright workload --json` prints, and `workload.json`."""

    schema_: int = Field(default=SCHEMA, alias="schema")
    command: Literal["workload"] = "workload"
    run: str
    status: Status
    matrix: str | None
    scale: str | None
    seed: int | None
    block_bytes: int | None = None
    """What a call of a test read or wrote of a file; null where that is not known."""
    streams: int
    data: dict[str, object] | None = None
    """The data set: its directory, hashes, bytes, and how long it took to make."""
    devices: dict[str, object] = Field(default_factory=dict)
    """What lies below each library, as in `iotest.json`."""
    tests: list[TestSummary]
    launches: list[LaunchRecord]
    refused: list[ImportRefused] = Field(default_factory=list)
    """Logs that could not be imported."""
    nodes: list[NodeSummary] = Field(default_factory=list)
    """Side by side, by name."""
    summary: WorkloadSummary
    requirements: list[JudgedRequirement] = Field(default_factory=list)
    """What is required of the workload, and libraries that held it back, with what was measured."""
    findings: list[FindingRecord]
    met: bool | None
    """False if a launch failed or a requirement is missed; null if nothing is required, or this is open,
    as where launches were disturbed."""
    allow_disturbed: bool = False
    """Whether launches that were disturbed are judged all the same."""
    repeats: list[RepeatedFigure] = Field(default_factory=list)
    """The workload in all, then each test, over all repeats; left out where it was not repeated."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    @property
    def requires_something(self) -> bool:
        """Whether anything is required of it, so that it can be met."""
        return any(requirement.figure != "bytes_per_s_per_core" for requirement in self.requirements)

    @property
    def doubtful(self) -> bool:
        """Whether launches were disturbed, and may not be judged: of repeats, all but one at the most."""
        disturbed = {launch.repeat for launch in self.launches if launch.disturbed}
        quiet = {launch.repeat for launch in self.launches} - disturbed
        return not self.allow_disturbed and bool(disturbed) and len(quiet) < 2

    @model_serializer(mode="wrap")
    def _without_no_repeats(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = handler(self)
        if not document.get("repeats"):
            document.pop("repeats", None)
        return document


_LEADS = {
    "cpu": "The cores were kept busy: computing took {share} of the launches' real time",
    "core": "Launches waited for cores: {share} of their real time was spent runnable without one",
    "data read": "Reading data held the cores back: it took {share} of the launches' real time",
    "data write": "Writing data held the cores back: it took {share} of the launches' real time",
    "work read": "Reading work held the cores back: it took {share} of the launches' real time",
    "work write": "Writing work held the cores back: it took {share} of the launches' real time",
    "util": "Spilling to util held the cores back: it took {share} of the launches' real time",
    "memory": "Memory held the cores back: launches were stalled on it for {share} of their real time",
    "other": "Launches waited for something that is no core and no library for {share} of their real time",
}
_NAMES = {
    "cpu": "computing",
    "core": "waiting for a core",
    "memory": "stalled on memory",
    "other": "waiting for something else",
}
_NOTABLE = 0.05
"""A cause below this share of the real time is left out of the sentence."""


def _causes(launches: Sequence[LaunchRecord]) -> dict[str, float]:
    """The real time of launches by cause, as fractions of it that add up to 1; empty if unknown."""
    known = [record for record in launches if record.shares and record.real_s]
    total = sum(record.real_s or 0.0 for record in known)
    found: dict[str, float] = {}
    for launch in known:
        for cause, share in launch.shares.items():
            found[cause] = found.get(cause, 0.0) + share * (launch.real_s or 0.0) / total
    return found


def _sentence(
    launches: Sequence[LaunchRecord], shares: Mapping[str, float], samples: Sequence[SampleRow]
) -> str | None:
    """Say what held the cores back; None if nothing is known of it."""
    if not shares:
        return None
    ordered = sorted(shares, key=lambda cause: -shares[cause])
    first, rest = ordered[0], [cause for cause in ordered[1:] if shares[cause] >= _NOTABLE]
    text = _LEADS.get(first, f"{first} took {{share}} of the launches' real time").format(
        share=_percent(shares[first])
    )
    if rest:
        others = ", ".join(f"{_NAMES.get(cause, cause)} {_percent(shares[cause])}" for cause in rest)
        text += f" ({others})"
    text += _cores(samples)
    if rates := _rates(samples):
        text += f"; the tests moved {rates}"
    return f"{text}."


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"


def _cores(samples: Sequence[SampleRow]) -> str:
    """How busy the node's CPUs were on average."""
    busy = {row.time: row.cpu_percent for row in samples if row.cpu_percent is not None}
    return f"; the CPUs were {sum(busy.values()) / len(busy):.0f} % busy" if busy else ""


def _span(samples: Sequence[SampleRow]) -> float:
    """Seconds that the samples of several nodes span; 0 for one node, whose samples have no gap."""
    if len({row.node for row in samples}) < 2:
        return 0.0
    begin = min((row.time or 0.0) - (row.interval_s or 0.0) for row in samples)
    return max(row.time or 0.0 for row in samples) - begin


def _rates(samples: Sequence[SampleRow]) -> str:
    """The mean rate of each library that saw traffic, read and written together, over all nodes."""
    span = _span(samples)
    moved: dict[str | None, list[float]] = {}
    for row in samples:
        sums = moved.setdefault(row.library, [0.0, 0.0])
        sums[0] += row.moved_bytes
        sums[1] += row.interval_s or 0.0
    parts = [
        f"{format_rate(size / (span or seconds))} to and from {library}"
        for library, (size, seconds) in moved.items()
        if size and seconds
    ]
    return ", ".join(parts)


def summarize_nodes(launches: Sequence[LaunchRecord], samples: Sequence[SampleRow]) -> list[NodeSummary]:
    """One row per node that ran, or was lost under, a launch, in the order of their names."""
    lost = [node for launch in launches for node in launch.lost_on]
    names = {launch.node for launch in launches} | set(lost)
    cpu: dict[str | None, list[float]] = {}
    for (node, _), percent in _cpu(samples).items():
        cpu.setdefault(node, []).append(percent)
    return [
        _node(
            name,
            [launch for launch in launches if launch.node == name],
            # Samples of a workload on one node name none.
            cpu.get(name) or (cpu.get(None) if len(names) == 1 else None),
            lost.count(name),
        )
        for name in sorted(names, key=_in_order)
    ]


def _cpu(samples: Sequence[SampleRow]) -> dict[tuple[str | None, float | None], float]:
    """CPU use by node and second: the rows of all libraries carry the same."""
    return {(row.node, row.time): row.cpu_percent for row in samples if row.cpu_percent is not None}


def _node(name: str, launches: Sequence[LaunchRecord], cpu: Sequence[float] | None, lost: int) -> NodeSummary:
    whole = [launch for launch in launches if launch.ok]
    shares = _causes(whole)
    real, user, system = (_workload_sum(whole, key) for key in ("real_s", "user_s", "system_s"))
    ratios = [record.cpu_real_ratio for record in whole if record.cpu_real_ratio is not None]
    read, written = _workload_sum(whole, "read_bytes"), _workload_sum(whole, "written_bytes")
    return NodeSummary(
        node=name,
        launches=len(launches),
        failed=sum(not launch.ok for launch in launches),
        real_s=real,
        user_s=user,
        system_s=system,
        ratio_mean=statistics.fmean(ratios) if ratios else None,
        ratio_of_sums=((user or 0.0) + (system or 0.0)) / real if real and user is not None else None,
        read_bytes=None if read is None else int(read),
        written_bytes=None if written is None else int(written),
        cpu_percent_mean=statistics.fmean(cpu) if cpu else None,
        bound_by=max(shares, key=lambda cause: shares[cause]) if shares else None,
        lost=lost,
    )


def _workload_sum(launches: Sequence[LaunchRecord], key: str) -> float | None:
    known = [value for launch in launches if (value := getattr(launch, key)) is not None]
    return sum(known) if known else None


def _in_order(name: str) -> tuple[str, int, str]:
    """compute2 comes before compute10."""
    stem = name.rstrip("0123456789")
    return stem, int(name[len(stem) :] or 0), name


def between_launches(launches: Sequence[LaunchRecord]) -> Iterator[float]:
    """Seconds from the end of each launch to the start of the next of its stream (Unix times of both nodes).

    One whose clock is behind may be seen to begin before: that counts as no time.
    """
    streams: dict[tuple[int | None, int], list[LaunchRecord]] = {}
    for launch in sorted(launches, key=lambda each: each.number):
        streams.setdefault((launch.repeat, launch.stream), []).append(launch)
    for stream in streams.values():
        for before, after in itertools.pairwise(stream):
            if before.ended is not None and after.started is not None and not after.restarts:
                yield max(0.0, after.started - before.ended)


def queued(launches: Sequence[LaunchRecord]) -> Iterator[float]:
    """Seconds from submitting a launch's job to the start of the launch, where it was started once."""
    for launch in launches:
        if launch.submitted is not None and launch.started is not None and not launch.restarts:
            yield max(0.0, launch.started - launch.submitted)


NOTABLE = 0.05
"""Less than this part of the reads is left unsaid, as a read of `iotest` counts with so much of it cached."""

LEAST_BYTES = 16 << 20
"""Less than this may be the program of a command, whose reads are not told from those of its data."""


def with_cached_reads(launches: Sequence[LaunchRecord], devices: Mapping[str, object]) -> list[LaunchRecord]:
    """The launches, each with what it read that no device delivered.

    `devices` tells what lies below each library. The kernel counts what it fetches from block devices for a
    process (`read_bytes` of /proc/PID/io, proc_pid_io(5)); it does not for all file systems that servers
    provide, so nothing is counted where a library has no device.
    """
    known = bool(devices) and all(
        isinstance(device, Mapping) and device.get("device") is not None for device in devices.values()
    )
    if not known:
        return list(launches)
    return [replace(launch, cached_read_bytes=_cached(launch)) for launch in launches]


def _cached(launch: LaunchRecord) -> int | None:
    """Reads of libraries less what devices delivered; readahead can deliver more than is read.

    What a test reads beside its libraries (modules, /proc) is left out; a command does not tell it apart.
    """
    asked = (
        sum(library.read_bytes for library in launch.libraries.values())
        if launch.libraries
        else launch.read_bytes
    )
    if asked is None or launch.device_read_bytes is None:
        return None
    return max(0, asked - launch.device_read_bytes)


def cached_reads(launches: Sequence[LaunchRecord]) -> tuple[int, int] | None:
    """Of all launches of which it is known: bytes that came out of the page cache, and all that were read."""
    known = [launch for launch in launches if launch.cached_read_bytes is not None]
    if not known:
        return None
    cached = sum(record.cached_read_bytes or 0 for record in known)
    return cached, cached + sum(record.device_read_bytes or 0 for record in known)


def cached_finding(launches: Sequence[LaunchRecord]) -> FindingRecord | None:
    """Say how much came out of the page cache, where it is much."""
    # Nodes do without pydantic.
    from gridwright.runs.journal import recorded_finding

    cached, whole = cached_reads(launches) or (0, 0)
    if cached < max(LEAST_BYTES, NOTABLE * whole):
        return None
    interference_finding = Finding(
        "info",
        "reads-cached",
        f"{cached / whole:.0%} of what launches read ({format_bytes(cached)} of {format_bytes(whole)}) "
        "came out of the page cache: jobs whose data memory does not hold wait longer",
        "for a test of the disks use a larger --scale, so that the data are more than the memory of a node",
    )
    return recorded_finding(interference_finding, failure="workload-failed")


_REMEDY = (
    "have the program wait for its children, give its user a control group (Delegate=yes of systemd), or set "
    "kernel.perf_event_paranoid to 2 on the nodes"
)


def of_unwaited(launches: Sequence[LaunchRecord]) -> FindingRecord | None:
    """The finding of launches with processes that nobody waited for, where only looks saw these."""
    # Nodes do without pydantic.
    from gridwright.runs.records import FindingRecord

    records = [launch for launch in launches if launch.unwaited_counted == "looks"]
    if not records:
        return None
    names = ", ".join(dict.fromkeys(record.test for record in records))
    text = (
        f"{len(records)} of {len(launches)} launches ({names}) started processes that nobody waited for "
        f"(SIGCHLD ignored): of their CPU time {sum(record.unwaited_cpu_s for record in records):.2f} s were "
        "seen and counted, what used less than 0.1 s may be "
        "missing, and the CPU/real ratio is at least what is "
        "shown"
    )
    return FindingRecord(level="warning", name="workload-unwaited", text=text, remedy=_REMEDY)


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
                if (record := recorded_finding(event, failure="workload-failed")) not in self.findings:
                    self.findings.append(record)

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
        if disturbed := interference_of_launches(launches):
            left_out = "" if allowed or self.repeat is None else "; their repeats do not count"
            findings.append(interference_finding(f"{disturbed}{left_out}", allowed=allowed))
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
        requirements = judge_workload(needs, launches, summary.wall_s, summary.mean_concurrency)
        open_ = header.repeat or (not allowed and any(launch.disturbed for launch in launches))
        return [replace(requirement, met=None) for requirement in requirements] if open_ else requirements

    def _summary(self, header: WorkloadBegun, launches: Sequence[LaunchRecord]) -> WorkloadSummary:
        summary = summarize(launches, header.streams, self.samples)
        # Jobs that were imported follow each other as their site wished: no harness stood between them.
        return summary if header.matrix else summary.model_copy(update={"harness_s_mean": None})

    def _met(
        self, launches: Sequence[LaunchRecord], requirements: Sequence[JudgedRequirement]
    ) -> bool | None:
        if any(not launch.ok for launch in launches):
            return False
        met = met_by(requirements)
        return met if met is False or (launches and not self.refused) else None


def summarize_tests(launches: Sequence[LaunchRecord]) -> list[TestSummary]:
    """One row per test, in the order of their first launch."""
    groups: dict[str, list[LaunchRecord]] = {}
    for launch in launches:
        groups.setdefault(launch.test, []).append(launch)
    return [_test(name, group) for name, group in groups.items()]


def _test(name: str, group: Sequence[LaunchRecord]) -> TestSummary:
    whole = [record for record in group if record.ok]
    shares = _causes(whole)
    return TestSummary(
        test=name,
        class_=group[0].class_,
        launches=len(group),
        failed=sum(not record.ok for record in group),
        real_s_mean=_mean(record.real_s for record in whole),
        user_s_mean=_mean(record.user_s for record in whole),
        system_s_mean=_mean(record.system_s for record in whole),
        peak_memory_bytes_mean=_mean(record.peak_memory_bytes for record in whole),
        ratio_mean=_mean(record.cpu_real_ratio for record in whole),
        bound_by=max(shares, key=lambda cause: shares[cause]) if shares else None,
    )


def summarize(
    launches: Sequence[LaunchRecord], streams: int, samples: Sequence[SampleRow] = ()
) -> WorkloadSummary:
    """All launches together; times and ratios of those that ran to their end."""
    whole = [launch for launch in launches if launch.ok]
    ratios = [record.cpu_real_ratio for record in whole if record.cpu_real_ratio is not None]
    real, user, system = (
        _sum(getattr(record, key) for record in whole) for key in ("real_s", "user_s", "system_s")
    )
    shares = _causes(whole)
    cause = max(shares, key=lambda each: shares[each]) if shares else None
    wall, concurrency, until_tail = _concurrency_of_repeats(launches)
    cached = cached_reads(whole)
    return WorkloadSummary(
        launches=len(launches),
        failed=sum(not launch.ok for launch in launches),
        real_s=real,
        user_s=user,
        system_s=system,
        peak_memory_bytes=_whole(_sum(record.peak_memory_bytes for record in whole)),
        ratio_mean=_mean(ratios),
        ratio_stdev=statistics.stdev(ratios) if len(ratios) > 1 else None,
        ratio_min=min(ratios, default=None),
        ratio_max=max(ratios, default=None),
        ratio_of_sums=((user or 0.0) + (system or 0.0)) / real if real and user is not None else None,
        mean_concurrency=concurrency,
        mean_concurrency_until_tail=until_tail,
        streams=streams,
        wall_s=wall,
        read_bytes=_whole(_sum(record.read_bytes for record in whole)),
        written_bytes=_whole(_sum(record.written_bytes for record in whole)),
        cached_read_bytes=cached[0] if cached else None,
        bound_by=cause,
        bound_share=shares[cause] if cause else None,
        shares={name: round(share, 4) for name, share in shares.items()},
        harness_s_mean=_mean(between_launches(launches)),
        queued_s_mean=_mean(queued(launches)),
        diagnosis=_sentence(whole, shares, samples),
    )


def _concurrency_of_repeats(
    launches: Sequence[LaunchRecord],
) -> tuple[float | None, float | None, float | None]:
    """The figures of `_concurrency`; of a workload that was repeated, the median of its repeats.

    One that was cut short has fewer launches than the others, and counts only where there is no other.
    """
    sizes = [len(repeat.launches) for repeat in repeats_of(launches, None)]
    whole = repeats_of(launches, max(sizes, default=0))
    each = [_concurrency(repeat.launches) for repeat in whole if repeat.whole]
    wall, concurrency, until_tail = zip(*each, strict=True) if each else ((), (), ())
    return _median(wall), _median(concurrency), _median(until_tail)


def _median(figures: Iterable[float | None]) -> float | None:
    values = _values(figures)
    return statistics.median(values) if values else None


def _concurrency(launches: Sequence[LaunchRecord]) -> tuple[float | None, float | None, float | None]:
    """Wall time, and launches running at once on average: in all, and until a stream first ran out.

    The streams of a node begin together; the tail begins when the first of any node's ends. Those of a
    grid, whose launches are jobs, are spread over its nodes.
    """
    timed = [launch for launch in launches if launch.started is not None and launch.ended is not None]
    if not timed:
        return None, None, None
    begin = min(each.started or 0.0 for each in timed)
    end = max(each.ended or 0.0 for each in timed)
    last: dict[tuple[str, int], float] = {}
    for record in timed:
        key = (record.node if record.job is None else "", record.stream)
        last[key] = max(last.get(key, 0.0), record.ended or 0.0)
    tail = min(last.values())
    return end - begin, _running(timed, begin, end), _running(timed, begin, tail)


def _running(timed: Sequence[LaunchRecord], begin: float, end: float) -> float | None:
    if end <= begin:
        return None
    inside = sum(
        max(0.0, min(record.ended or 0.0, end) - max(record.started or 0.0, begin)) for record in timed
    )
    return inside / (end - begin)


def _values(figures: Iterable[float | None]) -> list[float]:
    return [figure for figure in figures if figure is not None]


def _mean(figures: Iterable[float | None]) -> float | None:
    values = _values(figures)
    return statistics.fmean(values) if values else None


def _sum(figures: Iterable[float | None]) -> float | None:
    values = _values(figures)
    return sum(values) if values else None


def _whole(figure: float | None) -> int | None:
    return int(figure) if figure is not None else None
