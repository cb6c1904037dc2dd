"""What Lustre has moved: by target, by client, by job; each reading takes root."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from gridwright.errors import environment_error
from gridwright.filesystems.counters import Counts, TrafficCount
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.mounts import client_mount, file_system_name, is_target
from gridwright.filesystems.lustre_client.parameter_files import ParameterFiles
from gridwright.filesystems.lustre_client.parameters import is_root, read_parameters
from gridwright.filesystems.lustre_client.stats import Stats, parse_job_stats, parse_stats
from gridwright.filesystems.mount_table import read_mounts


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
