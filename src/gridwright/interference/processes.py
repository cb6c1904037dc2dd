"""Reads the processes of a node, tells ours from others, and adds up what each has used so far.

Processes that serve file systems in user space do it for whoever uses them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from gridwright._native import ProcessTable

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of linux/sched.h, in the flags of /proc/PID/stat."""
_YOUNG_S = 5.0
"""A process may still become another program; later its command line is taken as known."""
_OURS_IN_KERNEL = ("kworker", "jbd2", "kswapd", "loop", "io_wq", "iou-", "xfsaild", "md", "dm", "kthreadd")
"""Kernel threads that write back, journal or pass on what processes do, ours among them: their traffic is
counted at whoever caused it. A resync of a RAID is not (`md127_resync`)."""

Identity = tuple[int, int]
"""SeenProcess id, and the tick at which it started: ids are used again."""


@dataclass(slots=True)
class SeenProcess:
    """One process as /proc/PID/stat shows it; times in ticks (proc_pid_stat(5))."""

    pid: int
    started: int
    parent: int
    name: str
    kernel: bool
    own_ticks: int
    children_ticks: int
    """Of children that have ended and were waited for."""
    memory_bytes: int
    cpu: int
    """The CPU it ran on last."""
    moved_bytes: int = 0
    traffic: tuple[int, int] | None = None
    """Bytes read and written so far, where they were read with it."""
    is_read: bool = False
    """Whether that was tried."""

    @property
    def identity(self) -> Identity:
        """What tells it from all others."""
        return self.pid, self.started

    @property
    def moves_by_itself(self) -> bool:
        """Whether its traffic is its own: not what a kernel thread passes on."""
        if not self.kernel:
            return True
        return "_resync" in self.name or not self.name.startswith(_OURS_IN_KERNEL)


def processes(proc: Path = Path("/proc")) -> Iterator[SeenProcess]:
    """Yield all processes that can be seen."""
    for name in os.listdir(proc):  # noqa: PTH208 - hundreds, once a second
        if name.isdigit() and (found := _process(f"{proc}/{name}", int(name))) is not None:
            yield found


class ProcessFiles:
    """All processes that can be seen, with what they moved: in one call, by files that stay open."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._table = ProcessTable(proc, _OURS_IN_KERNEL)

    def look(self) -> dict[int, SeenProcess]:
        """All of them by their numbers. Raises OSError where there is no /proc."""
        return {
            pid: SeenProcess(
                pid,
                started,
                parent,
                name,
                kernel,
                own,
                children,
                pages * _PAGE,
                cpu,
                0,
                traffic,
                is_read=True,
            )
            for pid, started, parent, name, kernel, own, children, pages, cpu, traffic in self._table.look()
        }


def _process(directory: str, pid: int) -> SeenProcess | None:
    try:
        with open(f"{directory}/stat", "rb") as file:  # noqa: PTH123 - hundreds, once a second
            text = file.read()
        opened, closed = text.index(b"("), text.rindex(b")")
        fields = text[closed + 2 :].split()
        return SeenProcess(
            pid=pid,
            started=int(fields[19]),
            parent=int(fields[1]),
            name=text[opened + 1 : closed].decode(errors="replace"),
            kernel=bool(int(fields[6]) & _KERNEL_THREAD),
            own_ticks=int(fields[11]) + int(fields[12]),
            children_ticks=int(fields[13]) + int(fields[14]),
            memory_bytes=int(fields[21]) * _PAGE,
            cpu=int(fields[36]),
        )
    except (OSError, ValueError, IndexError):
        return None


def moved_bytes(pid: int, proc: Path = Path("/proc")) -> tuple[int, int] | None:
    """Bytes that a process, and what it waited for, read from and wrote to devices; None if not allowed."""
    try:
        with open(f"{proc}/{pid}/io", "rb") as file:  # noqa: PTH123
            fields = dict(line.split(b": ") for line in file.read().splitlines())
        return int(fields[b"read_bytes"]), int(fields[b"write_bytes"])
    except (OSError, ValueError, KeyError):
        return None


def command_line(pid: int, proc: Path = Path("/proc")) -> list[str]:
    """The arguments of a process; empty for a kernel thread."""
    try:
        text = (proc / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return [part.decode(errors="replace") for part in text.rstrip(b"\0").split(b"\0")]


_INTERPRETERS = ("python", "perl", "ruby", "node", "java", "bash", "sh", "dash", "Rscript")


def spoken_name(process: SeenProcess, proc: Path = Path("/proc")) -> str:
    """What to call a process: its name, and of an interpreter also the program that it runs.

    No other argument is told: it may be a secret.
    """
    if not process.name.startswith(_INTERPRETERS):
        return process.name
    arguments = command_line(process.pid, proc)[1:]
    for place, argument in enumerate(arguments):
        if place and arguments[place - 1] in {"-W", "-X"}:
            continue
        if argument == "-m" and place + 1 < len(arguments):
            return f"{process.name} -m {arguments[place + 1]}"
        if argument in {"-c", "-e"}:
            break
        if not argument.startswith("-"):
            return f"{process.name} {os.path.basename(argument)}"  # noqa: PTH119 - may be anything
    return process.name


@dataclass(slots=True)
class Ownership:
    """Which processes are ours: those below `roots`, and those that are called with one of `tokens`."""

    roots: Collection[int]
    tokens: Collection[str] = ()
    _ours: set[Identity] = field(default_factory=set)
    _known: dict[Identity, float] = field(default_factory=dict)

    def take(self, found: dict[int, SeenProcess], now: float, proc: Path = Path("/proc")) -> set[int]:
        """The process ids of ours; one that was ours stays so, whoever adopts it."""
        children: dict[int, list[int]] = {}
        for process in found.values():
            children.setdefault(process.parent, []).append(process.pid)
        begin = [pid for pid in self.roots if pid in found]
        begin += [each.pid for each in found.values() if each.identity in self._ours]
        begin += [each.pid for each in found.values() if self._is_called(each, now, proc)]
        ours: set[int] = set()
        while begin:
            pid = begin.pop()
            if pid not in ours and pid in found:
                ours.add(pid)
                begin += children.get(pid, ())
        self._ours = {found[pid].identity for pid in ours}
        there = {each.identity for each in found.values()}
        self._known = {identity: first for identity, first in self._known.items() if identity in there}
        return ours

    def _is_called(self, process: SeenProcess, now: float, proc: Path) -> bool:
        if not self.tokens or process.kernel or process.identity in self._ours:
            return False
        first = self._known.setdefault(process.identity, now)
        if now - first > _YOUNG_S:
            return False
        arguments = command_line(process.pid, proc)
        return any(token in argument for token in self.tokens for argument in arguments)


def serves_fuse(process: SeenProcess) -> bool:
    """Whether a process serves a FUSE file system: it has /dev/fuse open (fuse(4))."""
    return not process.kernel and _serves(process.identity)


@lru_cache(maxsize=65536)
def _serves(identity: Identity) -> bool:
    directory = f"/proc/{identity[0]}/fd"
    try:
        return any(os.readlink(f"{directory}/{name}") == "/dev/fuse" for name in os.listdir(directory))  # noqa: PTH115, PTH208
    except OSError:
        return False
