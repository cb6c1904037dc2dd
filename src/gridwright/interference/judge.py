"""Judges whether others disturbed a measurement, by the limits in data/limits.csv, and names them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib import resources

from gridwright.runs.load_record import ForeignProcess, Interference, NodeLoad
from gridwright.units import format_bytes, format_rate


@dataclass(frozen=True, slots=True)
class InterferenceLimits:
    """Parts from 0 to 1, but for `traffic_floor` in bytes/s and `least_cpu` in seconds."""

    cpu: float
    unseen: float
    steal: float
    throttling: float
    traffic: float
    traffic_floor: float
    overhead: float
    memory: float
    memory_held: float
    least_cpu: float


@cache
def limits() -> InterferenceLimits:
    """The limits of this release."""
    rows = {row["name"]: float(row["limit"]) for row in table()}
    return InterferenceLimits(**{field.name: rows[field.name] for field in fields(InterferenceLimits)})


def table() -> list[dict[str, str]]:
    """The rows as they stand in the file: name, limit, unit, reason."""
    text = resources.files("gridwright.interference").joinpath("data/limits.csv").read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


HYPERVISOR = "hypervisor"
_NAMED = 3
"""Processes that are named together."""


def disturbances(load: NodeLoad, *, sequential: bool = True) -> list[Interference]:
    """Everything that went beyond a limit, worst first, other runs before all.

    `sequential` says that the test moved data: beside operations on small files a file system's own journal
    cannot be told from others' traffic where these cannot be asked.
    """
    found = [*_cpu(load), *_steal(load), *_throttling(load), *_memory(load)]
    if sequential or load.sees_traffic:
        found += _traffic(load)
    return [*_runs(load), *sorted(found, key=lambda each: -(each.share or 0.0))]


def on_node(node: str, interferences: list[Interference]) -> list[Interference]:
    """The same, of a node that is named."""
    return [replace(interference, node=node) for interference in interferences]


def _runs(load: NodeLoad) -> Iterator[Interference]:
    for run in load.runs:
        called = f"{run.what} {run.run} of {run.user} on {run.host}"
        text = f"another run of Gridwright uses this file system: {called}"
        yield Interference("run", run.run, run.user, None, None, text)
    if load.unseen_runs is not None:
        text = f"whether other runs of Gridwright use this file system is not known: {load.unseen_runs}"
        yield Interference("run", "unknown", None, None, None, text)


def _cpu(load: NodeLoad) -> Iterator[Interference]:
    unseen = max(0.0, load.unseen_s - limits().unseen * load.cpu_s)
    foreign = load.foreign_s + unseen
    share = foreign / load.cpu_s
    if share <= limits().cpu or foreign < limits().least_cpu:
        return
    busiest = max(load.processes, key=lambda each: each.cpu_s, default=None)
    if busiest is None or unseen > busiest.cpu_s:
        name = "short-lived processes" if load.sees_all else "processes outside this container"
        text = f"{name} used {_percent(unseen / load.cpu_s)} of the CPU time"
        yield Interference("cpu", name, None, share, limits().cpu, text)
        return
    most = sorted(load.processes, key=lambda each: -each.cpu_s)[:_NAMED]
    named = [each for each in most if each is busiest or each.cpu_s >= limits().cpu / 2 * load.cpu_s]
    own = sum(each.cpu_s for each in named) / load.cpu_s
    text = f"{_called(busiest)} used {_percent(busiest.cpu_s / load.cpu_s)} of the CPU time"
    text += "".join(f", {_called(each)} {_percent(each.cpu_s / load.cpu_s)}" for each in named[1:])
    if share - own > 0.01:
        text += f"; with all others it is {_percent(share)}"
    yield Interference("cpu", busiest.name, busiest.user, share, limits().cpu, text)


def _steal(load: NodeLoad) -> Iterator[Interference]:
    share = load.steal_s / load.cpu_s
    if share > limits().steal and load.steal_s >= limits().least_cpu:
        text = f"the hypervisor took {_percent(share)} of the CPU time (steal)"
        yield Interference("steal", HYPERVISOR, None, share, limits().steal, text)


def _throttling(load: NodeLoad) -> Iterator[Interference]:
    group = load.throttling
    if group is None or not group.periods:
        return
    share = group.throttled / group.periods
    if share > limits().throttling:
        stopped = f"stopped processes in {_percent(share)} of its periods"
        text = f"the CPU limit of control group {group.group} {stopped}"
        yield Interference("throttling", group.group, None, share, limits().throttling, text)


def _traffic(load: NodeLoad) -> Iterator[Interference]:
    for device in load.devices:
        if not device.moved_bytes or device.foreign_bytes / load.seconds < limits().traffic_floor:
            continue
        share = device.foreign_bytes / device.moved_bytes
        if share <= limits().traffic:
            continue
        mover = max(load.processes, key=lambda each: each.moved_bytes, default=None)
        known = mover is not None and mover.moved_bytes > 0
        who = _called(mover) if mover and known else "other processes (root can see which)"
        rate = format_rate(device.foreign_bytes / load.seconds)
        text = f"{who} moved {rate} on {device.device}, {_percent(share)} of its traffic"
        name, user = (mover.name, mover.user) if mover and known else ("unknown", None)
        yield Interference("traffic", name, user, share, limits().traffic, text)


def _memory(load: NodeLoad) -> Iterator[Interference]:
    waited = load.pressure.get("memory")
    held = load.foreign_memory_bytes / load.memory_bytes if load.memory_bytes else 0.0
    if waited is None or waited.some <= limits().memory or held <= limits().memory_held:
        return
    largest = max(load.processes, key=lambda each: each.memory_bytes, default=None)
    who = _called(largest) if largest else "others"
    text = (
        f"tasks waited for memory in {_percent(waited.some)} of the time, and others held "
        f"{format_bytes(load.foreign_memory_bytes)}, most of all {who}"
    )
    name, user = (largest.name, largest.user) if largest else ("unknown", None)
    yield Interference("memory", name, user, waited.some, limits().memory, text)


def _called(process: ForeignProcess) -> str:
    return f"process {process.name} of {process.user}"


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
