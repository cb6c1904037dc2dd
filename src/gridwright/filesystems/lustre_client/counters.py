"""What Lustre moved between two readings: by target, by client, by job; each reading takes root."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gridwright.errors import environment_error
from gridwright.filesystems.health import Run, Traffic
from gridwright.filesystems.lustre_client.parameters import Parameters, is_root, read_parameters
from gridwright.filesystems.lustre_client.stats import Stats, parse_job_stats, parse_stats

HERE = ""
"""As a server or client in Traffic: the node that was asked."""


@dataclass(frozen=True, slots=True)
class Counted:
    """One set of statistics and what it is of."""

    stats: Stats
    target: str = ""
    client: str = ""
    """NID of the client, or job on it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Statistics of one kind, all read at once, by the name of their parameter (and job)."""

    of: Mapping[str, Counted] = field(default_factory=dict)


def read_target_counters(run: Run, name: str) -> Reading:
    """On a server of file system `name`: what each of its OSTs moved, for all clients together."""
    return _read(run, f"obdfilter.{name}-OST*.stats", r"obdfilter\.(?P<target>[^.]+)\.stats")


def read_client_counters(run: Run, name: str) -> Reading:
    """On a server of file system `name`: what each OST moved for each client, by the client's NID."""
    pattern = r"obdfilter\.(?P<target>[^.]+)\.exports\.(?P<client>.+)\.stats"
    return _read(run, f"obdfilter.{name}-OST*.exports.*@*.stats", pattern)


def read_job_counters(run: Run, name: str) -> Reading:
    """On a server of file system `name`: what each OST moved for each job (jobid_var says what a job is)."""
    _refuse_without_root(run)
    told = read_parameters(run, [f"obdfilter.{name}-OST*.job_stats"])
    return Reading(
        {
            f"{parameter} {job}": Counted(stats, parameter.split(".")[1], job)
            for parameter, value in told.values.items()
            for job, stats in parse_job_stats(value).items()
        }
    )


def read_own_counters(run: Run, name: str) -> Reading:
    """On a client of file system `name`: what programs read and wrote there, whatever came from its cache."""
    return _read(run, f"llite.{name}-*.stats", r"llite\.(?P<client>[^.]+)\.stats")


def read_connection_counters(run: Run, name: str) -> Reading:
    """On a client of file system `name`: what it moved to and from each OST."""
    pattern = r"osc\.(?P<target>[^.]+-OST[0-9a-f]{4})-osc-[^.]+\.stats"
    return _read(run, f"osc.{name}-OST*-osc-[!M]*.stats", pattern)


def traffic(before: Reading, after: Reading, *, seconds: float | None = None) -> list[Traffic]:
    """What was moved between two readings of one kind.

    The time is that of the node's own snapshots (of a job: from its last activity to its last activity);
    `seconds` where these are switched off. What is new began at zero; left out is what was cleared or began
    anew meanwhile, and what may have been there before unseen: no figure is better than a wrong one.
    """
    since = max((each.stats.snapshot_s or 0.0 for each in before.of.values()), default=0.0)
    found = []
    for name, new in after.of.items():
        old = before.of.get(name) or _zero(new, since)
        if old is None or old.stats.start_s != new.stats.start_s:
            continue
        span = seconds
        if new.stats.snapshot_s is not None and old.stats.snapshot_s is not None:
            span = new.stats.snapshot_s - old.stats.snapshot_s
        moved = [_moved(old.stats, new.stats, operation) for operation in ("read_bytes", "write_bytes")]
        if span is None or span <= 0 or min(figure for pair in moved for figure in pair) < 0:
            continue
        (read_bytes, reads), (written_bytes, writes) = moved
        found.append(
            Traffic(
                server=HERE,
                seconds=span,
                read_bytes=read_bytes,
                written_bytes=written_bytes,
                reads=reads,
                writes=writes,
                target=new.target,
                client=new.client,
            )
        )
    return found


def _zero(new: Counted, since: float) -> Counted | None:
    """What a set of statistics was when it began, if that was after `since`."""
    start = new.stats.start_s
    return Counted(Stats(start, start)) if start is not None and start > since else None


def _moved(old: Stats, new: Stats, operation: str) -> tuple[int, int]:
    return new.total(operation) - old.total(operation), new.samples(operation) - old.samples(operation)


def _read(run: Run, parameter: str, pattern: str) -> Reading:
    _refuse_without_root(run)
    return parse_reading(read_parameters(run, [parameter]), pattern, parse_stats)


def parse_reading(told: Parameters, pattern: str, parse: Callable[[str], Stats]) -> Reading:
    """Statistics of the parameters whose name `pattern` fits; its groups `target` and `client` name them."""
    found: dict[str, Counted] = {}
    for name, value in told.values.items():
        if match := re.fullmatch(pattern, name):
            parts = match.groupdict()
            found[name] = Counted(parse(value), parts.get("target") or "", parts.get("client") or "")
    return Reading(found)


def _refuse_without_root(run: Run) -> None:
    if not is_root(run):
        raise environment_error(
            "statistics of Lustre are told to root only; to others their last digits are cut off",
            remedy="run it as root (sudo)",
        )
