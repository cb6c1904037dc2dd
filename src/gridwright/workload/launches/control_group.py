"""Makes a control group (v2) for each launch, where this user may: for stalls, peak memory and a sure end.

See https://docs.kernel.org/admin-guide/cgroup-v2.html and .../accounting/psi.html. No controller
is switched on for it: that would change the node for others.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from gridwright.runs.worker_process import is_alive, machine, process_facts

_PREFIX = "gridwright-workload-"
_TRIES = 50


@dataclass(frozen=True, slots=True)
class Stalls:
    """What the control group of a launch counted; None where it has no such file."""

    memory_wait_s: float | None
    io_wait_s: float | None
    peak_memory_bytes: int | None
    oom_kills: int


class ControlGroup:
    """A directory of the cgroup2 file system that is ours."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def for_run(cls) -> ControlGroup | None:
        """Make one below this process's own; None where that is not allowed."""
        parent = _own()
        if parent is None:
            return None
        directory = parent / f"{_PREFIX}{machine()}-{os.getpid()}-{process_facts()['started']}"
        try:
            directory.mkdir()
        except OSError:
            return None
        return cls(directory)

    def for_launch(self, number: int) -> ControlGroup | None:
        """Make one for a launch; None if that fails."""
        try:
            (self.directory / str(number)).mkdir()
        except OSError:
            return None
        return ControlGroup(self.directory / str(number))

    def enter(self) -> None:
        """Move the calling process into it. Raises OSError."""
        fd = os.open(self.directory / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"0")
        finally:
            os.close(fd)

    def kill(self) -> None:
        """Kill all processes in it and below (`cgroup.kill`, since Linux 5.14)."""
        with contextlib.suppress(OSError):
            (self.directory / "cgroup.kill").write_text("1")

    def stalls(self) -> Stalls:
        """What it counted so far."""
        peak = _number(self.directory / "memory.peak")
        return Stalls(
            memory_wait_s=_pressure(self.directory / "memory.pressure"),
            io_wait_s=_pressure(self.directory / "io.pressure"),
            peak_memory_bytes=peak,
            oom_kills=_fields(self.directory / "memory.events").get("oom_kill", 0),
        )

    def cpu_time_s(self) -> tuple[float, float] | None:
        """User and system seconds of all that was ever in it; None where it does not count them."""
        fields = _fields(self.directory / "cpu.stat")
        if "user_usec" not in fields or "system_usec" not in fields:
            return None
        return fields["user_usec"] / 1e6, fields["system_usec"] / 1e6

    def remove(self) -> None:
        """Remove it and those below; processes that are left in them are killed first."""
        self.kill()
        below = [path for path in self.directory.glob("*/") if path.is_dir()]
        for directory in [*below, self.directory]:
            for _ in range(_TRIES):
                with contextlib.suppress(OSError):
                    directory.rmdir()
                if not directory.exists():
                    break
                time.sleep(0.01)


def remove_stale_groups() -> None:
    """End and remove the groups of runs whose process is gone.

    Those of other process namespaces, such as a container or a node of a lab, are left alone: they may
    share the hierarchy, and their processes have other numbers here.
    """
    parent = _own()
    ours = f"{_PREFIX}{machine()}-"
    for directory in parent.glob(f"{ours}*") if parent else ():
        pid, _, started = directory.name.removeprefix(ours).partition("-")
        with contextlib.suppress(ValueError):
            facts = process_facts() | {"pid": int(pid), "started": float(started)}
            if is_alive(facts) is False:
                ControlGroup(directory).remove()


def _own() -> Path | None:
    """The control group (v2) of this process, if there is one."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        name = next(line[3:] for line in lines if line.startswith("0::"))
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    except (OSError, StopIteration):
        return None
    mount = next((fields[1] for fields in mounts if fields[2] == "cgroup2"), None)
    if mount is None:
        return None
    directory = Path(mount) / name.lstrip("/")
    return directory if os.access(directory, os.W_OK) else None


def _fields(file: Path) -> dict[str, int]:
    try:
        return {key: int(value) for key, value in map(str.split, file.read_text().splitlines())}
    except (OSError, ValueError):
        return {}


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _pressure(file: Path) -> float | None:
    """Seconds in which at least one task stalled: `total` of the line `some`, in microseconds."""
    try:
        some = next(line for line in file.read_text().splitlines() if line.startswith("some "))
        return int(some.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError, StopIteration):
        return None
