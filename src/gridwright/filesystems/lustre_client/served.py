"""What a Lustre server tells of its targets while people watch: traffic, locks, room, recovery, connections.

Metrics have the names that lustrefs-exporter has for them, where they mean the same.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gridwright.errors import environment_error
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.brw_stats import parse_brw_stats
from gridwright.filesystems.lustre_client.parameter_files import ParameterFiles
from gridwright.filesystems.lustre_client.parameters import read_parameters, whole_number
from gridwright.filesystems.lustre_client.recovery import recovery_readings
from gridwright.filesystems.lustre_client.served_jobs import ServedJobs
from gridwright.filesystems.lustre_client.stats import Stats, parse_stats
from gridwright.filesystems.reading import FigureSource, Reading

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
