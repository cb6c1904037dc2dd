"""A site's own table of jobs, one row each, as the profiles of a night: `night.parquet` or `night.csv`.

`launches.parquet` of an imported run is such a table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gridwright.errors import GridwrightError, Problem, nearest
from gridwright.refusals import refusal
from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.parquet import launch_columns, read_columns
from gridwright.runs.profiles import DEFAULT_RATE, LaunchProfile, Profiles, estimated_phases
from gridwright.runs.records import HostFacts
from gridwright.workload.imports.accounting import assign_streams

SUFFIXES: Final = (".parquet", ".csv")
MOST_JOBS: Final = 100_000
"""Rows that are read; a night of more is no night of one grid that is simulated in minutes."""
MOST_PROBLEMS: Final = 50
"""Wrong cells that are named; more are counted."""
_LONGEST_S = 366 * 86400.0
_MOST = 1e18
"""No byte count, moment or number of cores is as large."""
_WHOLE = ("cores", "stream", "read_bytes", "written_bytes", "peak_memory_bytes")
_DEVICES = ("device_read_bytes", "device_written_bytes")
_SECONDS = ("real_s", "cpu_s", "user_s", "system_s")
_MOMENTS = ("started", "ended")
_FIGURES = frozenset((*_WHOLE, *_DEVICES, *_SECONDS, *_MOMENTS))
_REMEDY = "gridwright help workload has the columns of a table of jobs"


@dataclass(frozen=True, slots=True)
class JobTable:
    """Profiles of jobs, in the streams in which they ran; `failed` were left out."""

    profiles: Profiles
    streams: tuple[tuple[str, ...], ...]
    failed: int


def read_jobs(path: Path) -> JobTable:
    """Read such a table. Raises GridwrightError with all that is wrong, each with its row and column."""
    try:
        columns = read_columns(path, MOST_JOBS)
    except OSError as error:
        why = refusal(path, error, _REMEDY)
        raise GridwrightError(
            Problem(f"cannot be read: {why.reason}", str(path), remedy=why.remedy)
        ) from error
    except ValueError as error:
        raise GridwrightError(Problem(f"is no table: {error}", str(path), remedy=_REMEDY)) from error
    name = "name" if "name" in columns else "test"
    problems = [*_column_problems(columns, name, str(path))]
    if not problems:
        problems = [*_cell_problems(columns, name, str(path))]
    if problems:
        more = len(problems) - MOST_PROBLEMS
        shown = problems[:MOST_PROBLEMS]
        if more > 0:
            shown.append(Problem(f"{more} more cells are wrong", str(path), remedy=_REMEDY))
        raise GridwrightError(*shown)
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    kept = [row for row in rows if row.get("ok") is not False]
    if not kept:
        raise GridwrightError(Problem("has no job that ended well", str(path), remedy=_REMEDY))
    return _table(
        path, [_launch(number, row, name) for number, row in enumerate(kept, 1)], len(rows) - len(kept)
    )


def _column_problems(columns: Mapping[str, Sequence[Any]], name: str, where: str) -> Iterator[Problem]:
    """Columns that are absent, and those that nobody reads: they may be misspelt."""
    known = {"name", "cpu_s", *launch_columns()}
    for column in columns:
        if column not in known:
            near = nearest(column, known)
            hint = f"did you mean {near}?" if near else "leave it out"
            yield Problem(f"nothing reads a column {column[:64]!r}", where, remedy=f"{hint} {_REMEDY}")
    needed = [name if name in columns else "name", "real_s"]
    needed += [] if "cpu_s" in columns or "user_s" in columns else ["cpu_s"]
    needed += [] if "stream" in columns or "started" in columns else ["started"]
    for column in needed:
        if column not in columns:
            also = {"cpu_s": " (or user_s and system_s)", "started": " (or stream)"}.get(column, "")
            yield Problem(f"has no column {column}{also}", where, remedy=_REMEDY)


def _cell_problems(columns: Mapping[str, Sequence[Any]], name: str, where: str) -> Iterator[Problem]:
    cpu = "cpu_s" if "cpu_s" in columns else "user_s"
    order = "stream" if "stream" in columns else "started"
    ended_well = columns.get("ok") or [True] * len(columns[name])
    for row, ok in enumerate(ended_well):
        if ok is False:
            continue
        for column, values in columns.items():
            wrong = _wrong(column, values[row], name, needed=column in (name, "real_s", cpu, order))
            if wrong:
                yield Problem(wrong, f"{where}: row {row + 1}, column {column}", remedy=_REMEDY)


def _wrong(column: str, value: object, name: str, *, needed: bool) -> str | None:
    """What is wrong with a cell; None where nothing is, or where nobody reads it."""
    if value is None:
        return "is empty" if needed else None
    if column == name:
        return None if isinstance(value, str) and value.strip() else f"{str(value)[:40]!r} is no name"
    if column == "ok":
        return None if isinstance(value, bool) else f"{str(value)[:40]!r} is neither true nor false"
    return _wrong_figure(column, value) if column in _FIGURES else None


def _wrong_figure(column: str, value: object) -> str | None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        return f"{str(value)[:40]!r} is no number"
    least = 1 if column in ("cores", "stream") else 0
    most = _LONGEST_S if column in _SECONDS else _MOST
    if column == "real_s" and value == 0:
        return "0 is no time that a job takes"
    if not least <= value <= most:
        return f"{value:g} is not within {least} and {most:g}"
    if column in (*_WHOLE, *_DEVICES) and value != int(value):
        return f"{value:g} is no whole number"
    return None


def _launch(number: int, row: Mapping[str, Any], name: str) -> LaunchRecord:
    started, real_s = row.get("started"), float(row["real_s"])
    ended = (
        row.get("ended") if row.get("ended") is not None else None if started is None else started + real_s
    )
    whole = {key: None if row.get(key) is None else int(row[key]) for key in (*_WHOLE, *_DEVICES)}
    return LaunchRecord(
        number=number,
        test=row[name].strip(),
        class_="command",
        stream=whole["stream"] or 0,
        node="",
        cores=whole["cores"] or 1,
        started=started,
        ended=ended,
        real_s=real_s,
        user_s=float(row["cpu_s"] if row.get("cpu_s") is not None else row["user_s"]),
        system_s=0.0 if row.get("cpu_s") is not None else float(row.get("system_s") or 0.0),
        peak_memory_bytes=whole["peak_memory_bytes"],
        read_bytes=whole["read_bytes"],
        written_bytes=whole["written_bytes"],
        device_read_bytes=whole["device_read_bytes"],
        device_written_bytes=whole["device_written_bytes"],
        ok=True,
    )


def _table(path: Path, launches: Sequence[LaunchRecord], failed: int) -> JobTable:
    if not all(launch.stream for launch in launches):
        launches = assign_streams(launches)
    profiles: dict[str, LaunchProfile] = {}
    taken: dict[tuple[Any, ...], str] = {}
    streams: dict[int, list[str]] = {}
    # Those of a stream follow each other by their start; without one in the order of their rows.
    for launch in sorted(launches, key=lambda each: (each.stream, each.started or 0.0, each.number)):
        figures = _figures(launch)
        if figures not in taken:
            taken[figures] = _free_name(launch.test, profiles)
            profiles[taken[figures]] = _profile(launch)
        streams.setdefault(launch.stream, []).append(taken[figures])
    laid = [streams[number] for number in sorted(streams)]
    unknown = "not known"
    host = HostFacts(
        hostname=unknown,
        kernel=unknown,
        os=None,
        cpu_model=None,
        physical_cores=1,
        logical_cpus=1,
        memory_bytes=0,
    )
    document = Profiles(
        recorded=unknown,
        run=path.name,
        streams=len(laid),
        host=host,
        software={},
        launch_streams=laid,
        profiles=profiles,
    )
    return JobTable(document, tuple(map(tuple, laid)), failed)


def _figures(launch: LaunchRecord) -> tuple[Any, ...]:
    """What makes a job what it is: two rows that agree in it share a profile."""
    moved = (launch.read_bytes, launch.written_bytes, launch.device_read_bytes, launch.device_written_bytes)
    times = (launch.real_s, launch.user_s, launch.system_s)
    return (launch.test, launch.cores, launch.peak_memory_bytes, *times, *moved)


def _free_name(name: str, taken: Mapping[str, object]) -> str:
    """The name of a job, with its count where other jobs of that name did something else."""
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name} ({count})"
    return free


def _profile(launch: LaunchRecord) -> LaunchProfile:
    phases, source = estimated_phases(launch, DEFAULT_RATE)
    return LaunchProfile(
        class_="command",
        launches=1,
        real_s=launch.real_s or 0.0,
        user_s=launch.user_s or 0.0,
        system_s=launch.system_s or 0.0,
        cores=launch.cores,
        peak_memory_bytes=launch.peak_memory_bytes,
        io=source,
        phases=phases,
    )
