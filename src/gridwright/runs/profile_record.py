"""Makes launch profiles from the record of a workload: for each test, its median launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from gridwright.errors import Finding, GridwrightError, Problem
from gridwright.runs.launch_record import LaunchPhase, LaunchRecord
from gridwright.runs.profile_estimate import DEFAULT_RATE, estimated_phases, has_totals
from gridwright.runs.profiles import LaunchProfile, PhaseProfile, Profiles
from gridwright.runs.records import RunRecord
from gridwright.runs.workload_record import WorkloadRecord
from gridwright.spec.model import LibraryName

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
