"""What Lustre has moved, by target, by client, by job, out of its parameters as files; takes root.

`lctl get_param a.b.c` reads the file a/b/c below one of three trees (lctl get_param is `lustre_param` of
lustre/utils/lustre_param.c); each release has moved some of them from one tree to another. Files are found
once, and read without a process.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from gridwright import _native
from gridwright.errors import environment_error
from gridwright.filesystems.counters import Counts, TrafficCount
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.parameters import (
    Row,
    Stats,
    client_mount,
    cut_figures,
    file_system_name,
    is_root,
    is_target,
    parse_job_stats,
    parse_stats,
    read_parameters,
)
from gridwright.filesystems.mounts import read_mounts

TREES = ("sys/fs/lustre", "sys/kernel/debug/lustre", "proc/fs/lustre")
LOOK_S = 10.0
"""How long what was found is taken as all there is: targets come and go, and a look lists directories."""


@dataclass(slots=True)
class ParameterFiles:
    """The parameters of the node whose files lie below `root`."""

    root: Path
    _found: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """By pattern: the name of each parameter, and its file."""
    _until: float = 0.0

    def find(self, pattern: str) -> list[tuple[str, str]]:
        """The parameters whose name a pattern such as `osc.*.stats` fits, each with its path, in order.

        A star stands for one part of a name. Where two trees have one, the first counts.
        """
        now = time.monotonic()
        if now >= self._until:
            self._found.clear()
            self._until = now + LOOK_S
        known = self._found.get(pattern)
        if known is None:
            found: dict[str, str] = {}
            for tree in TREES:
                for name, path in _below(self.root / tree, pattern):
                    found.setdefault(name, path)
            # Another thread may look at the same time, where one hangs.
            known = self._found[pattern] = sorted(found.items())
        return known

    def texts(self, pattern: str) -> dict[str, str]:
        """What these parameters say; without those that cannot be read."""
        found = self.find(pattern)
        texts = _native.file_texts([path for _, path in found])
        return {name: text for (name, _), text in zip(found, texts, strict=True) if text is not None}

    def stats(self, pattern: str, wanted: Sequence[str] = ()) -> dict[str, Stats]:
        """The statistics of these parameters, all or the wanted operations; without what cannot be read.

        Raises GridwrightError (status ENVIRONMENT) where they were read without root, and figures are cut.
        """
        found = self.find(pattern)
        told = {}
        rows = _native.lustre_stats([path for _, path in found], wanted)
        for (name, _), each in zip(found, rows, strict=True):
            if each is not None:
                snapshot_s, start_s, operations, cut = each
                if cut:
                    raise cut_figures()
                told[name] = Stats(snapshot_s, start_s, _rows(operations))
        return told


def _rows(rows: Sequence[tuple[str, int, int]]) -> Mapping[str, Row]:
    return {name: Row(samples, "", sum=total) for name, samples, total in rows}


def _below(tree: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Only the part of a pattern with a star lists a directory: what has no star is there or not."""
    found = [("", str(tree))]
    for part in pattern.split("."):
        found = [
            (f"{name}.{each}" if name else each, f"{path}/{each}")
            for name, path in found
            for each in (_names(path, part) if "*" in part else [part])
        ]
    return ((name, path) for name, path in found if os.path.exists(path))  # noqa: PTH110 - hundreds of them


def _names(directory: str, pattern: str) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if fnmatchcase(name, pattern)]  # noqa: PTH208
    except OSError:
        return []


def read_target_counters(run: Run, name: str) -> Counts:
    """On a server of file system `name`: what each of its OSTs moved, for all clients together."""
    return _read(run, f"obdfilter.{name}-OST*.stats", r"obdfilter\.(?P<target>[^.]+)\.stats")


def read_client_counters(run: Run, name: str) -> Counts:
    """On a server of file system `name`: what each OST moved for each client, by the client's NID."""
    pattern = r"obdfilter\.(?P<target>[^.]+)\.exports\.(?P<client>.+)\.stats"
    return _read(run, f"obdfilter.{name}-OST*.exports.*@*.stats", pattern)


def read_job_counters(run: Run, name: str) -> Counts:
    """On a server of file system `name`: what each OST moved for each job (jobid_var says what a job is)."""
    _refuse_without_root(run)
    told = read_parameters(run, [f"obdfilter.{name}-OST*.job_stats"])
    return {
        f"{parameter} {job}": _count(stats, parameter.split(".")[1], job)
        for parameter, value in told.values.items()
        for job, stats in parse_job_stats(value).items()
    }


def read_own_counters(run: Run, name: str) -> Counts:
    """On a client of file system `name`: what programs read and wrote there, whatever came from its cache."""
    return _read(run, f"llite.{name}-*.stats", r"llite\.(?P<client>[^.]+)\.stats")


def read_connection_counters(run: Run, name: str) -> Counts:
    """On a client of file system `name`: what it moved to and from each OST."""
    pattern = r"osc\.(?P<target>[^.]+-OST[0-9a-f]{4})-osc-[^.]+\.stats"
    return _read(run, f"osc.{name}-OST*-osc-[!M]*.stats", pattern)


@dataclass(slots=True)
class ClientCounters:
    """Reads what a client moved to and from each OST of the Lustre that it has mounted at a path."""

    run: Run
    path: str
    files: ParameterFiles | None = None
    """Where parameters are files that can be opened here: hundreds of them in a millisecond."""
    _name: str = ""

    def read(self) -> Counts:
        """By connection; takes root.

        Raises GridwrightError (status ENVIRONMENT) where no Lustre is mounted there, or nothing answers.
        """
        if not self._name:
            mounts = read_mounts(self.run)
            mount = client_mount(self.path, mounts)
            if mount is None and is_target(self.path, mounts):
                return {}
            if mount is None:
                raise environment_error(
                    f"no Lustre is mounted at {self.path}", where=self.path, remedy=f"mount {self.path}"
                )
            self._name = file_system_name(mount.source)
        if self.files is None:
            return read_connection_counters(self.run, self._name)
        _refuse_without_root(self.run)
        pattern = f"osc.{self._name}-OST*-osc-[!M]*.stats"
        return {
            name: _count(stats, name.split(".", 2)[1].partition("-osc-")[0], "")
            for name, stats in self.files.stats(pattern, ("read_bytes", "write_bytes")).items()
        }


def _read(run: Run, parameter: str, pattern: str) -> Counts:
    """Counts of the parameters whose name `pattern` fits; its groups `target` and `client` name them."""
    _refuse_without_root(run)
    found = {}
    for name, value in read_parameters(run, [parameter]).values.items():
        if match := re.fullmatch(pattern, name):
            parts = match.groupdict()
            stats = parse_stats(value)
            found[name] = _count(stats, parts.get("target") or "", parts.get("client") or "")
    return found


def _count(stats: Stats, target: str, client: str) -> TrafficCount:
    """The time is that of the node's own snapshot (of a job: of its last activity), where it tells one."""
    return TrafficCount(
        at_s=time.monotonic() if stats.snapshot_s is None else stats.snapshot_s,
        since_s=None if stats.snapshot_s is None else stats.start_s,
        read_bytes=stats.total("read_bytes"),
        written_bytes=stats.total("write_bytes"),
        reads=stats.samples("read_bytes"),
        writes=stats.samples("write_bytes"),
        waited_s=_waited_s(stats),
        target=target,
        client=client,
    )


def _waited_s(stats: Stats) -> float | None:
    """How long a client waited for reads and writes; None where these are not timed, as on servers."""
    if "req_waittime" not in stats.rows:
        return None
    return (stats.total("ost_read") + stats.total("ost_write")) / 1e6


def _refuse_without_root(run: Run) -> None:
    if not is_root(run):
        raise environment_error(
            "statistics of Lustre are told to root only; to others their last digits are cut off",
            remedy="run it as root (sudo)",
        )
