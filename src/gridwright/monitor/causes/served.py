"""Servers and targets as clients see them: how long requests take, and how many are under way (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from gridwright.monitor.causes.use import ResourceSort, ResourceUse
from gridwright.monitor.rows import SeenNode

SLOW = 3.0
"""A target whose requests take so many times what those of the others take in the middle: targets of a file
system are alike, and requests are spread over them without looking at what each one can do."""
LEAST_S = 0.01
"""Shorter requests are no trouble whatever others take; a seek of a rotating disk takes as long."""
LEAST_PER_S = 1.0
"""With fewer requests a mean says little: clients ping each target every few seconds."""
_OTHERS = 2
"""So many other targets have to be at work, or nobody knows what is usual."""
UNDER_WAY = 0.5
"""From this many requests under way on average on, somebody waits half of the time or more."""


@dataclass(frozen=True, slots=True)
class TargetWait:
    """Requests to a target, by all nodes together."""

    requests_per_s: float
    under_way: float
    """On average: the time that all requests took, per second."""
    bytes_per_s: float

    @property
    def seconds_per_request(self) -> float:
        """What one takes."""
        return self.under_way / self.requests_per_s if self.requests_per_s else 0.0


def waits_of(nodes: Sequence[SeenNode], points: Mapping[str, Sequence[str]]) -> dict[str, TargetWait]:
    """By target, of the mounts at these points of each node; only those whose clients count time."""
    waits: dict[str, TargetWait] = {}
    for node in nodes:
        figures = node.figures
        for labels in figures.labels("gridwright_mount_waited_seconds_total"):
            point, target = labels
            rates = [
                figures.rate(f"gridwright_mount_{name}_total", *labels)
                for name in ("reads", "writes", "waited_seconds", "read_bytes", "written_bytes")
            ]
            known = [rate for rate in rates if rate is not None]
            if point not in points.get(node.name, ()) or len(known) != len(rates):
                continue
            reads, writes, under_way, read, written = known
            before = waits.get(target, TargetWait(0.0, 0.0, 0.0))
            waits[target] = TargetWait(
                before.requests_per_s + reads + writes,
                before.under_way + under_way,
                before.bytes_per_s + read + written,
            )
    return waits


def target_uses(waits: Mapping[str, TargetWait]) -> Iterator[ResourceUse]:
    """Targets that are slower than the others."""
    at_work = {name: each for name, each in waits.items() if each.requests_per_s >= LEAST_PER_S}
    for name, wait in at_work.items():
        others = [other.seconds_per_request for it, other in at_work.items() if it != name]
        if len(others) < _OTHERS:
            return
        usual = median(others)
        if wait.seconds_per_request < max(LEAST_S, SLOW * usual):
            continue
        total = sum(wait.under_way for wait in at_work.values())
        yield ResourceUse(
            sort=ResourceSort.TARGET,
            name=f"target {name}",
            used=wait.under_way,
            capacity=None,
            unit="requests",
            part=wait.under_way / total if total else None,
            binds=True,
            text=f"requests to target {name} take {_time(wait.seconds_per_request)}, and {_time(usual)} to "
            f"the {len(others)} others in the middle; {wait.under_way / total if total else 0:.0%} of all "
            "waiting is for it",
            source="what clients count of their requests",
        )


def server_use(filesystem: str, waits: Mapping[str, TargetWait]) -> ResourceUse | None:
    """The servers of a file system, where clients wait for their answers much of the time; else None."""
    under_way = sum(wait.under_way for wait in waits.values())
    requests = sum(wait.requests_per_s for wait in waits.values())
    if under_way < UNDER_WAY or requests < LEAST_PER_S:
        return None
    return ResourceUse(
        sort=ResourceSort.SERVER,
        name=f"servers of {filesystem}",
        used=under_way,
        capacity=None,
        unit="requests",
        binds=True,
        text=f"requests to the servers of {filesystem} take {_time(under_way / requests)}, {under_way:.1f} "
        "are under way: clients wait for them, or for the network in between",
        source="what clients count of their requests",
    )


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
