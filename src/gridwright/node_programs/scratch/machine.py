"""What the planner knows of this machine: plain values, read once, so that planning is a pure function.

Rules of clouds and of the configuration say which disks are instance stores; others are left alone.
"""

from __future__ import annotations

import fnmatch
import grp
import http.client
import json
import os
import pkgutil
import pwd
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gridwright.node_programs.scratch.commands import run, tool
from gridwright.node_programs.scratch.configuration import (
    Configuration,
    DesiredArray,
    DesiredDirectory,
    DiskRule,
)
from gridwright.node_programs.scratch.disks import BlockDevices, Disk, MdArray, Mount, inspect, inspect_array


@dataclass(frozen=True)
class CloudRules:
    """What the clouds call their instance stores, and what they call disks that outlive a stop."""

    stores: tuple[DiskRule, ...]
    never: tuple[str, ...]
    """Patterns of models that are refused even to a rule of the configuration."""


def cloud_rules() -> CloudRules:
    """The rules of `instance_stores.json`, beside this module or in the zipapp."""
    data = json.loads(pkgutil.get_data(__package__, "instance_stores.json") or b"")
    stores = tuple(
        DiskRule(
            name=each["name"],
            transport=each["transport"],
            model=each.get("model"),
            board=each.get("board"),
            mapped=each.get("mapped", False),
        )
        for each in data["rules"]
    )
    return CloudRules(stores, tuple(each["model"] for each in data["never"]))


@dataclass(frozen=True)
class Surroundings:
    """What rules look at besides the disk."""

    board: str = ""
    """What the firmware says: chassis tag and vendor (/sys/class/dmi/id)."""
    mapped: frozenset[str] = frozenset()
    """Names of devices that the cloud's mapping has as instance store."""


def fitting(disk: Disk, own: Sequence[DiskRule], clouds: CloudRules, around: Surroundings) -> DiskRule | None:
    """The first rule that the disk fits: of the configuration where it has some, else of the clouds."""
    if any(fnmatch.fnmatchcase(disk.model, pattern) for pattern in clouds.never):
        return None
    # Disks over a network outlive the machine, whatever they are called.
    if disk.remote:
        return None
    return next((rule for rule in own or clouds.stores if _fits(disk, rule, around)), None)


def _fits(disk: Disk, rule: DiskRule, around: Surroundings) -> bool:
    least, most = rule.at_least_bytes, rule.at_most_bytes
    return all(
        (
            rule.transport in (None, disk.transport),
            # A loop device is a file of somebody's: it has to be meant.
            rule.transport is not None or disk.transport != "loop",
            rule.model is None or fnmatch.fnmatchcase(disk.model, rule.model),
            rule.serial is None or fnmatch.fnmatchcase(disk.serial, rule.serial),
            least is None or disk.bytes >= least,
            most is None or disk.bytes <= most,
            rule.board is None or rule.board in around.board,
            not rule.mapped or disk.name in around.mapped,
        )
    )


_HOST = "169.254.169.254"
_ANSWER_S = 2.0
_LIFETIME = "60"


def ephemeral_devices(host: str = _HOST, port: int = 80, limit_s: float = _ANSWER_S) -> frozenset[str]:
    """Names such as xvdb that `block-device-mapping/ephemeralN` has; none where nobody answers.

    Amazon EC2 User Guide, instance metadata categories; with a session token, as IMDSv2 asks for one. The
    mapping says sdb where Xen's driver says xvdb.
    """
    connection = http.client.HTTPConnection(host, port, timeout=limit_s)
    try:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": _LIFETIME}
        token = _ask(connection, "PUT", "/latest/api/token", headers)
        signed = {"X-aws-ec2-metadata-token": token} if token else {}
        root = "/latest/meta-data/block-device-mapping/"
        listed = _ask(connection, "GET", root, signed).split()
        stores = [name for name in listed if re.fullmatch(r"ephemeral\d+", name)]
        devices = [_ask(connection, "GET", root + name, signed).strip() for name in stores]
    except (OSError, http.client.HTTPException):
        return frozenset()
    finally:
        connection.close()
    matches = [re.fullmatch(r"(?:/dev/)?(?:sd|xvd)([a-z]{1,2})", device) for device in devices]
    return frozenset(f"xvd{match[1]}" for match in matches if match)


def _ask(connection: http.client.HTTPConnection, method: str, path: str, headers: dict[str, str]) -> str:
    """The body of a short answer; nothing where the service says no."""
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read(1 << 16)
    return body.decode("ascii", "replace") if answer.status == http.client.OK else ""


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
