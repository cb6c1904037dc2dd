"""The root file system of a node: the image below, what the node changes above, and what it shares."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gridwright.beneath import DIRECTORY, remove_tree
from gridwright.providers.lab.cgroups import MemberGroups
from gridwright.providers.lab.disk import FILE_SYSTEM, MOUNT_POINT
from gridwright.providers.lab.syscalls import MountFlag, bind, change_root, mount

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse")
_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "ptmx": "pts/ptmx"}
_SAFE = MountFlag.NO_SUID | MountFlag.NO_DEVICES | MountFlag.NO_EXEC
_COPIED = ("etc", "home", "mnt", "opt", "root", "srv", "var")
"""Directories of the image that a node without an overlay has a copy of: about 40 MB."""
_COPIES = "copies"
_STORED = ("home", "srv", "var/lib/mfs", "var/lib/slurm", "var/spool/gridengine")
"""What outlives a crash of this machine, as far as programs wait for the disk: homes, data, queues, tables.
It goes past the overlay, on which nothing waits, and which would have figures that are none of a disk."""


@dataclass(frozen=True, slots=True)
class SharedDirectory:
    """A directory of this machine that a node sees."""

    source: Path
    target: Path
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class RootPlan:
    """What the root of a node is made of."""

    image: Path
    """The root file system that all nodes begin with."""
    changes: Path
    """The node's own directory: what it writes is kept there."""
    files: Mapping[str, str]
    """Text files that it has, by path, such as /etc/hosts."""
    shares: tuple[SharedDirectory, ...]
    disk: str | None = None
    """The block device of its disk, of a storage node that has one."""


def make_root(plan: RootPlan, groups: MemberGroups) -> None:
    """Make the root of a node and move into it.

    To be called in a mount namespace of the node's own, by its first process in its own PID, network and
    control-group namespaces. Raises OSError.
    """
    os.umask(0o022)
    mount("", "/", flags=MountFlag.RECURSIVE | MountFlag.PRIVATE)
    root = plan.changes / "root"
    root.mkdir(parents=True, exist_ok=True)
    if not _overlay(plan, root):
        _copies(plan, root)
    for path, text in plan.files.items():
        _write(root / path.lstrip("/"), text)
    _kernel_mounts(root)
    _devices(root / "dev")
    for share in plan.shares:
        target = root / str(share.target).lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        bind(str(share.source), str(target), read_only=share.read_only)
    if plan.disk is not None:
        target = root / MOUNT_POINT.lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        mount(plan.disk, str(target), FILE_SYSTEM, MountFlag.NO_SUID | MountFlag.NO_DEVICES)
    _control_groups(root / "sys/fs/cgroup", groups)
    change_root(str(root))


def _write(path: Path, text: str) -> None:
    # The image may have a link there that leads out of the root.
    path.unlink(missing_ok=True)
    path.write_text(text)


def _overlay(plan: RootPlan, root: Path) -> bool:
    """The image below, and the node's own directory above; False where this machine has no overlays.

    Raises OSError where it had one before, so that a node never boots without what it wrote; one that began
    with copies goes on with them.
    """
    upper, work = plan.changes / "upper", plan.changes / "work"
    is_first = not upper.exists()
    if (plan.changes / _COPIES).exists():
        return False
    for directory in (upper, work):
        directory.mkdir(exist_ok=True)
    # A boot empties /tmp. The node's root may have left anything of that name.
    if not remove_tree(upper / "tmp"):
        with suppress(OSError):
            (upper / "tmp").unlink()
    # An overlay that is not synced warns so of a crash of the machine: what must outlive one is not in it.
    shutil.rmtree(work / "work" / "incompat", ignore_errors=True)
    try:
        try:
            _mount_overlay(plan.image, upper, work, root, ",volatile")
        except OSError:  # a kernel before 5.10
            _mount_overlay(plan.image, upper, work, root, "")
    except OSError:
        if not is_first:
            raise
        for directory in (upper, work):
            shutil.rmtree(directory)
        return False
    _make_temporary(root)
    for name in _STORED:
        begun = (plan.changes / name).exists()
        # An earlier release left it in the overlay.
        if not (plan.image / name).is_dir() or ((upper / name).exists() and not begun):
            continue
        stored = _own_copy(plan.image / name, plan.changes / name)
        target = root / name
        target.mkdir(parents=True, exist_ok=True)
        bind(str(stored), str(target))
    return True


def _make_temporary(root: Path) -> None:
    """The node's /tmp. Raises OSError where it is a link, which would lead out of the node's root."""
    (root / "tmp").mkdir(exist_ok=True)
    opened = os.open(root / "tmp", DIRECTORY)
    try:
        os.fchmod(opened, 0o1777)
    finally:
        os.close(opened)


def _mount_overlay(image: Path, upper: Path, work: Path, root: Path, options: str) -> None:
    """Mount it, by default without ever waiting for the disk of all of this machine."""
    opened = [os.open(each, os.O_PATH | os.O_DIRECTORY) for each in (image, upper, work)]
    try:
        # Through descriptors, as a comma or a colon in a path would end the option.
        lower, up, aside = (f"/proc/self/fd/{fd}" for fd in opened)
        data = f"lowerdir={lower},upperdir={up},workdir={aside},index=off{options}"
        mount("overlay", str(root), "overlay", data=data)
    finally:
        for fd in opened:
            os.close(fd)


def _copies(plan: RootPlan, root: Path) -> None:
    """Where overlays do not work (as in many containers): /usr of the image, and copies of the rest."""
    mount("tmpfs", str(root), "tmpfs", data="mode=755")
    for entry in plan.image.iterdir():
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(entry.readlink())
            continue
        target.mkdir()
        if entry.name in _COPIED:
            bind(str(_own_copy(entry, plan.changes / _COPIES / entry.name)), str(target))
        elif entry.name == "usr":
            bind(str(entry), str(target), read_only=True)
            own = _own_copy(entry / "local", plan.changes / _COPIES / "usr/local")
            bind(str(own), str(target / "local"))
    _make_temporary(root)


def _own_copy(source: Path, copy: Path) -> Path:
    """The node's copy of a directory of the image; made whole, or not at all."""
    if not copy.exists():
        part = copy.with_name(f"{copy.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        _copy(source, part)
        part.rename(copy)
    return copy


def _copy(source: Path, target: Path) -> None:
    """Copy a tree with owners, which shutil leaves out."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target, symlinks=True)
    for place, directories, files in os.walk(source):
        for name in (".", *directories, *files):
            found = Path(place, name)
            status = found.lstat()
            os.lchown(target / found.relative_to(source), status.st_uid, status.st_gid)
            if not found.is_symlink():
                (target / found.relative_to(source)).chmod(status.st_mode & 0o7777)


def _kernel_mounts(root: Path) -> None:
    for directory in ("proc", "sys", "run", "dev"):
        (root / directory).mkdir(exist_ok=True)
    proc = str(root / "proc")
    mount("proc", proc, "proc", _SAFE)
    # They change the machine, not the node.
    for name in ("sys", "sysrq-trigger"):
        if (root / "proc" / name).exists():
            bind(f"{proc}/{name}", f"{proc}/{name}", read_only=True)
    mount("sysfs", str(root / "sys"), "sysfs", _SAFE | MountFlag.READ_ONLY)
    mount("tmpfs", str(root / "run"), "tmpfs", MountFlag.NO_SUID | MountFlag.NO_DEVICES, "mode=755,size=10%")


def _devices(directory: Path) -> None:
    """Devices that no harm can be done with, and terminals of the node's own."""
    mount("tmpfs", str(directory), "tmpfs", MountFlag.NO_SUID, "mode=755,size=64k")
    for name in _DEVICES:
        if Path("/dev", name).exists():
            (directory / name).touch()
            bind(f"/dev/{name}", str(directory / name))
    for name, target in _LINKS.items():
        (directory / name).symlink_to(target)
    for name in ("pts", "shm"):
        (directory / name).mkdir()
    mount(
        "devpts",
        str(directory / "pts"),
        "devpts",
        MountFlag.NO_SUID | MountFlag.NO_EXEC,
        "newinstance,ptmxmode=666,mode=620",
    )
    mount("tmpfs", str(directory / "shm"), "tmpfs", MountFlag.NO_SUID | MountFlag.NO_DEVICES, "mode=1777")


def _control_groups(directory: Path, groups: MemberGroups) -> None:
    """The node's own groups, as it would see them on a machine of its own."""
    if groups.kind == "v2":
        mount("cgroup2", str(directory), "cgroup2", _SAFE)
    elif groups.kind == "v1":
        mount("tmpfs", str(directory), "tmpfs", _SAFE, "mode=755,size=64k")
        for controllers in groups.controllers:
            place = directory / controllers
            place.mkdir()
            mount("cgroup", str(place), "cgroup", _SAFE, controllers)
            for name in controllers.split(","):
                with suppress(FileExistsError):
                    (directory / name).symlink_to(controllers)
