"""Control groups of a lab's nodes: what this machine lets us have, making them and removing them."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
