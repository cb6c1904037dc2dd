"""System calls that make and enter namespaces; Python has them from 3.12 on, and the mounts not at all."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from enum import IntFlag
from pathlib import Path
from typing import NamedTuple


class Namespace(IntFlag):
    """Kinds of namespaces (clone(2))."""

    MOUNT = 0x00020000
    CGROUP = 0x02000000
    UTS = 0x04000000
    IPC = 0x08000000
    PID = 0x20000000
    NETWORK = 0x40000000


class MountFlag(IntFlag):
    """Flags of mount(2)."""

    READ_ONLY = 1
    NO_SUID = 2
    NO_DEVICES = 4
    NO_EXEC = 8
    REMOUNT = 32
    BIND = 4096
    RECURSIVE = 16384
    PRIVATE = 1 << 18


NAMES = {
    Namespace.MOUNT: "mnt",
    Namespace.CGROUP: "cgroup",
    Namespace.UTS: "uts",
    Namespace.IPC: "ipc",
    Namespace.PID: "pid",
    Namespace.NETWORK: "net",
}
"""Their names below /proc/PID/ns (namespaces(7))."""

_NONE = MountFlag(0)
_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(kinds: Namespace) -> None:
    """Give the calling thread new namespaces; a new one for processes is for its children. Raises OSError."""
    _check(_libc.unshare(int(kinds)), f"unshare {kinds!r}")


def enter(pid: int, kinds: Namespace) -> None:
    """Let the calling thread enter namespaces of a process, children that of PIDs. Raises OSError."""
    files: list[tuple[Namespace, int]] = []
    try:
        # All are opened first: after the mount namespace, /proc is another.
        for kind, name in NAMES.items():
            if kind in kinds:
                files.append((kind, os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)))
        for kind, fd in sorted(files, key=lambda file: file[0] == Namespace.MOUNT):
            _check(_libc.setns(fd, int(kind)), f"enter {NAMES[kind]} of {pid}")
    finally:
        for _, fd in files:
            os.close(fd)


def mount(source: str, target: str, kind: str = "", flags: MountFlag = _NONE, data: str = "") -> None:
    """Mount something, or change a mount; see mount in section 2. Raises OSError."""
    result = _libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(int(flags)), os.fsencode(data)
    )
    _check(result, f"mount {kind or source} on {target}")


def bind(source: str, target: str, *, read_only: bool = False) -> None:
    """Let a file or directory be seen at another place, too. Raises OSError."""
    mount(source, target, flags=MountFlag.BIND)
    if read_only:
        mount("", target, flags=MountFlag.BIND | MountFlag.REMOUNT | MountFlag.READ_ONLY)


def change_root(new_root: str) -> None:
    """Make a mount the root of this mount namespace, and detach the old root. Raises OSError."""
    os.chdir(new_root)
    # As pivot_root(2) shows: the old root comes to lie on the new one, and is taken away.
    _check(_libc.pivot_root(b".", b"."), f"pivot_root {new_root}")
    _check(_libc.umount2(b".", _DETACH), "umount the old root")
    os.chdir("/")


# Processes that belong to a lab: known by PID and start time, so that a reused PID is never signalled.


class ProcessId(NamedTuple):
    """A process: the number alone may belong to another by now."""

    pid: int
    started: int
    """Field 22 of /proc/PID/stat: clock ticks since the machine's boot (proc_pid_stat(5))."""

    @property
    def alive(self) -> bool:
        """Whether it still runs; one that has ended and is not yet waited for does not."""
        status = _status(self.pid)
        return status is not None and status[1] == self.started and not _ended(self.pid, status[0])


def identify(pid: int) -> ProcessId:
    """The identity of a process that runs. Raises ProcessLookupError."""
    status = _status(pid)
    if status is None:
        raise ProcessLookupError(f"there is no process {pid}")
    return ProcessId(pid, status[1])


def _status(pid: int) -> tuple[str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in parentheses, may hold spaces and parentheses; the state follows the last one.
    fields = text[text.rindex(")") + 2 :].split()
    return fields[0], int(fields[19])


def _ended(pid: int, state: str) -> bool:
    """Whether a process has released all it had, and only its entry is left.

    That is so for a zombie, and for the first process of a PID namespace that waits until all others in it
    have been waited for: by a parent outside, that may be this machine's own first process, and
    take a minute. Both have no network namespace any more.
    """
    if state in "ZX":
        return True
    try:
        Path(f"/proc/{pid}/ns/net").readlink()
    except (FileNotFoundError, ProcessLookupError):
        return True
    except OSError:
        return False
    return False


def kill(process: ProcessId) -> None:
    """Send SIGKILL to a process if it is still the same one."""
    try:
        # What a descriptor names cannot become another process between look and signal.
        fd = os.pidfd_open(process.pid)
    except (ProcessLookupError, OSError):
        return
    try:
        if process.alive:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)


def end_all(first: Sequence[ProcessId], *, seconds: float, more: Callable[[], set[int]] = set) -> set[int]:
    """Kill the first processes of PID namespaces, and wait until nothing is in any namespace of theirs.

    The kernel kills the others of a PID namespace with its first. `more` gives further processes that are to
    end, too. Returns those that are left when the time is over.
    """
    held = HeldNamespaces(first)
    deadline = time.monotonic() + seconds
    try:
        for process in first:
            kill(process)
        while True:
            also = [each for each in map(_identified, more() - {os.getpid()}) if each is not None]
            for process in also:
                kill(process)
            left = {each.pid for each in (*first, *also) if each.alive} | set(held.members())
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.01)
    finally:
        held.close()


def _identified(pid: int) -> ProcessId | None:
    try:
        return identify(pid)
    except ProcessLookupError:
        return None


class HeldNamespaces:
    """Namespaces kept open, so that no other can get their numbers while we look who is in them."""

    _KINDS = (Namespace.PID, Namespace.NETWORK, Namespace.MOUNT, Namespace.UTS)

    def __init__(self, processes: Iterable[ProcessId]) -> None:
        self._files: list[int] = []
        self._links: set[str] = set()
        for process in processes:
            self._hold(process)

    def _hold(self, process: ProcessId) -> None:
        for kind in self._KINDS:
            path = f"/proc/{process.pid}/ns/{NAMES[kind]}"
            try:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return
            self._files.append(fd)
            if process.alive:
                self._links.add(f"{NAMES[kind]}:[{os.fstat(fd).st_ino}]")
        # The anchor of a lab has the mounts and the name of this machine.
        self._links -= {_link(os.getpid(), kind) for kind in self._KINDS}

    def members(self) -> list[int]:
        """Processes that are in any of them, but for those that have ended."""
        return [
            pid
            for pid in map(int, filter(str.isdigit, os.listdir("/proc")))  # noqa: PTH208 - numbers
            if any(_link(pid, kind) in self._links for kind in self._KINDS)
            and not _ended(pid, (_status(pid) or ("X",))[0])
        ]

    def close(self) -> None:
        """Let go of them."""
        while self._files:
            os.close(self._files.pop())


def _link(pid: int, kind: Namespace) -> str:
    try:
        # A process that has ended shows none; one that belongs to the kernel neither.
        return str(Path(f"/proc/{pid}/ns/{NAMES[kind]}").readlink())
    except OSError:
        return ""
