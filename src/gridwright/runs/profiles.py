"""Launch profiles: what each test computes, reads and writes, in which order. A JSON document.

They are made of the median launches of a run, or estimated; a replay is held against its jobs.

`gridwright workload FILE --profile OUT` writes one; `gridwright predict FILE --workload M --profile OUT`
has the launches run on a grid that may not exist yet.

Its CPU time is known. The rest of its real time is the gap. What filled the gap is taken to be I/O: the
bytes that its log or its scheduler counted, or where none are told, as many as a rate that the user states
moves in that time. Computing, reading and writing take turns, so that they add up to its real time.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gridwright.atomic import write_atomically
from gridwright.errors import Finding, GridwrightError, Problem, environment_error, input_error, nearest
from gridwright.handed_files import parsed_json, read_within
from gridwright.refusals import refusal
from gridwright.runs.launch_record import LaunchPhase, LaunchRecord, TestClass
from gridwright.runs.records import HostFacts, RunRecord
from gridwright.runs.workload_record import WorkloadRecord
from gridwright.spec.model import LibraryName

_SCHEMA: Final = 1
_KIND: Final = "gridwright launch profiles"
_MAX_BYTES = 64 << 20

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=0)]


IoSource = Literal["devices", "calls", "estimated", "waiting"]
"""What the I/O of an imported job rests on: bytes that devices moved, or that its calls asked for, an
estimate from its wait; or a wait that what was counted does not explain."""
DEFAULT_RATE = 100e6
"""Bytes per second of a core's I/O where none is counted: 100 MB/s, what SAS asks of each core at least."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PhaseProfile(_Strict):
    """A part of a launch that does its work side by side; the phases of a launch follow each other."""

    seconds: Seconds
    """As measured where it was recorded."""
    cpu_s: Seconds
    """Core-seconds, user and system."""
    threads: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """How many cores it uses at once, as far as they are free and no library holds it up."""
    io_wait_s: Seconds = 0.0
    """Of `seconds`, waiting for the libraries."""
    read_bytes: dict[LibraryName, Bytes] = Field(default_factory=dict)
    """As the test asked for them, cached or not."""
    written_bytes: dict[LibraryName, Bytes] = Field(default_factory=dict)
    cached_bytes: dict[LibraryName, Bytes] | None = None
    """Of `read_bytes`, what the page cache served; None if that is not known."""
    fixed: bool = False
    """Whether it stays what it is with more data: the start of the program."""


class LaunchProfile(_Strict):
    """One test: the figures of its median launch, all of one and the same launch."""

    class_: TestClass = Field(alias="class")
    launches: Annotated[int, Field(ge=1)]
    """How many the median was taken of."""
    real_s: Seconds
    user_s: Seconds
    system_s: Seconds
    cores: Annotated[int, Field(ge=1)]
    """Threads it was allowed."""
    peak_memory_bytes: Bytes | None = None
    cached_fraction: Annotated[float, Field(ge=0, le=1)] | None = None
    """Of all bytes read, what the page cache served; None if that is not known."""
    io: IoSource | None = None
    """Of a job that was imported; None where its phases were measured."""
    phases: Annotated[list[PhaseProfile], Field(min_length=1)]

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @property
    def cpu_s(self) -> float:
        """Core-seconds of all phases."""
        return sum(phase.cpu_s for phase in self.phases)


class Profiles(_Strict):
    """The document: profiles by test, and where they come from."""

    kind: Literal["gridwright launch profiles"] = _KIND
    schema_: Literal[1] = Field(default=_SCHEMA, alias="schema")
    recorded: str
    """When the run began, ISO 8601 in UTC."""
    run: str
    matrix: str | None = None
    scale: str | None = None
    seed: int | None = None
    """Imported jobs have none of these three."""
    streams: int
    """Streams of that run on its one node."""
    data_bytes: dict[str, int] = Field(default_factory=dict)
    """One copy of the data set at each scale, in bytes."""
    host: HostFacts
    software: dict[str, str]
    launch_streams: list[list[str]] | None = None
    """Of imported jobs: which followed each other, in streams that ran at once."""
    profiles: dict[str, LaunchProfile] = Field(min_length=1)

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    def of(self, tests: Iterable[str], *, where: str = "the profiles") -> Mapping[str, LaunchProfile]:
        """The profiles of these tests. Raises GridwrightError that names every test without one."""
        required = list(dict.fromkeys(tests))
        problems = [_absent(test, self.profiles, where) for test in required if test not in self.profiles]
        if problems:
            raise GridwrightError(*problems)
        return {test: self.profiles[test] for test in required}

    def scaled_by(self, scale: str | None, *, where: str = "the profiles") -> float:
        """How many times larger the data set of a scale is than the recorded one.

        Raises GridwrightError if the document does not say how large one of both is.
        """
        if scale is None or scale == self.scale:
            return 1.0
        here, there = self.data_bytes.get(self.scale or ""), self.data_bytes.get(scale)
        if here and there:
            return there / here
        known = list(self.data_bytes) if here else [name for name in [self.scale] if name]
        near = nearest(scale, known)
        raise input_error(
            f"the size of the data at scale {scale!r} is not known from the recorded scale {self.scale!r}",
            where=where,
            remedy=f"{f'did you mean {near}? ' if near else ''}known: {', '.join(known) or 'none'}",
        )


def streams_of(profiles: Profiles, count: int | None, *, where: str) -> tuple[tuple[str, ...], ...]:
    """The launches of each stream as the jobs ran, or as many streams as are asked for.

    With more streams they are repeated in turn; with fewer, those beyond go to the end of the first ones.
    Raises GridwrightError if the profiles are not those of imported jobs.
    """
    streams = profiles.launch_streams
    if not streams:
        raise input_error(
            "these profiles do not tell which launches follow each other: they are none of imported jobs",
            where=where,
            remedy="name a matrix, and these with --profile: --workload mixed-30 --profile FILE",
        )
    if count is None:
        return tuple(map(tuple, streams))
    if count >= len(streams):
        return tuple(tuple(streams[number % len(streams)]) for number in range(count))
    return tuple(tuple(name for one in streams[first::count] for name in one) for first in range(count))


def _absent(test: str, known: Iterable[str], where: str) -> Problem:
    names = sorted(known)
    near = nearest(test, names)
    return Problem(
        what=f"there is no profile of {test!r}",
        where=where,
        remedy=f"{f'the nearest is {near}; ' if near else ''}profiles: {', '.join(names)}; record it with "
        "`gridwright workload FILE --matrix M --profile OUT`",
    )


def save_profiles(path: Path, profiles: Profiles) -> None:
    """Write the document. Raises GridwrightError if it cannot be written."""
    try:
        write_atomically(path, profiles.model_dump_json(by_alias=True, exclude_none=True, indent=1) + "\n")
    except OSError as error:
        raise environment_error(
            f"the profiles cannot be written: {error.strerror}",
            where=str(path),
            remedy="the run has all they are made of: name another file with "
            "`gridwright workload profile RUN OUT`",
        ) from error


def load_profiles(path: Path) -> Profiles:
    """Read a document. Raises GridwrightError that says what is wrong with it."""
    try:
        content = read_within(path, _MAX_BYTES)
    except OSError as error:
        why = refusal(path, error, "name a file that `gridwright workload FILE --profile OUT` wrote")
        raise input_error(f"cannot be read: {why.reason}", where=str(path), remedy=why.remedy) from error
    except ValueError as error:
        raise _other_file(str(path), str(error)) from None
    return parse_profiles(content, str(path))


def parse_profiles(content: bytes, where: str) -> Profiles:
    """Read a document from its bytes; `where` names it in errors. Raises GridwrightError."""
    try:
        document = parsed_json(content)
    except ValueError as error:
        raise _other_file(where, f"is no JSON: {error}") from None
    if not isinstance(document, dict) or document.get("kind") != _KIND:
        raise _other_file(where, f"is no document of the kind {_KIND!r}")
    schema = document.get("schema")
    if isinstance(schema, int) and schema > _SCHEMA:
        raise input_error(
            f"was written by a newer release: its schema is {schema}, and this one reads {_SCHEMA}",
            where=where,
            remedy="update Gridwright here, or record the profiles with this release",
        )
    try:
        return Profiles.model_validate(document)
    except ValidationError as error:
        details = error.errors(include_url=False)
        raise GridwrightError(*(_wrong(where, dict(detail)) for detail in details)) from None


def _other_file(where: str, what: str) -> GridwrightError:
    return input_error(
        what, where=where, remedy="name a file that `gridwright workload FILE --profile OUT` wrote"
    )


def _wrong(where: str, detail: dict[str, Any]) -> Problem:
    field = ".".join(str(part) for part in detail["loc"])
    given = "" if detail["type"] == "missing" else f", and {str(detail['input'])[:40]!r} is given"
    return Problem(
        what=f"{str(detail['msg'])[:1].lower()}{str(detail['msg'])[1:]}{given}",
        where=where,
        field=field,
        remedy="record the profiles anew, or undo what was changed in the file",
    )


_LIBRARIES: tuple[LibraryName, ...] = ("data", "util", "work")
"""In the order in which reads are taken to have missed the page cache: permanent tables are cold,
what a launch wrote itself a moment ago is warm."""
_NAMED = 5
"""Tests named one by one in a finding."""
_READ_AHEAD_BYTES = 16 << 20
"""What a device may have read before the test asked for it, counted one phase early."""


def profiles_of(
    run: RunRecord, workload: WorkloadRecord, *, data_bytes: Mapping[str, int], rate: float = DEFAULT_RATE
) -> tuple[Profiles, list[Finding]]:
    """Make profiles of a run; `data_bytes` is one copy of the data set by scale.

    Of each test the launch with the median real time (the lower of two) is taken whole, so that
    its figures belong together. Of jobs that were imported the phases are estimated; `rate` is how fast
    those moved bytes of which nothing is counted, in bytes per second. Raises GridwrightError if the run
    has no launch to profile.
    """
    imported = workload.matrix is None
    groups: dict[str, list[LaunchRecord]] = {}
    for launch in workload.launches:
        groups.setdefault(launch.test, []).append(launch)
    fits = has_totals if imported else _whole
    usable = {test: [record for record in group if fits(record)] for test, group in groups.items()}
    profiles = {
        test: _estimated(group, rate) if imported else _profile(group)
        for test, group in usable.items()
        if group
    }
    if not profiles:
        raise GridwrightError(_nothing(workload))
    return (
        Profiles(
            recorded=run.started,
            run=Path(workload.run).name,
            matrix=workload.matrix,
            scale=workload.scale,
            seed=workload.seed,
            streams=workload.streams,
            data_bytes=dict(data_bytes),
            host=run.host,
            software=run.software,
            launch_streams=_launch_streams(workload.launches, fits) if imported else None,
            profiles=profiles,
        ),
        [
            *_findings(workload, [test for test, group in usable.items() if not group]),
            *(_of_estimates(profiles, rate) if imported else ()),
        ],
    )


def _estimated(group: Sequence[LaunchRecord], rate: float) -> LaunchProfile:
    launch = _median(group)
    phases, source = estimated_phases(launch, rate)
    return _as_launched(launch, len(group), phases).model_copy(update={"io": source})


def _as_launched(launch: LaunchRecord, launches: int, phases: list[PhaseProfile]) -> LaunchProfile:
    """The profile of so many launches, with the figures of one and these phases."""
    return LaunchProfile(
        class_=launch.class_,
        launches=launches,
        real_s=launch.real_s or 0.0,
        user_s=launch.user_s or 0.0,
        system_s=launch.system_s or 0.0,
        cores=launch.cores,
        peak_memory_bytes=launch.peak_memory_bytes,
        phases=phases,
    )


def _launch_streams(
    launches: Sequence[LaunchRecord], fits: Callable[[LaunchRecord], bool]
) -> list[list[str]]:
    streams: dict[int, list[LaunchRecord]] = {}
    for launch in launches:
        if fits(launch):
            streams.setdefault(launch.stream, []).append(launch)
    return [
        [each.test for each in sorted(stream, key=lambda each: (each.started or 0.0, each.number))]
        for _, stream in sorted(streams.items())
    ]


def _of_estimates(profiles: Mapping[str, LaunchProfile], rate: float) -> Iterator[Finding]:
    """What the I/O of imported jobs rests on."""
    texts = {
        "estimated": f"nothing is counted of their I/O: the time in which they did not compute is taken for "
        f"reading at {rate / 1e6:g} MB/s from the library data",
        "calls": "the bytes are those that their calls asked for: what the page cache served is not known",
        "waiting": "what they moved does not explain the time in which they did not compute: they are "
        "taken to wait as long on any grid",
    }
    remedies = {
        "estimated": "state another rate with --io-rate, or run them with FULLSTIMER on Linux, or under "
        "a Slurm with jobacct_gather, which count bytes",
        "calls": "run them with FULLSTIMER on Linux, which counts what devices moved",
        "waiting": "see whether they sleep, or wait for a licence or for each other",
    }
    for source, text in texts.items():
        names = [test for test, profile in profiles.items() if profile.io == source]
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            yield Finding(
                "info",
                f"profile-io-{source}",
                f"of {', '.join(names[:_NAMED])}{more} {text}",
                remedies[source],
            )


def _whole(launch: LaunchRecord) -> bool:
    times = (launch.real_s, launch.user_s, launch.system_s)
    return launch.ok and bool(launch.phases) and None not in times


def _nothing(workload: WorkloadRecord) -> Problem:
    if workload.matrix is None and workload.launches:
        what = "of no job that ended well the log tells both real and CPU time"
        remedy = "run the jobs with the option FULLSTIMER, or ask the scheduler for both"
    elif workload.launches and not any(launch.phases for launch in workload.launches):
        what = "its launches have no phases: it is a run of an older release"
        remedy = "run the workload with this release: gridwright workload FILE --profile OUT"
    else:
        what, remedy = "no launch ran to its end", "see why: gridwright runs show RUN"
    return Problem(what=f"no profile can be made: {what}", where=workload.run, remedy=remedy)


def _findings(workload: WorkloadRecord, lacking: Sequence[str]) -> Sequence[Finding]:
    found = []
    if workload.streams > 1 and workload.matrix is None:
        text = (
            f"up to {workload.streams} jobs ran at once: what they waited for cores and for each other's I/O "
            "counts as their own I/O"
        )
        found.append(Finding("info", "profile-shared", text, "import jobs that ran alone, if there are any"))
    elif workload.streams > 1:
        found.append(
            Finding(
                "warning",
                "profile-shared",
                f"the profiles were recorded with {workload.streams} streams at once: CPU time and the page "
                "cache's part are those of launches that disturbed each other",
                "record them with --streams 1",
            )
        )
    if lacking:
        text = f"there is no profile of {', '.join(lacking)}: no launch of it ran to its end"
        found.append(
            Finding("warning", "profile-lacking", text, "see its log in the run, and record it again")
        )
    return found


def _median(group: Sequence[LaunchRecord]) -> LaunchRecord:
    ordered = sorted(group, key=lambda launch: launch.real_s or 0.0)
    return ordered[(len(ordered) - 1) // 2]


def _profile(group: Sequence[LaunchRecord]) -> LaunchProfile:
    launch = _median(group)
    phases = _phases(launch)
    asked = sum(sum(phase.read_bytes.values()) for phase in phases)
    cached = sum(sum((phase.cached_bytes or {}).values()) for phase in phases)
    known = launch.device_read_bytes is not None and asked > 0
    fraction = round(cached / asked, 4) if known else None
    return _as_launched(launch, len(group), phases).model_copy(update={"cached_fraction": fraction})


def _phases(launch: LaunchRecord) -> list[PhaseProfile]:
    """The phases, with what the page cache served.

    A device may have read a little earlier than the test asked: that is carried on to the next
    phase, up to a read-ahead; what is beyond it was no library's, such as the program's own files.
    """
    real = launch.real_s or 0.0
    most = max(
        float(launch.cores), ((launch.user_s or 0.0) + (launch.system_s or 0.0)) / real if real else 0.0
    )
    early, found = 0, []
    for phase in launch.phases:
        reads, writes = _reads(phase), _writes(phase)
        from_device = phase.device_read_bytes + early
        missed = min(from_device, sum(reads.values()))
        early = min(from_device - missed, _READ_AHEAD_BYTES)
        found.append(
            PhaseProfile(
                seconds=phase.seconds,
                cpu_s=phase.cpu_s,
                threads=_threads(phase, most),
                io_wait_s=phase.io_wait_s,
                read_bytes=reads,
                written_bytes=writes,
                cached_bytes=_cached(reads, missed) if launch.device_read_bytes is not None else None,
                fixed=_is_start(launch, phase),
            )
        )
    return found


def _is_start(launch: LaunchRecord, phase: LaunchPhase) -> bool:
    """Whether a phase is the loading of a test's program, before it moves a byte of a library."""
    first = phase is launch.phases[0]
    return first and launch.class_ != "command" and not _reads(phase) and not _writes(phase)


def _threads(phase: LaunchPhase, most: float) -> float:
    """Cores it wanted on average while no library held it up: (CPU + wait for a core) / time."""
    computing = phase.seconds - phase.io_wait_s
    required = phase.cpu_s + phase.core_wait_s
    if required <= 0.0:
        return 1.0
    return round(max(0.01, min(most, required / computing if computing > 0.0 else most)), 3)


def _reads(phase: LaunchPhase) -> dict[LibraryName, int]:
    """Bytes read by library. A command names none: what it reads counts as data."""
    found: dict[LibraryName, int] = {
        "data": phase.data_read_bytes + phase.other_read_bytes,
        "work": phase.work_read_bytes,
        "util": phase.util_read_bytes,
    }
    return {library: size for library, size in found.items() if size}


def _writes(phase: LaunchPhase) -> dict[LibraryName, int]:
    """Bytes written by library. A command names none: what it writes counts as work."""
    found: dict[LibraryName, int] = {
        "data": phase.data_written_bytes,
        "work": phase.work_written_bytes + phase.other_written_bytes,
        "util": phase.util_written_bytes,
    }
    return {library: size for library, size in found.items() if size}


def _cached(reads: Mapping[LibraryName, int], missed: int) -> dict[LibraryName, int]:
    found: dict[LibraryName, int] = {}
    for library in _LIBRARIES:
        size = reads.get(library, 0)
        from_device = min(size, missed)
        missed -= from_device
        if size > from_device:
            found[library] = size - from_device
    return found


TURNS: Final = 4
"""How often computing, reading and writing take turns: 12 phases in all, the most that a launch has."""
_OVERLAPPED = 0.05
"""A gap of less of the real time is none: what was moved was moved beside computing."""
_SLOWEST = 1e6
"""Bytes per second: what is counted and would have moved more slowly than this does not fill the gap."""


def has_totals(launch: LaunchRecord) -> bool:
    """Whether a launch can be estimated: it ended well, and its real and CPU time are known."""
    return launch.ok and bool(launch.real_s) and launch.user_s is not None


def estimated_phases(launch: LaunchRecord, rate: float) -> tuple[list[PhaseProfile], IoSource]:
    """The phases of a launch that `has_totals`, and what its I/O rests on; `rate` in bytes per second."""
    real = launch.real_s or 0.0
    cpu = (launch.user_s or 0.0) + (launch.system_s or 0.0)
    threads = max(1.0, cpu / real)
    gap = max(0.0, real - cpu / threads)
    reads, writes, source = _moved(launch)
    if gap < _OVERLAPPED * real:
        return [_phase(real, cpu, threads, reads, writes)] if real else [], source
    if source == "estimated":
        reads, writes = round(gap * rate), 0
    elif reads + writes < gap * _SLOWEST:
        # A wait that takes as long on any grid: for a licence, another job, a clock.
        return [_phase(real, cpu, max(cpu, 1e-6) / real, reads, writes)], "waiting"
    parts = []
    for turn in range(TURNS):
        read, written = _part(reads, turn), _part(writes, turn)
        reading_s = gap / TURNS * reads / (reads + writes)
        parts.append(_phase((real - gap) / TURNS, cpu / TURNS, threads, 0, 0))
        parts.append(_phase(reading_s, 0.0, threads, read, 0, io_wait_s=reading_s))
        parts.append(_phase(gap / TURNS - reading_s, 0.0, threads, 0, written, gap / TURNS - reading_s))
    return [part for part in parts if part.cpu_s or part.read_bytes or part.written_bytes], source


def _moved(launch: LaunchRecord) -> tuple[int, int, IoSource]:
    """Bytes read and written, and who counted them: devices, or the calls of the program."""
    if launch.device_read_bytes is not None or launch.device_written_bytes is not None:
        return launch.device_read_bytes or 0, launch.device_written_bytes or 0, "devices"
    if launch.read_bytes is not None or launch.written_bytes is not None:
        return launch.read_bytes or 0, launch.written_bytes or 0, "calls"
    return 0, 0, "estimated"


def _part(size: int, turn: int) -> int:
    return size * (turn + 1) // TURNS - size * turn // TURNS


def _phase(
    seconds: float, cpu_s: float, threads: float, read: int, written: int, io_wait_s: float = 0.0
) -> PhaseProfile:
    return PhaseProfile(
        seconds=round(seconds, 6),
        cpu_s=round(cpu_s, 6),
        threads=max(1e-6, round(threads, 6)),
        io_wait_s=round(io_wait_s, 6),
        read_bytes={"data": read} if read else {},
        written_bytes={"work": written} if written else {},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedJob:
    """The launches of one job: medians over those that ended well, in seconds."""

    test: str
    launches: int
    job_real_s: float
    """Of the job that was profiled."""
    real_s: float | None
    cpu_s: float | None
    ratio: float | None
    """Real time of the replay to that of the job."""


def replayed_jobs(profiles: Profiles, launches: Iterable[LaunchRecord]) -> list[ReplayedJob]:
    """One row for each job, in the order of the first launches."""
    groups: dict[str, list[LaunchRecord]] = {}
    for launch in launches:
        groups.setdefault(launch.test, []).append(launch)
    return [_job(test, profiles.profiles[test].real_s, group) for test, group in groups.items()]


def _job(test: str, job_s: float, group: list[LaunchRecord]) -> ReplayedJob:
    whole = [record for record in group if record.ok and record.real_s is not None]
    real = statistics.median(record.real_s or 0.0 for record in whole) if whole else None
    cpu = [(record.user_s or 0.0) + (record.system_s or 0.0) for record in whole]
    return ReplayedJob(
        test=test,
        launches=len(group),
        job_real_s=job_s,
        real_s=real,
        cpu_s=statistics.median(cpu) if cpu else None,
        ratio=real / job_s if real is not None and job_s else None,
    )
