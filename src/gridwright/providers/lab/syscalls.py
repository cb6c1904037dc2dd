"""System calls that make and enter namespaces; Python has them from 3.12 on, and the mounts not at all."""

from __future__ import annotations

import ctypes
import os
from enum import IntFlag


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
