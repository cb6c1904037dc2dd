"""What the planner knows of this machine: plain values, read once, so that planning is a pure function."""

from __future__ import annotations

import grp
import os
import pwd
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gridwright.node_programs.scratch.commands import run, tool
from gridwright.node_programs.scratch.configuration import Configuration, DesiredArray, DesiredDirectory
from gridwright.node_programs.scratch.content import inspect, inspect_array
from gridwright.node_programs.scratch.disks import BlockDevices, Disk, MdArray, Mount
from gridwright.node_programs.scratch.ec2_metadata import ephemeral_devices
from gridwright.node_programs.scratch.rules import Surroundings, cloud_rules, fitting

TOOLS = ("mdadm", "mkfs.xfs", "mkfs.ext4", "mount", "wipefs")
_SETTLE_S = 20.0
_LOOKS = 4
_LOOK_AGAIN_S = 0.5


@dataclass(frozen=True)
class Queue:
    """How the kernel queues requests of a block device."""

    read_ahead_kib: int
    schedulers: str
    """As sysfs has it, the chosen one in brackets."""
    rotational: bool


@dataclass(frozen=True)
class Machine:
    """Disks, arrays and mounts at one moment."""

    disks: tuple[Disk, ...]
    matches: Mapping[str, frozenset[str]]
    """By array of the configuration: names of the disks that its rules fit."""
    arrays: tuple[MdArray, ...] = ()
    mounts: tuple[Mount, ...] = ()
    tools: frozenset[str] = frozenset(TOOLS)
    queues: Mapping[str, Queue] = field(default_factory=dict)
    not_ready: frozenset[str] = frozenset()
    """Arrays that are mounted, but whose directories are not as configured."""
    full_points: frozenset[Path] = frozenset()
    """Mount points that hold files of the file system below, which a mount would hide."""
    strangers: tuple[str, ...] = ()
    """Owners and groups of the configuration that this machine does not know."""


@dataclass(frozen=True)
class Roots:
    """Where the kernel's file systems are; tests lay out their own."""

    sysfs: Path = Path("/sys")
    proc: Path = Path("/proc")


def discover_disks(configuration: Configuration, roots: Roots) -> tuple[BlockDevices, Machine]:
    """Disks of this machine, and which of them the configuration matches, without reading any."""
    devices = BlockDevices(roots.sysfs, roots.proc)
    disks = devices.disks()
    clouds = cloud_rules()
    around = Surroundings(_board(roots.sysfs))
    if any(disk.transport == "xen" for disk in disks) and not all(
        array.match for array in configuration.arrays
    ):
        around = replace(around, mapped=ephemeral_devices())
    matches = {
        desired.name: frozenset(
            disk.name for disk in disks if fitting(disk, desired.match, clouds, around) is not None
        )
        for desired in configuration.arrays
    }
    return devices, Machine(disks, matches, mounts=devices.mounts)


def observe(configuration: Configuration, roots: Roots) -> Machine:
    """Look at everything that planning needs. Only disks that a rule fits are read at all.

    A disk that is held by nothing one can see is looked at again for a moment: udev and tools that were just
    killed hold disks that briefly.
    """
    for _ in range(_LOOKS - 1):
        machine = _seen(configuration, roots)
        if not any(disk.content.busy and not disk.used and not disk.holders for disk in machine.disks):
            return machine
        time.sleep(_LOOK_AGAIN_S)
    return _seen(configuration, roots)


def _seen(configuration: Configuration, roots: Roots) -> Machine:
    _settle()
    devices, machine = discover_disks(configuration, roots)
    meant = frozenset().union(*machine.matches.values()) if machine.matches else frozenset()
    disks = tuple(
        replace(disk, content=inspect(disk.path)) if disk.name in meant else disk for disk in machine.disks
    )
    arrays = tuple(
        replace(array, filesystem=inspect_array(array.path)) if meant & set(array.members) else array
        for array in devices.arrays()
    )
    names = [*(disk.name for disk in disks), *(array.name for array in arrays)]
    return replace(
        machine,
        disks=disks,
        arrays=arrays,
        tools=frozenset(name for name in TOOLS if tool(name)),
        queues={name: queue for name in names if (queue := _queue(roots.sysfs / "block" / name / "queue"))},
        not_ready=frozenset(array.name for array in configuration.arrays if not directories_ready(array)),
        full_points=frozenset(
            array.mount_point for array in configuration.arrays if _holds_files(array, machine)
        ),
        strangers=_strangers(configuration),
    )


def _settle() -> None:
    """Let udev finish what it is at: it may be assembling our array itself."""
    if Path("/run/udev/control").exists() and tool("udevadm"):
        run(["udevadm", "settle", f"--timeout={_SETTLE_S:.0f}"], _SETTLE_S + 5)


def _board(sysfs: Path) -> str:
    texts = []
    for name in ("chassis_asset_tag", "sys_vendor", "board_vendor"):
        try:
            texts.append((sysfs / "class" / "dmi" / "id" / name).read_text(errors="replace").strip())
        except OSError:
            continue
    return " ".join(texts)


def _queue(directory: Path) -> Queue | None:
    try:
        return Queue(
            int((directory / "read_ahead_kb").read_text()),
            (directory / "scheduler").read_text().strip(),
            (directory / "rotational").read_text().strip() == "1",
        )
    except (OSError, ValueError):
        return None


def identity(name: str, *, group: bool = False) -> int | None:
    """The number of an owner or a group, given as name or number; None where nobody has that name."""
    if name.isdigit():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid if group else pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _strangers(configuration: Configuration) -> tuple[str, ...]:
    desired_arrays = [each for array in configuration.arrays for each in (array.root, *array.directories)]
    unknown = {
        f"user {desired_array.owner}"
        for desired_array in desired_arrays
        if identity(desired_array.owner) is None
    }
    unknown |= {
        f"group {desired_array.group}"
        for desired_array in desired_arrays
        if identity(desired_array.group, group=True) is None
    }
    return tuple(sorted(unknown))


def directories_ready(array: DesiredArray) -> bool:
    """Whether root and directories are there with the owners and modes configured."""
    return all(_is_as_configured(array.mount_point, each) for each in (array.root, *array.directories))


def _is_as_configured(root: Path, desired: DesiredDirectory) -> bool:
    try:
        found = os.lstat(root / desired.path)
    except OSError:
        return False
    owners = (found.st_uid, found.st_gid) == (identity(desired.owner), identity(desired.group, group=True))
    return owners and found.st_mode & 0o7777 == desired.mode


def _holds_files(array: DesiredArray, machine: Machine) -> bool:
    if any(Path(mount.point) == array.mount_point for mount in machine.mounts):
        return False
    try:
        return any(array.mount_point.iterdir())
    except OSError:
        return False
