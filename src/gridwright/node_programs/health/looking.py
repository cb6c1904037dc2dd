"""Looks at file systems that may hang, each in a child process, all at the same time and in bounded time.

A child that hangs in the kernel cannot be killed. It is left, and its process is remembered: until it is
gone nobody else looks there, or each check of a dead mount would leave one more. What one check leaves for
the next one is in /run: it is gone after a restart, as the mounts are.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import stat
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_DEATH_S = 1.0
"""How long killed children take to end at most, where no mount holds them."""
_MOST_FILES = 1024
NO_DIRECTORY = "is no directory"
READ_ONLY = "is mounted read-only"


@dataclass(frozen=True)
class LeftBehind:
    """A look that hangs: the process, with its start in ticks, as numbers of processes come back."""

    pid: int
    start: int

    def is_alive(self) -> bool:
        """Whether it still hangs."""
        return start_of(self.pid) == self.start


@dataclass(frozen=True)
class Glance:
    """What was seen at one path. All is well where neither `wrong` nor `left` is there."""

    wrong: str = ""
    """What is wrong with it, in words that follow its name."""
    left: LeftBehind | None = None
    """The look that did not end in time."""


def look_at(paths: Iterable[str], left: Mapping[str, LeftBehind], limit_s: float) -> dict[str, Glance]:
    """Look at all paths at once; `left` are looks of earlier checks, which may still hang."""
    glances = {
        path: Glance(left=each) for path, each in left.items() if path in set(paths) and each.is_alive()
    }
    children = {path: _start(path) for path in paths if path not in glances}
    deadline = time.monotonic() + limit_s
    for path, (pid, pipe) in children.items():
        said = _read(pipe, deadline)
        os.close(pipe)
        left_behind = _end(pid)
        if said is None:
            # One that dies of the signal was slow all the same; it is only not in the way of the next look.
            glances[path] = Glance(left=left_behind or LeftBehind(0, 0))
        else:
            glances[path] = Glance(said)
    return glances


def start_of(pid: int) -> int | None:
    """When a process started, in ticks since the boot; None where it is gone or dead (proc_pid_stat(5))."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if len(fields) < 20 or fields[0] in "ZX" else int(fields[19])


def what_is_wrong(path: str) -> str:
    """What is wrong with a directory on a file system, in words; empty where it serves. May hang."""
    try:
        # Below an automounter this mounts it.
        status = os.statvfs(path)
        if not stat.S_ISDIR(Path(path).stat().st_mode):
            return NO_DIRECTORY
    except FileNotFoundError:
        return "is not there"
    except OSError as error:
        return f"does not answer: {error.strerror}"
    return READ_ONLY if status.f_flag & os.ST_RDONLY else ""


def _start(path: str) -> tuple[int, int]:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        _answer(path, write)
    os.close(write)
    return pid, read


def _answer(path: str, pipe: int) -> None:
    """In the child: answer and end, whatever happens. It holds nothing that others wait for the end of."""
    try:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        os.closerange(3, pipe)
        os.closerange(pipe + 1, _MOST_FILES)
        os.write(pipe, b"." + what_is_wrong(path).encode(errors="replace"))
    finally:
        os._exit(0)


def _read(pipe: int, deadline: float) -> str | None:
    """What a child said; None where it did not in time."""
    if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
        return None
    # An answer is written at once, and is shorter than a pipe takes at once (pipe(7), PIPE_BUF).
    said = os.read(pipe, select.PIPE_BUF).decode(errors="replace")
    return said[1:] if said else "cannot be looked at"


def _end(pid: int) -> LeftBehind | None:
    """Kill and reap a child; what is left of one that hangs in the kernel."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _DEATH_S
    while True:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return None
        if time.monotonic() >= deadline:
            start = start_of(pid)
            return None if start is None else LeftBehind(pid, start)
        time.sleep(0.005)


MEMORY = Path("/run/gridwright/health.json")
SCHEMA = 1


@dataclass(frozen=True)
class Memory:
    """What the last check saw."""

    unsure: frozenset[str] = frozenset()
    """Paths that answered slowly or with an error."""
    hanging: Mapping[str, LeftBehind] = field(default_factory=dict)
    may_be_drained: bool = True
    """Whether it may be drained for what an earlier check said; without a memory nobody knows."""


def read_memory(path: Path) -> Memory:
    """What the last check left; as much as nothing where it cannot be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            return Memory()
        hanging = {name: LeftBehind(int(pid), int(start)) for name, (pid, start) in data["hanging"].items()}
        return Memory(frozenset(map(str, data["unsure"])), hanging, bool(data["may_be_drained"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Memory()


def write_memory(path: Path, memory: Memory) -> None:
    """Leave it for the next check, whole or not at all. A full /run costs a question to Slurm."""
    content = {
        "schema": SCHEMA,
        "unsure": sorted(memory.unsure),
        "hanging": {name: [each.pid, each.start] for name, each in memory.hanging.items()},
        "may_be_drained": memory.may_be_drained,
    }
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(content) + "\n", encoding="utf-8")
        part.replace(path)
