"""What a Lustre node tells while people watch: of a server traffic, jobs, locks, room, recovery, connections.

Metrics have the names that lustrefs-exporter has for them, where they mean the same. `WATCHER` answers a
monitor.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gridwright import _native
from gridwright.errors import environment_error
from gridwright.filesystems.counters import FigureSource, ReadCounts, Reading
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.counters import ClientCounters, ParameterFiles
from gridwright.filesystems.lustre_client.parameters import Stats, parse_stats, read_parameters, whole_number

_SLOW_S, _SHAPES_S, _PROCESS_S = 10.0, 30.0, 60.0
_PART = 0.002
"""Of one core for each source that costs more with more targets or jobs: all together stay below 1 %."""
_STATS: Mapping[str, str] = {"obdfilter": "stats", "mdt": "md_stats"}
_COMPONENTS: Mapping[str, str] = {"obdfilter": "ost", "mdt": "mdt"}
_SPACE: Mapping[str, str] = {
    "kbytesavail": "lustre_available_kilobytes",
    "kbytesfree": "lustre_free_kilobytes",
    "kbytestotal": "lustre_capacity_kilobytes",
    "filesfree": "lustre_inodes_free",
    "filestotal": "lustre_inodes_maximum",
}
_LOCKS: Mapping[str, tuple[str, str]] = {"filter-": ("ost", "filter-*_UUID"), "mdt-": ("mdt", "mdt-*_UUID")}


def server_figures(run: Run, root: Path) -> Mapping[str, FigureSource]:
    """What can be read on a node that has Lustre; a client has its connections, and none of the others."""
    files = ParameterFiles(root)
    targets = ServedTargets(files, run)
    return {
        "targets of Lustre": FigureSource(_as_root(targets.traffic), most_part=_PART),
        "recovery of Lustre": FigureSource(_as_root(partial(_standing, files)), _SLOW_S, _PART),
        "room of Lustre's targets": FigureSource(_as_root(partial(_space, files)), _SLOW_S, _PART),
        "shapes of Lustre's requests": FigureSource(_as_root(partial(_shapes, files)), _SHAPES_S, _PART),
        "connections of Lustre": FigureSource(_as_root(partial(_connections, files)), _SLOW_S, _PART),
        "jobs of Lustre": FigureSource(_as_root(ServedJobs(files).read), 1.0, _PART),
        "lctl": FigureSource(_as_root(targets.by_command), _PROCESS_S),
    }


def _as_root(read: Callable[[], list[Reading]]) -> Callable[[], list[Reading]]:
    def reading() -> list[Reading]:
        if os.geteuid() != 0:
            raise environment_error(
                "statistics of Lustre are told to root only; to others their last digits are cut off",
                remedy="run it as root (sudo)",
            )
        return read()

    return reading


@dataclass(slots=True)
class ServedTargets:
    """The counters of all targets of this server."""

    files: ParameterFiles
    run: Run
    _without_file: list[str] = field(default_factory=list)

    def traffic(self) -> list[Reading]:
        """What each target moved and did, and its locks."""
        found: list[Reading] = []
        self._without_file = []
        for layer, name in _STATS.items():
            told = self.files.stats(f"{layer}.*.{name}")
            for parameter, stats in told.items():
                found += _of_target(_COMPONENTS[layer], parameter.split(".")[1], stats)
            for parameter, _ in self.files.find(f"{layer}.*.num_exports"):
                wanted = f"{parameter.rpartition('.')[0]}.{name}"
                self._without_file += [wanted] if wanted not in told else []
        for stats in self.files.stats("ost.OSS.ost.stats").values():
            found += [
                _counter("lustre_oss_ost_stats_total", (operation, "usecs"), row.samples, stats)
                for operation, row in stats.rows.items()
                if operation.startswith("ost_")
            ]
        return [*found, *_lock_readings(self.files)]

    def by_command(self) -> list[Reading]:
        """The same of targets whose counters are no files of this node, by `lctl`, which starts a process.

        Raises GridwrightError (status ENVIRONMENT) where lctl is not there, or does not answer.
        """
        if not self._without_file:
            return []
        found: list[Reading] = []
        for parameter, value in read_parameters(self.run, self._without_file).values.items():
            layer, target, _ = parameter.split(".", 2)
            found += _of_target(_COMPONENTS[layer], target, parse_stats(value))
        return found


def _counter(metric: str, labels: tuple[str, ...], value: float, stats: Stats) -> Reading:
    """By the clock of the server's own snapshot; where its head is switched off, by that of this reading."""
    if stats.snapshot_s is None:
        return Reading(metric, labels, value, time.monotonic())
    return Reading(metric, labels, value, stats.snapshot_s, stats.start_s)


def _of_target(component: str, target: str, stats: Stats) -> Iterator[Reading]:
    if component == "ost":
        for way in ("read", "write"):
            labels = (component, way, target)
            moved, samples = stats.total(f"{way}_bytes"), stats.samples(f"{way}_bytes")
            yield _counter(f"lustre_{way}_bytes_total", labels, moved, stats)
            yield _counter(f"lustre_{way}_samples_total", labels, samples, stats)
    for operation, row in stats.rows.items():
        if component == "mdt" or operation not in {"read_bytes", "write_bytes", "read", "write"}:
            yield _counter("lustre_stats_total", (component, operation, target), row.samples, stats)


def _lock_readings(files: ParameterFiles) -> Iterator[Reading]:
    for prefix, (component, namespace) in _LOCKS.items():
        at = time.monotonic()
        for parameter, value in files.texts(f"ldlm.namespaces.{namespace}.lock_count").items():
            labels = (component, _target_of(parameter, prefix))
            if (count := whole_number(value)) is not None:
                yield Reading("lustre_lock_count", labels, count, at)
        pool = f"ldlm.namespaces.{namespace}.pool.stats"
        for parameter, stats in files.stats(pool, ("grant", "cancel")).items():
            labels = (component, _target_of(parameter, prefix))
            yield _counter("gridwright_lock_grants_total", labels, stats.samples("grant"), stats)
            yield _counter("gridwright_lock_cancels_total", labels, stats.samples("cancel"), stats)


def _target_of(parameter: str, prefix: str) -> str:
    """`scratch-OST0000` out of `ldlm.namespaces.filter-scratch-OST0000_UUID.lock_count`."""
    return parameter.split(".")[2].removeprefix(prefix).removesuffix("_UUID")


def _standing(files: ParameterFiles) -> list[Reading]:
    """Recovery, clients that are connected, and whether Lustre calls itself healthy."""
    found: list[Reading] = []
    for layer, component in _COMPONENTS.items():
        at = time.monotonic()
        for parameter, text in files.texts(f"{layer}.*.recovery_status").items():
            found += recovery_readings(component, parameter.split(".")[1], text, at)
        for parameter, text in files.texts(f"{layer}.*.num_exports").items():
            if (count := whole_number(text)) is not None:
                found.append(Reading("lustre_exports", (component, parameter.split(".")[1]), count, at))
    for text in files.texts("health_check").values():
        healthy = float(text.strip() == "healthy")
        found.append(Reading("lustre_health_healthy", (), healthy, time.monotonic()))
    return found


def _space(files: ParameterFiles) -> list[Reading]:
    """How much the disks of targets hold."""
    found = []
    for name, metric in _SPACE.items():
        at = time.monotonic()
        for parameter, text in files.texts(f"osd-*.*.{name}").items():
            target = parameter.split(".")[1]
            value = whole_number(text)
            if value is not None and (component := _component(target)):
                found.append(Reading(metric, (component, target), value, at))
    return found


def _component(target: str) -> str:
    kind = target.rpartition("-")[2][:3]
    return {"OST": "ost", "MDT": "mdt"}.get(kind, "")


def _shapes(files: ParameterFiles) -> list[Reading]:
    """How large and how slow requests to the disks are: `brw_stats`, of the OSD, once of the OST."""
    told: dict[str, str] = {}
    for pattern in ("obdfilter.*.brw_stats", "osd-*.*.brw_stats"):
        told |= {name.split(".")[1]: text for name, text in files.texts(pattern).items()}
    return [
        reading
        for target, text in told.items()
        if (component := _component(target))
        for reading in parse_brw_stats(component, target, text)
    ]


def _connections(files: ParameterFiles) -> list[Reading]:
    """How the connections to targets stand: a client's own, or those of an MDT, which knows all OSTs.

    And how many requests are on the way on those of a client.
    """
    at, states, requests = time.monotonic(), {}, {}
    for pattern in ("osc.*.state", "osp.*.state", "mdc.*.state"):
        for parameter, text in files.texts(pattern).items():
            if (of := _connection(parameter)) and (words := text.split("current_state:", 1)[-1].split()):
                states[of] = words[0]
    for pattern in ("osc.*.import", "mdc.*.import"):
        for parameter, text in files.texts(pattern).items():
            waiting = re.search(r"^\s*inflight:\s*(\d{1,9})\s*$", text, re.MULTILINE)
            if (of := _connection(parameter)) and waiting and not of[0].startswith("MDT"):
                requests[of] = float(waiting[1])
    return [
        *(Reading("gridwright_connection_state", (*of, state), 1.0, at) for of, state in states.items()),
        *(Reading("gridwright_connection_requests", of, count, at) for of, count in requests.items()),
    ]


def _connection(parameter: str) -> tuple[str, str] | None:
    """`ffff8aa3` and `scratch-OST0000` out of `osc.scratch-OST0000-osc-ffff8aa3.state`; None of others."""
    found = re.fullmatch(r"(.+-(?:OST|MDT)[0-9a-f]{4})-(?:osc|mdc)-(.+)", parameter.split(".")[1])
    return (found[2], found[1]) if found else None


MOST_SERIES = 100
"""Of each level (jobs, jobs on a target) and kind of target; all others are one series, called OTHER."""
OTHER = "other"
_LAYERS = (("ost", "obdfilter"), ("mdt", "mdt"))


@dataclass(slots=True)
class ServedJobs:
    """Follows the jobs of all targets of this server.

    A job's row has the time of its last request, and no time of its own, so rates are over the time between
    readings. What moved before the first reading has no rate. A job's first interval, and any in which it is
    not among those that move most, is in the series of the others, so that rates add up to what was moved.
    """

    files: ParameterFiles
    clock: Callable[[], float] = time.time
    """Seconds since 1970, as Lustre on this node has them: a row that began later was not there before."""
    _tally: _native.JobTally = field(default_factory=lambda: _native.JobTally(MOST_SERIES))

    def read(self) -> list[Reading]:
        """All series. Raises GridwrightError (status ENVIRONMENT) where no target can be read."""
        places = [
            (component, name.split(".")[1].rpartition("-")[0], name.split(".")[1], path)
            for component, layer in _LAYERS
            for name, path in self.files.find(f"{layer}.*.job_stats")
        ]
        jobs, pairs, failed, unfollowed = self._tally.look(places, self.clock())
        at = time.monotonic()
        if failed and len(failed) == len(places):
            raise environment_error(f"job_stats of {failed[0][0]}: {failed[0][1]}")
        beyond = [Reading("gridwright_unfollowed_jobs", (), unfollowed, at)] if unfollowed else []
        return [*_of_jobs(jobs, at), *_of_targets(pairs, at), *beyond]


_Rows = Sequence[tuple[str, str, str | None, float, list[int]]]


def _of_jobs(rows: _Rows, at: float) -> Iterator[Reading]:
    names = ("read_bytes", "written_bytes", "reads", "writes", "operations")
    for component, filesystem, job, since, figures in rows:
        labels = (component, filesystem, OTHER if job is None else job)
        for name, value in zip(names, figures, strict=True):
            yield Reading(f"gridwright_served_job_{name}_total", labels, value, at, since)


def _of_targets(rows: _Rows, at: float) -> Iterator[Reading]:
    for component, target, job, since, figures in rows:
        name = OTHER if job is None else job
        read, written, reads, writes, operations = figures
        if component == "ost":
            for way, moved, samples in (("read", read, reads), ("write", written, writes)):
                of = (component, way, target, name)
                yield Reading(f"lustre_job_{way}_bytes_total", of, moved, at, since)
                yield Reading(f"lustre_job_{way}_samples_total", of, samples, at, since)
        labels = (component, target, name)
        yield Reading("gridwright_target_job_operations_total", labels, operations, at, since)


_SHAPES: Mapping[str, str] = {
    "pages per bulk r/w": "lustre_pages_per_bulk_rw_total",
    "disk I/O size": "lustre_disk_io_total",
    "I/O time (1/1000s)": "lustre_io_time_milliseconds_total",
}
"""Histograms that tell most, with the names of lustrefs-exporter: how many, by the label `size`."""
_TIME = r"^{}:?\s+([0-9]{{1,12}}(?:\.[0-9]{{1,9}})?)"
_ROW = re.compile(r"^([0-9]{1,12})([KMG]?):\s+([0-9]{1,20})\s[^|]*\|\s+([0-9]{1,20})\s")
_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def parse_brw_stats(component: str, target: str, text: str) -> Iterator[Reading]:
    """All counts of a target but those of what never happened, by the time of its own snapshot."""
    snapshot, start = (re.search(_TIME.format(name), text, re.MULTILINE) for name in _HEAD)
    at_s = float(snapshot[1]) if snapshot else time.monotonic()
    since_s = float(start[1]) if snapshot and start else None
    metric = ""
    for line in text.splitlines():
        if row := _ROW.match(line):
            size = str(int(row[1]) * _SCALE[row[2]])
            for way, count in (("read", row[3]), ("write", row[4])):
                if metric and count.strip("0"):
                    yield Reading(metric, (component, way, size, target), int(count), at_s, since_s)
        elif "cum %" in line:
            metric = next((_SHAPES[name] for name in _SHAPES if line.startswith(name)), "")


_HEAD = ("snapshot_time", "start_time")


STATES: Mapping[str, int] = {
    "COMPLETE": 0,
    "INACTIVE": 1,
    "WAITING": 2,
    "WAITING_FOR_CLIENTS": 3,
    "RECOVERING": 4,
}
"""The figures that lustrefs-exporter has for the words of recovery_status; any other word is UNKNOWN."""
UNKNOWN = 5
_CLIENTS = re.compile(r"^(connected|completed|evicted)_clients:\s*(\d{1,9})(?:/(\d{1,9}))?", re.MULTILINE)


def recovery_readings(component: str, target: str, text: str, at_s: float) -> Iterator[Reading]:
    """Out of the value of `recovery_status`; nothing where it says no status."""
    word = re.search(r"^\s*status:\s*([A-Z_]+)", text, re.MULTILINE)
    if word is None:
        return
    labels = (component, target)
    yield Reading("recovery_status", labels, STATES.get(word[1], UNKNOWN), at_s)
    expected = None
    for name, count, of in _CLIENTS.findall(text):
        yield Reading(f"recovery_status_{name}_clients", labels, int(count), at_s)
        expected = int(of) if of else expected
    if expected is not None:
        yield Reading("gridwright_recovery_expected_clients", labels, expected, at_s)
    if left := re.search(r"^time_remaining:\s*(\d{1,9})", text, re.MULTILINE):
        yield Reading("gridwright_recovery_seconds_left", labels, int(left[1]), at_s)


class LustreWatcher:
    """Answers for clients and servers; see `FileSystemKind`."""

    def mount_counters(self, run: Run, mount_point: str, root: Path | None = None) -> ReadCounts:
        """By target, as the client counts them."""
        return ClientCounters(run, mount_point, None if root is None else ParameterFiles(root)).read

    def server_figures(self, run: Run, root: Path) -> Mapping[str, FigureSource]:
        """Of its targets on a server, and of connections to them on a client."""
        return server_figures(run, root)


WATCHER = LustreWatcher()
