"""What the user asks of the workload, checked at the edge, and the plan that comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gridwright.errors import GridwrightError, Problem
from gridwright.machine import physical_cores
from gridwright.spec import GridSpec
from gridwright.spec.model import LibraryName
from gridwright.workload.matrix import MAX_STREAMS, Matrix, MatrixEntry
from gridwright.workload.messages import PlannedLaunch, RunRequest
from gridwright.workload.programs import registry
from gridwright.workload.scales import Scale

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
    keep: bool = False


def check_options(
    *,
    streams: int | None,
    seed: int,
    memory_bytes: int | None,
    time_limit_s: float | None,
    threads: int | None,
) -> list[Problem]:
    """All that is wrong with the figures."""
    checks = [
        (streams, 1, MAX_STREAMS, "--streams"),
        (seed, 0, 2**63 - 1, "--seed"),
        (memory_bytes, 64 << 20, 1 << 50, "--memory"),
        (time_limit_s, 1, 30 * 86400, "--time-limit"),
        (threads, 1, 1024, "--threads"),
    ]
    return [
        Problem(
            what=f"{value:g} is out of range" if isinstance(value, float) else f"{value} is out of range",
            where=flag,
            remedy=f"from {low} to {high}",
        )
        for value, low, high, flag in checks
        if value is not None and not low <= value <= high
    ]


def library_directories(spec: GridSpec) -> dict[str, Path]:
    """The directories of the three libraries. Raises GridwrightError if the spec lacks one."""
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
    return {name: spec.library_directory(name) for name in LIBRARIES}


def plan_request(
    options: WorkloadOptions, libraries: Mapping[str, Path], *, node: str, cores: int | None = None
) -> RunRequest:
    """The request of an agent: every launch of every stream with its limits.

    `cores` are those of the smallest node, by default of this one. Tests read the copy of the data of
    their stream's number; stream n, copy n modulo copies.
    """
    matrix = options.matrix
    cores = cores or physical_cores()
    copies = min(matrix.copies, len(matrix.streams))
    number = 0
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
    program = registry.program(entry.test) if entry.test else None
    threaded = program is not None and program.threaded
    threads = min(options.threads or DEFAULT_THREADS, cores)
    return PlannedLaunch(
        number=number,
        test=entry.test,
        label=entry.label,
        class_=program.class_ if program else "command",
        command=list(entry.command or ()),
        tables=list(program.tables) if program else [],
        stream=stream + 1,
        copy=stream % copies,
        cores=entry.cores or (threads if threaded else 1),
        memory_bytes=entry.memory or options.memory_bytes or options.scale.memory_bytes,
        time_limit_s=entry.time_limit or options.time_limit_s or options.scale.time_limit_s,
    )
