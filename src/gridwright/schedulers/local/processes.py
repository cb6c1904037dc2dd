"""The processes of a job: found by descent, by a token, by where they write, and held by control groups.

Version 2 contains all processes of a job, and where it has the memory controller holds their memory;
version 1 holds memory. Groups are made below the runner's own, where that is writable. A machine that
systemd manages lets nobody else make groups but below a unit that is delegated (systemd.resource-
control(5), `Delegate=`).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gridwright.schedulers.local.store import NO_INDEX, JobKey, Store, read_token
from gridwright.schedulers.process_tree import descendants


class Process(NamedTuple):
    """A process, told from a later one with the same number by when it started."""

    pid: int
    started: int
    """In clock ticks since boot (proc_pid_stat(5), field 22)."""


class ProcessStat(NamedTuple):
    """What /proc/PID/stat says of a process."""

    process: Process
    has_ended: bool


def process_stat(pid: int) -> ProcessStat | None:
    """Look a process up; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - ten times a second
            text = file.read()
        # The name, in parentheses, may hold anything.
        fields = text[text.rindex(b")") + 2 :].split()
        return ProcessStat(Process(pid, int(fields[19])), fields[0] in b"ZX")
    except (OSError, ValueError, IndexError):
        return None


def is_running(process: Process) -> bool:
    """Whether a process is there and has not ended."""
    found = process_stat(process.pid)
    return found is not None and found.process == process and not found.has_ended


def job_of(store: Store, pid: int) -> JobKey | None:
    """The job that a process is of, told by its environment, or by its output, which goes to a job's log.

    A process can be rid of both; then only its descent tells, or nothing.
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
        if key := read_token(store.identity, file.read()):
            return key
    for number in (1, 2):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115
            if target.startswith(store.logs) and (match := _LOG.match(target, len(store.logs))):
                return JobKey(int(match[1]), NO_INDEX if match[2] is None else int(match[2]))
    return None


_LOG = re.compile(r"([0-9]+)(?:_([0-9]+))?\.log\b")


def with_descendants(pids: Iterable[int]) -> Iterator[int]:
    """Processes, and all below them."""
    for pid in pids:
        yield pid
        yield from descendants(pid)


def identify(pids: Iterable[int]) -> list[Process]:
    """Those of some processes that run."""
    return [found.process for pid in pids if (found := process_stat(pid)) and not found.has_ended]


def send_signal(processes: Collection[Process], number: signal.Signals) -> None:
    """Send a signal to those that are still the same, each through a file descriptor of its own (pidfd)."""
    for process in processes:
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(process.pid)
            try:
                if is_running(process):
                    signal.pidfd_send_signal(pidfd, number)
            finally:
                os.close(pidfd)


def all_pids() -> Iterator[int]:
    """All processes of this machine, as far as this one sees them."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208


_SYSTEMD = Path("/run/systemd/system")
"""There if systemd is the init of this machine (sd_booted(3))."""
_DELEGATED = ("user.delegate", "trusted.delegate")
"""Attributes of a group that systemd has delegated."""


@dataclass(frozen=True, slots=True)
class GroupPlaces:
    """Directories in which groups of jobs are made; None where there is none."""

    unified: Path | None = None
    """Of version 2."""
    unified_memory: bool = False
    """Whether groups in it also hold memory."""
    memory: Path | None = None
    """Of the memory controller of version 1."""

    def words(self) -> list[str]:
        """As arguments of the launcher."""
        unified, memory = (str(place or "") for place in (self.unified, self.memory))
        return [unified, "yes" if self.unified_memory else "no", memory]

    def all(self) -> list[Path]:
        """Those that are there."""
        return [place for place in (self.unified, self.memory) if place is not None]


def make_places(name: str) -> GroupPlaces:
    """Make the directories for jobs, with a name of their own, wherever this process may."""
    unified: Path | None = None
    unified_memory = False
    memory: Path | None = None
    for version, group in _own_groups():
        for place in _permitted(group):
            if version == 2 and not unified_memory and (made := _make(place / name)):
                unified_memory = _gives_memory(made)
                spare: Path | None = made
                if unified is None or unified_memory:
                    unified, spare = made, unified
                if spare is not None:
                    _remove(spare)
            elif version == 1 and memory is None:
                memory = _make(place / name)
    if unified_memory and memory is not None:
        _remove(memory)
        memory = None
    return GroupPlaces(unified, unified_memory, memory)


def _own_groups() -> Iterator[tuple[int, Path]]:
    """The group of this process in version 2, and in the memory controller of version 1."""
    with contextlib.suppress(OSError, ValueError):
        mounts = _mounts()
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            hierarchy, controllers, path = line.split(":", 2)
            if hierarchy == "0" and not controllers:
                where, version = mounts.get("cgroup2"), 2
            elif "memory" in controllers.split(","):
                where, version = mounts.get("memory"), 1
            else:
                continue
            if where is not None and "/.." not in path:
                yield version, where / path.lstrip("/")


def _mounts() -> dict[str, Path]:
    """Where version 2 and the memory controller of version 1 are mounted (proc_pid_mountinfo(5))."""
    mounts: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        place = Path(before.split(" ")[4])
        if kind == "cgroup2":
            mounts.setdefault("cgroup2", place)
        elif kind == "cgroup" and "memory" in options.split(","):
            mounts.setdefault("memory", place)
    return mounts


def _permitted(group: Path) -> Iterator[Path]:
    """A group and those above it, as far as this process may make groups in them."""
    managed = _SYSTEMD.exists()
    for place in (group, *group.parents):
        if not os.access(place / "cgroup.procs", os.W_OK):
            return
        if managed and not any(map(_is_delegated, (place, *place.parents))):
            return
        yield place


def _is_delegated(place: Path) -> bool:
    for each in _DELEGATED:
        with contextlib.suppress(OSError):
            if os.getxattr(place, each) == b"1":
                return True
    return False


def _gives_memory(made: Path) -> bool:
    """Whether groups in one that was made here hold memory: they do if this one does, and are told to."""
    with contextlib.suppress(OSError):
        if "memory" in (made / "cgroup.controllers").read_text(encoding="ascii").split():
            (made / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
            return True
    return False


def _make(place: Path) -> Path | None:
    with contextlib.suppress(OSError):
        place.mkdir(exist_ok=True)
        return place
    return None


def _remove(place: Path) -> None:
    with contextlib.suppress(OSError):
        place.rmdir()


def end_group(places: GroupPlaces, name: str) -> bool:
    """Kill all that is in the groups of a job, and remove them; whether they are gone."""
    gone = True
    for place in places.all():
        group = place / name
        with contextlib.suppress(OSError):
            (group / "cgroup.kill").write_text("1", encoding="ascii")
        with contextlib.suppress(OSError, ValueError):
            members = map(int, (group / "cgroup.procs").read_text(encoding="ascii").split())
            send_signal(identify(members), signal.SIGKILL)
        try:
            group.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            gone = False
    return gone
