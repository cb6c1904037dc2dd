"""What this machine has of iSCSI now: records, sessions with their disks, names, and who uses a disk."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gridwright.providers.oci.volumes.attachments import Portal, VolumesError
from gridwright.providers.oci.volumes.records import record_paths

ROOT = Path(os.environ.get("GRIDWRIGHT_ROOT") or "/")
COMMAND_S = 180
"""A login waits for a portal for two minutes by default (open-iscsi, iscsid.conf: 8 tries of 15 s)."""
_NO_RECORDS = 21
"""iscsiadm(8), exit status ISCSI_ERR_NO_OBJS_FOUND."""


@dataclass(frozen=True)
class IscsiSession:
    """A login, and the disks that came with it."""

    target: str
    portal: Portal
    disks: tuple[str, ...] = ()
    answers: bool = True
    """Whether its target does; disks of one that does not stay, and hang, and fail after two minutes."""


@dataclass(frozen=True)
class ObservedVolumes:
    """All of it."""

    records: frozenset[tuple[str, Portal]] = frozenset()
    automatic: frozenset[tuple[str, Portal]] = frozenset()
    """Records of targets that are logged in to at each start."""
    damaged: dict[tuple[str, Portal], str] = field(default_factory=dict)
    """Files of records that iscsiadm does not read."""
    sessions: tuple[IscsiSession, ...] = ()
    links: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Targets of the disk that a device name leads to; empty where it leads to a disk without one."""
    used: dict[str, str] = field(default_factory=dict)
    """Disks in use, and by what."""


def run(argv: Sequence[str], *, may: Sequence[int] = (), limit_s: float = COMMAND_S) -> str:
    """Run a command without a shell. Raises VolumesError with what it said."""
    try:
        done = subprocess.run(
            list(argv), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=limit_s, check=False, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise VolumesError(f"{' '.join(argv)}: {error}") from None
    if done.returncode and done.returncode not in may:
        said = (done.stderr or done.stdout).strip()
        raise VolumesError(f"{' '.join(argv)} ended with status {done.returncode}: {said}")
    return done.stdout if done.returncode == 0 else ""


def observe(devices: Sequence[str], root: Path = ROOT) -> ObservedVolumes:
    """All of it. Raises VolumesError where iscsiadm does not answer."""
    records = _records()
    automatic = frozenset(each for each in records if _is_automatic(*each))
    damaged = {each: str(path) for each, path in record_paths(root).items() if each not in records}
    return replace(observe_disks(devices, root), records=records, automatic=automatic, damaged=damaged)


def observe_disks(devices: Sequence[str], root: Path = ROOT) -> ObservedVolumes:
    """What the kernel and udev have, without the records of iscsiadm."""
    sessions = sessions_of(root)
    target_of = {disk: each.target for each in sessions for disk in each.disks}
    links: dict[str, tuple[str, ...]] = {}
    for device in devices:
        disk = disk_behind(device, root)
        if disk is not None:
            slaves = _listed(root / "sys/block" / disk / "slaves")
            links[device] = tuple(sorted({target_of[one] for one in (disk, *slaves) if one in target_of}))
    used = {disk: why for each in sessions for disk in each.disks if (why := use_of(disk, root))}
    return ObservedVolumes(sessions=sessions, links=links, used=used)


def _records() -> frozenset[tuple[str, Portal]]:
    """Lines of `iscsiadm -m node`: 169.254.2.2:3260,1 iqn.2015-12.com.oracleiaas:0123."""
    found = re.findall(
        r"^(\S+):(\d+),\S+ (\S+)$", run(["iscsiadm", "-m", "node"], may=[_NO_RECORDS]), re.MULTILINE
    )
    return frozenset((iqn, Portal(address, int(port))) for address, port, iqn in found)


def _is_automatic(iqn: str, portal: Portal) -> bool:
    said = run(["iscsiadm", "-m", "node", "-T", iqn, "-p", str(portal)], may=[_NO_RECORDS])
    return re.search(r"^node\.startup = automatic$", said, re.MULTILINE) is not None


def sessions_of(root: Path) -> tuple[IscsiSession, ...]:
    """Sessions that the kernel has, with their disks (Documentation/ABI, sysfs-class-iscsi)."""
    found = []
    for name in _listed(root / "sys/class/iscsi_session"):
        directory = root / "sys/class/iscsi_session" / name
        device = Path(os.path.realpath(directory / "device"))
        number = name.removeprefix("session")
        connection = root / "sys/class/iscsi_connection" / f"connection{number}:0"
        address, port = _read(connection / "persistent_address"), _read(connection / "persistent_port")
        disks = sorted(path.name for path in device.glob("target*/*/block/*"))
        if address and port.isdigit():
            target, portal = _read(directory / "targetname"), Portal(address, int(port))
            answers = _read(directory / "state") in ("LOGGED_IN", "")
            found.append(IscsiSession(target, portal, tuple(disks), answers))
    return tuple(sorted(found, key=lambda each: (each.target, str(each.portal))))


def disk_behind(device: str, root: Path) -> str | None:
    """The kernel's name of the disk that a name in /dev leads to; None where there is none."""
    path = root / device.lstrip("/")
    name = Path(os.path.realpath(path)).name
    return name if path.exists() and (root / "sys/block" / name).is_dir() else None


def use_of(disk: str, root: Path = ROOT) -> str:
    """By what a disk is used: what lies on it, a mount, a process; empty where by nothing."""
    directory = root / "sys/block" / disk
    holders = [*_listed(directory / "holders")]
    parts = [each for each in _listed(directory) if (directory / each / "partition").exists()]
    for part in parts:
        holders += _listed(directory / part / "holders")
    if holders:
        return f"{', '.join(sorted(set(holders)))} lies on it"
    numbers = {_read(directory / "dev"), *(_read(directory / part / "dev") for part in parts)}
    for line in _read(root / "proc/self/mountinfo").splitlines():
        words = line.split()
        if len(words) > 4 and words[2] in numbers:
            return f"it is mounted on {words[4]}"
    return _opener({disk, *parts}, root)


def _opener(names: set[str], root: Path) -> str:
    """A process that has one of these devices open, as a daemon of a file system has."""
    own = str(os.getpid())
    for process in _listed(root / "proc"):
        if not process.isdigit() or process == own:
            continue
        for number in _listed(root / "proc" / process / "fd"):
            try:
                to = os.readlink(root / "proc" / process / "fd" / number)  # noqa: PTH115 - no path is wanted
            except OSError:
                continue
            if to.startswith("/dev/") and Path(to).name in names:
                return f"{_read(root / 'proc' / process / 'comm') or 'a process'} ({process}) has it open"
    return ""


def _listed(directory: Path) -> list[str]:
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 - names are wanted, not paths
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace").strip()
    except OSError:
        return ""
