"""The nodes of a workload side by side, and what running it as jobs cost."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence

from gridwright.runs.launch_record import LaunchRecord
from gridwright.runs.samples import SampleRow
from gridwright.runs.workload_diagnosis import causes
from gridwright.runs.workload_record import NodeSummary


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
    whole = [each for each in launches if each.ok]
    shares = causes(whole)
    real, user, system = (_sum(whole, key) for key in ("real_s", "user_s", "system_s"))
    ratios = [each.cpu_real_ratio for each in whole if each.cpu_real_ratio is not None]
    read, written = _sum(whole, "read_bytes"), _sum(whole, "written_bytes")
    return NodeSummary(
        node=name,
        launches=len(launches),
        failed=sum(not each.ok for each in launches),
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


def _sum(launches: Sequence[LaunchRecord], key: str) -> float | None:
    known = [value for each in launches if (value := getattr(each, key)) is not None]
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
    """Seconds from handing in a launch's job to the start of the launch, where it was started once."""
    for launch in launches:
        if launch.submitted is not None and launch.started is not None and not launch.restarts:
            yield max(0.0, launch.started - launch.submitted)
