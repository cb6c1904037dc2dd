"""What the user asks of the workload, checked at the edge, and the plan that comes of it, or of a replay.

A replay has a launch for each job of the profiles, in the streams in which they ran.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.errors import GridwrightError, Problem
from gridwright.machine import physical_cores
from gridwright.runs.profiles import LaunchProfile, Profiles
from gridwright.runs.repeats import MAX_REPEATS
from gridwright.runs.workload_judge import WorkloadNeeds
from gridwright.spec import GridSpec
from gridwright.spec.model import LibraryName
from gridwright.spec.requirements import WorkloadRequires
from gridwright.units import Bytes
from gridwright.workload.launches.program_request import NOTHING, ReplayPhase, ReplayWork
from gridwright.workload.matrix import BLOCKS, MAX_STREAMS, Matrix, MatrixEntry, wrong_block
from gridwright.workload.messages import PlannedLaunch, RunRequest, Scale
from gridwright.workload.programs.program import REPLAY, program_of

DEFAULT_SEED = 1
DEFAULT_THREADS = 4
"""Cores of a threaded test, if the node has as many: grids run many jobs at once, and a job that
took all cores would only make the others wait."""
LIBRARIES: tuple[LibraryName, ...] = ("data", "work", "util")


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """The flags of `gridwright workload`; sizes in bytes, times in seconds, None as the scale has it."""

    matrix: Matrix
    scale: Scale
    seed: int = DEFAULT_SEED
    memory_bytes: int | None = None
    time_limit_s: float | None = None
    threads: int | None = None
    block_bytes: int | None = None
    keep: bool = False
    allow_disturbed: bool = False
    repeat: int = 1
    """How many times the whole matrix is run."""
    replayed: Mapping[str, ReplayWork] = field(default_factory=dict)
    """What launches of profiles do, by their names."""

    @property
    def block(self) -> int:
        """Bytes of a block: as the user says, else as the matrix has it."""
        return self.block_bytes or self.matrix.block


def check_options(
    *,
    streams: int | None,
    seed: int,
    memory_bytes: int | None,
    time_limit_s: float | None,
    threads: int | None,
    block_bytes: int | None = None,
    repeat: int = 1,
) -> list[Problem]:
    """All that is wrong with the figures."""
    checks = [
        (streams, 1, MAX_STREAMS, "--streams"),
        (seed, 0, 2**63 - 1, "--seed"),
        (memory_bytes, 64 << 20, 1 << 50, "--memory"),
        (time_limit_s, 1, 30 * 86400, "--time-limit"),
        (threads, 1, 1024, "--threads"),
        (repeat, 1, MAX_REPEATS, "--repeat"),
    ]
    blocks = []
    if block_bytes is not None and (wrong := wrong_block(block_bytes)):
        blocks = [Problem(what=wrong, where="--block", remedy=BLOCKS)]
    return blocks + [
        Problem(
            what=f"{value:g} is out of range" if isinstance(value, float) else f"{value} is out of range",
            where=flag,
            remedy=f"from {low} to {high}",
        )
        for value, low, high, flag in checks
        if value is not None and not low <= value <= high
    ]


def check_cores(matrix: Matrix, cores: int, where: str) -> list[Problem]:
    """Launches that ask for more cores than any node has; `where` is what the user called the matrix."""
    asked: dict[tuple[str, int], str] = {}
    for stream, entries in enumerate(matrix.streams):
        for number, entry in enumerate(entries):
            if entry.cores is not None and entry.cores > cores:
                asked.setdefault((entry.label, entry.cores), f"streams.{stream}.{number}.cores")
    return [
        Problem(
            what=f"launch {label} asks for {many} cores, and no node has more than {cores}",
            where=where,
            field=field,
            remedy=f"write cores: {cores}, or fewer",
        )
        for (label, many), field in asked.items()
    ]


def library_directories(spec: GridSpec) -> dict[str, Path]:
    """The directories of the three libraries.

    Raises GridwrightError if the spec lacks one, or engines cannot open one by its name.
    """
    lacking = [name for name in LIBRARIES if name not in spec.libraries]
    if lacking:
        where = str(spec.file) if spec.file else None
        raise GridwrightError(
            *(
                Problem(
                    what=f"the workload needs a library {name}, and the grid has none",
                    where=where,
                    field=f"libraries.{name}",
                    remedy=f"add it: {name}: {{filesystem: NAME}}",
                )
                for name in lacking
            )
        )
    directories: dict[str, Path] = {name: spec.library_directory(name) for name in LIBRARIES}
    if problem := _no_names(directories):
        raise GridwrightError(problem)
    return directories


def _no_names(directories: Mapping[str, Path]) -> Problem | None:
    """What is wrong with the names of directories for engines, which take them in UTF-8 alone."""
    wrong = {name: path for name, path in directories.items() if os.fsencode(path) != _utf8(path)}
    if not wrong:
        return None
    first = next(iter(wrong.values()))
    try:
        os.fsencode(first).decode()
        remedy = "run it with LC_ALL=C.UTF-8"
    except UnicodeDecodeError:
        remedy = "put libraries in directories whose names are UTF-8; gridwright iotest takes any name"
    what = (
        f"library {', '.join(wrong)}: engines of the tests take names in UTF-8, and in this locale it is none"
    )
    return Problem(what, where=str(first), remedy=remedy)


def _utf8(path: Path) -> bytes:
    return str(path).encode("utf-8", "replace")


def needs_of(spec: GridSpec) -> WorkloadNeeds:
    """What the grid spec requires of the workload, and of the libraries below it."""
    requires = (spec.workload.requires if spec.workload else None) or WorkloadRequires()
    return WorkloadNeeds(
        ratio=requires.ratio,
        tests=dict(requires.tests),
        real_s=requires.real_time,
        libraries={
            name: library.requires.bytes_per_s
            for name, library in spec.libraries.items()
            if library.requires is not None
        },
    )


def copies_of(matrix: Matrix) -> int:
    """How many copies of the data its streams read."""
    return min(matrix.copies, len(matrix.streams))


def plan_request(
    options: WorkloadOptions,
    libraries: Mapping[str, Path],
    *,
    node: str,
    cores: int | None = None,
    repeat: int = 1,
) -> RunRequest:
    """The request of an agent: every launch of every stream with its limits, for the `repeat`-th time.

    `cores` are those of the smallest node, by default of this one. Tests read the copy of the data of
    their stream's number; stream n, copy n modulo copies.
    """
    matrix = options.matrix
    cores = cores or physical_cores()
    copies = copies_of(matrix)
    number = (repeat - 1) * matrix.launches
    streams = []
    for stream, entries in enumerate(matrix.streams):
        planned = []
        for entry in entries:
            number += 1
            planned.append(_launch(entry, options, number=number, stream=stream, copies=copies, cores=cores))
        streams.append(planned)
    return RunRequest(
        node=node,
        libraries={name: str(path) for name, path in libraries.items()},
        scale=options.scale.name,
        seed=options.seed,
        copies=copies,
        streams=streams,
        keep=options.keep,
        workers=cores,
    )


def _launch(
    entry: MatrixEntry, options: WorkloadOptions, *, number: int, stream: int, copies: int, cores: int
) -> PlannedLaunch:
    program = program_of(entry.test) if entry.test else None
    threaded = program is not None and program.threaded
    threads = min(options.threads or DEFAULT_THREADS, cores)
    return PlannedLaunch(
        number=number,
        test=entry.test,
        label=entry.label,
        class_=program.class_ if program and entry.test != REPLAY else "command",
        command=list(entry.command or ()),
        tables=list(program.tables) if program else [],
        stream=stream + 1,
        copy=stream % copies,
        cores=entry.cores or (threads if threaded else 1),
        memory_bytes=entry.memory or options.memory_bytes or options.scale.memory_bytes,
        time_limit_s=entry.time_limit or options.time_limit_s or options.scale.time_limit_s,
        replay=options.replayed.get(entry.label, NOTHING),
        block_bytes=options.block,
    )


_SPARE_MEMORY = 256 << 20
"""What the replaying process itself takes, and then some."""
_TIMES_AS_LONG = 20.0
"""A launch that takes so many times as long as its job is ended."""


def replay_options(
    profiles: Profiles, streams: Sequence[Sequence[str]], scale: Scale, *, hold_memory: bool, keep: bool
) -> WorkloadOptions:
    """The options of a run that replays these streams; `scale` is that of the tables it reads."""
    chosen = profiles.of(test for stream in streams for test in stream)
    works = {name: _work(profile, hold_memory) for name, profile in chosen.items()}
    entries = {
        name: MatrixEntry.model_construct(
            test=REPLAY,
            name=name,
            command=None,
            cores=profile.cores,
            memory=Bytes(_SPARE_MEMORY + round(1.25 * works[name].memory_bytes)),
            time_limit=max(scale.time_limit_s, _TIMES_AS_LONG * profile.real_s),
        )
        for name, profile in chosen.items()
    }
    label = re.sub(r"[^A-Za-z0-9._-]+", "-", f"replay-of-{profiles.run}")[:63]
    matrix = Matrix.model_construct(
        name=label,
        description="",
        source="",
        copies=1,
        streams=tuple(tuple(entries[name] for name in stream) for stream in streams),
    )
    return WorkloadOptions(matrix=matrix, scale=scale, keep=keep, replayed=works)


def _by_name(sizes: Mapping[LibraryName, int]) -> dict[str, int]:
    return {str(library): size for library, size in sizes.items()}


def _work(profile: LaunchProfile, hold_memory: bool) -> ReplayWork:
    phases = [
        ReplayPhase(
            cpu_s=phase.cpu_s,
            threads=phase.threads,
            read_bytes=_by_name(phase.read_bytes),
            written_bytes=_by_name(phase.written_bytes),
            cached_bytes=_by_name(phase.cached_bytes or {}),
        )
        for phase in profile.phases
    ]
    return ReplayWork(phases, (profile.peak_memory_bytes or 0) if hold_memory else 0)
