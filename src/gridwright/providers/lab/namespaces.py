"""What a lab has of the kernel: namespaces and mounts by system calls, and control groups of its nodes.

Python has the system calls from 3.12 on, and the mounts not at all.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from typing import Literal, NamedTuple


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


WANTED = ("freezer", "memory", "cpuset", "pids", "cpu", "cpuacct", "blkio", "io")
"""Controllers that a scheduler follows, limits and accounts jobs with, and that limit what they move."""
ANCHOR = "anchor"
"""The group of the process that holds the lab together; names of nodes end in a digit, or are controller."""


@dataclass(frozen=True, slots=True)
class CgroupSupport:
    """What the nodes of a lab have of control groups."""

    kind: Literal["v1", "v2", "none"]
    controllers: tuple[str, ...] = ()
    """Such as freezer, memory, cpuset, pids: those that nodes can use."""
    mountpoint: str = "/sys/fs/cgroup"
    """Where nodes see them; with v1, each controller in a directory of its name below."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A tree of control groups, and where in it the lab's have their place."""

    base: Path
    """The group, as a directory of this machine, below which the lab makes its own."""
    controllers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cgroups:
    """The trees that a lab can use: several with v1, one with v2, or none."""

    kind: Literal["v1", "v2", "none"]
    hierarchies: tuple[Hierarchy, ...] = ()

    @property
    def support(self) -> CgroupSupport:
        """What nodes have of it."""
        usable = [name for each in self.hierarchies for name in each.controllers if name in WANTED]
        return CgroupSupport(self.kind, tuple(usable))

    def lab_directories(self, lab: str) -> list[Path]:
        """The top group of a lab in each tree."""
        return [each.base / f"gridwright-{lab}" for each in self.hierarchies]

    def make(self, lab: str, member: str) -> MemberGroups:
        """Make the groups of a node, or of the anchor, and return them. Raises OSError."""
        first, entry = [], []
        for hierarchy, top in zip(self.hierarchies, self.lab_directories(lab), strict=True):
            _make(top, hierarchy, cpuset=self.kind == "v1")
            group = top / member
            _make(group, hierarchy, cpuset=self.kind == "v1")
            first.append(group)
            if self.kind == "v2":
                _enable(top, hierarchy.controllers)
                group = group / "init"
                group.mkdir(exist_ok=True)
            entry.append(group)
        controllers = tuple(",".join(each.controllers) for each in self.hierarchies)
        return MemberGroups(self.kind, tuple(map(str, first)), tuple(map(str, entry)), controllers)


@dataclass(frozen=True, slots=True)
class MemberGroups:
    """The groups of a node in each tree, as directories of this machine."""

    kind: Literal["v1", "v2", "none"] = "none"
    tops: tuple[str, ...] = ()
    """What the node sees as the root of the tree."""
    entries: tuple[str, ...] = ()
    """Where its processes begin: the same with v1; with v2 a leaf, as only leaves hold processes."""
    controllers: tuple[str, ...] = ()
    """Of each tree, as mount options."""

    def join_tops(self) -> None:
        """Move the calling process to the roots, to make a namespace of control groups there."""
        for directory in self.tops:
            join(directory)

    def join(self) -> None:
        """Move the calling process to where processes of the node begin. Raises OSError."""
        for directory in self.entries:
            join(directory)

    def settle(self) -> None:
        """Move the node's first process on to where it belongs, and let the node divide its resources."""
        self.join()
        if self.kind == "v2":
            for top, controllers in zip(self.tops, self.controllers, strict=True):
                _enable(Path(top), tuple(controllers.split(",")) if controllers else ())


def join(directory: str) -> None:
    """Move the calling process to a group. Raises OSError."""
    # Between fork and execve, where no more may be done than system calls.
    fd = os.open(f"{directory}/cgroup.procs", os.O_WRONLY)
    try:
        os.write(fd, b"0")
    finally:
        os.close(fd)


def detect(mountinfo: str | None = None, memberships: str | None = None) -> Cgroups:
    """Find the trees that can be written, from what the kernel tells of this process.

    With v1 the lab's groups are made below those of this process, so that limits on it hold for the lab. With
    v2 a group that holds processes can have no children with controllers, so they are made at the root
    of what is mounted, with the controllers that are enabled there already: nothing outside
    the lab's groups is changed.
    """
    mounted = mountinfo if mountinfo is not None else Path("/proc/self/mountinfo").read_text()
    member = memberships if memberships is not None else Path("/proc/self/cgroup").read_text()
    first = tuple(_v1(mounted, _own_groups(member)))
    if any("freezer" in each.controllers for each in first):
        return Cgroups("v1", first)
    second = next(_v2(mounted), None)
    return Cgroups("v2", (second,)) if second is not None else Cgroups("none")


def _own_groups(memberships: str) -> dict[str, str]:
    """Group of this process by controllers, as /proc/PID/cgroup has them (cgroups(7))."""
    lines = (line.split(":", 2) for line in memberships.splitlines())
    return {controllers: group for _, controllers, group in lines}


def _mounts(mountinfo: str, kind: str) -> Iterator[tuple[str, Path, list[str]]]:
    """Root within the tree, mount point and options of each mount of a kind (proc_pid_mountinfo(5))."""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, (found, _, options) = before.split(), after.split(maxsplit=2)
        if found == kind:
            yield fields[3], Path(fields[4].encode().decode("unicode_escape")), options.split(",")


def _v1(mountinfo: str, own: dict[str, str]) -> Iterator[Hierarchy]:
    seen = set()
    for root, mount_point, options in _mounts(mountinfo, "cgroup"):
        for controllers, group in own.items():
            names = tuple(controllers.split(","))
            if set(names) <= set(options) and set(names) & set(WANTED) and names not in seen:
                below = group[len(root.rstrip("/")) :] if group.startswith(root) else ""
                base = mount_point / below.lstrip("/")
                if _writable(base):
                    seen.add(names)
                    yield Hierarchy(base, names)


def _v2(mountinfo: str) -> Iterator[Hierarchy]:
    for _, mount_point, _ in _mounts(mountinfo, "cgroup2"):
        if _writable(mount_point):
            with contextlib.suppress(OSError):
                enabled = (mount_point / "cgroup.subtree_control").read_text().split()
                yield Hierarchy(mount_point, tuple(name for name in WANTED if name in enabled))


def _writable(base: Path) -> bool:
    """Whether groups can be made there: a mount may be read-only even for root."""
    probe = base / "gridwright-probe"
    try:
        probe.mkdir(exist_ok=True)
        probe.rmdir()
    except OSError:
        return False
    return True


def _make(group: Path, hierarchy: Hierarchy, *, cpuset: bool) -> None:
    group.mkdir(exist_ok=True)
    if cpuset and "cpuset" in hierarchy.controllers:
        # A cpuset takes no process before it has cores and memory nodes (cpuset(7)).
        for name in ("cpuset.cpus", "cpuset.mems"):
            (group / name).write_text((group.parent / name).read_text())


def _enable(group: Path, controllers: tuple[str, ...]) -> None:
    """Let children of a v2 group have controllers; it must not hold processes itself. Raises OSError."""
    if controllers:
        (group / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


def processes(top: Path) -> set[int]:
    """Processes in a group and all below it."""
    found: set[int] = set()
    for file in (top, *_below(top)):
        with contextlib.suppress(OSError):
            found |= {int(word) for word in (file / "cgroup.procs").read_text().split()}
    return found


def remove(tops: Iterable[Path], *, seconds: float = 5.0) -> list[Path]:
    """Remove groups with all below them; return those that are left after some tries.

    A group goes only when the kernel has let go of its last process, a moment after that died.
    """
    deadline = time.monotonic() + seconds
    left = [top for top in tops if top.exists()]
    while True:
        left = [top for top in left if not _removed(top)]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def _removed(top: Path) -> bool:
    try:
        for group in (*_below(top), top):
            group.rmdir()
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
            return False
        raise
    return True


def _below(top: Path) -> Iterator[Path]:
    """All groups below one, children before their parents."""
    with contextlib.suppress(OSError):
        for child in [each for each in top.iterdir() if each.is_dir()]:
            yield from _below(child)
            yield child
