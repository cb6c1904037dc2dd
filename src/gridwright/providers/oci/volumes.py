"""Gives a server its volumes by iSCSI, under the same name on both servers of a pair: `volumes.pyz`.

`volumes.pyz --leave` takes them from it. Neither writes to a volume: what is on one belongs to the file
system, or to another grid. Which commands do that is decided out of what the cloud lists and what this
machine has of iSCSI now: records, sessions with their disks, names, and who uses a disk.

iscsiadm writes its records of targets without a flush: a machine that loses its power soon after may find
empty or cut ones. It neither reads nor replaces nor removes those (status 6 of open-iscsi 2.1.8), and logins
fail from then on.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

CONFIGURATION = Path("/etc/gridwright/volumes.json")
DEVICE = re.compile(r"/dev/oracleoci/oraclevd(?:[b-z]|a[a-g])")
"""The 32 names that Compute gives to attachments (Oracle Cloud, consistent device paths)."""
_IQN = re.compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[a-zA-Z0-9.:_-]+")
_ADDRESS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}")


class VolumesError(Exception):
    """What is wrong, all of it, in words for administrators: each with what to do about it."""

    def __init__(self, *troubles: str) -> None:
        super().__init__("; ".join(troubles))
        self.troubles = troubles


@dataclass(frozen=True)
class DesiredVolume:
    """A volume that this machine should have."""

    name: str
    device: str


@dataclass(frozen=True)
class Portal:
    """Where a target is reached."""

    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


@dataclass(frozen=True)
class VolumeAttachment:
    """One volume of this machine."""

    device: str
    iqn: str
    portals: tuple[Portal, ...]
    by_agent: bool = False
    """Whether Oracle's agent logs in: to volumes with several paths it does, and nobody else may then."""


@dataclass(frozen=True)
class VolumesConfiguration:
    """What /etc/gridwright/volumes.json says."""

    volumes: tuple[DesiredVolume, ...]
    attachments: tuple[dict[str, Any], ...] | None
    """As the Compute API would list them; None has it asked."""
    wait_seconds: float


def read_configuration(path: Path) -> VolumesConfiguration:
    """Read it. Raises VolumesError with all that is wrong."""
    try:
        found = json.loads(path.read_text("utf-8"))
        volumes = tuple(DesiredVolume(str(each["name"]), str(each["device"])) for each in found["volumes"])
        given = found.get("attachments")
        wait = float(found.get("wait_seconds", 900))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VolumesError(f"{path} cannot be read ({error!r}): have the machine set up again") from None
    wrong = [f"{each.name}: {each.device} is no device of an attachment" for each in volumes
             if not DEVICE.fullmatch(each.device)]  # fmt: skip
    wrong += [f"{device} is the device of two volumes" for device in twice(each.device for each in volumes)]
    if wrong:
        raise VolumesError(*wrong)
    return VolumesConfiguration(volumes, None if given is None else tuple(given), wait)


def attachments_of(documents: Sequence[dict[str, Any]]) -> tuple[VolumeAttachment, ...]:
    """Those that are attached by iSCSI under a consistent device name. Raises VolumesError.

    Fields are those of IScsiVolumeAttachment (Core Services API); others come and go by themselves.
    """
    found, wrong = [], []
    for each in documents:
        if each.get("attachmentType") != "iscsi" or each.get("lifecycleState") != "ATTACHED":
            continue
        if not each.get("device"):
            continue
        more = each.get("multipathDevices") or ()
        portals = tuple(Portal(str(one["ipv4"]), int(one["port"])) for one in (each, *more))
        device, iqn = str(each["device"]), str(each["iqn"])
        if not (DEVICE.fullmatch(device) and _IQN.fullmatch(iqn)):
            wrong.append(f"attachment {each.get('id', '?')} has device {device!r} and target {iqn!r}")
        elif not all(_ADDRESS.fullmatch(one.address) for one in portals):
            wrong.append(f"attachment {each.get('id', '?')} is reached at {', '.join(map(str, portals))}")
        else:
            by_agent = bool(each.get("isMultipath") or each.get("isAgentAutoIscsiLoginEnabled"))
            found.append(VolumeAttachment(device, iqn, portals, by_agent))
    wrong += [f"two volumes are attached as {device}" for device in twice(each.device for each in found)]
    if wrong:
        raise VolumesError(*(f"{each}: detach it, and apply the grid anew" for each in wrong))
    return tuple(sorted(found, key=lambda each: (len(each.device), each.device)))


def twice(names: Iterable[str]) -> list[str]:
    """What is there more than once."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    return sorted(name for name, count in seen.items() if count > 1)


PLACES = ("etc/iscsi/nodes", "var/lib/iscsi/nodes")
"""Where Debian and Ubuntu have them, and systems of the Red Hat family (iscsiadm(8), FILES)."""


def record_paths(root: Path) -> dict[tuple[str, Portal], Path]:
    """Files of records, whether iscsiadm can read them or not, by target and portal.

    Each is a file ADDRESS,PORT or a directory ADDRESS,PORT,GROUP, below a directory with the target's name.
    """
    found: dict[tuple[str, Portal], Path] = {}
    for place in PLACES:
        for path in sorted((root / place).glob("*/*,*")):
            address, port, *_ = path.name.split(",")
            if port.isdigit():
                found[path.parent.name, Portal(address, int(port))] = path
    return found


def flush_records(targets: Iterable[tuple[str, Portal]], root: Path) -> None:
    """Have the records of these targets on the disk before this returns."""
    there = record_paths(root)
    for path in (there[each] for each in targets if each in there):
        files = [each for each in path.iterdir() if each.is_file()] if path.is_dir() else [path]
        # What names a file has to be there as well as what is in it.
        for each in (*files, *({path} if path.is_dir() else ()), path.parent, path.parent.parent):
            _flush(each)


def _flush(path: Path) -> None:
    with suppress(FileNotFoundError):
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(number)
        finally:
            os.close(number)


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


RULES = "etc/udev/rules.d/90-gridwright-volumes.rules"
"""Behind the rules of udev that learn the path of a disk (60-persistent-storage.rules)."""


@dataclass(frozen=True)
class VolumeStep:
    """A command, and why."""

    argv: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class VolumePlan:
    """What is to be done, and what cannot be."""

    steps: tuple[VolumeStep, ...]
    troubles: tuple[str, ...]


def udev_rules(attachments: Sequence[VolumeAttachment]) -> str:
    """Names of disks by their target: the same on both servers, whatever order disks are found in."""
    lines = ["# Written by Gridwright: names of volumes, as Oracle's own images give them."]
    for each in attachments:
        if not each.by_agent:
            name = each.device.removeprefix("/dev/")
            match = f'SUBSYSTEM=="block", ENV{{ID_PATH}}=="ip-*-iscsi-{each.iqn}-lun-*"'
            lines.append(f'{match}, ENV{{DEVTYPE}}=="disk", SYMLINK+="{name}"')
            lines.append(f'{match}, ENV{{DEVTYPE}}=="partition", SYMLINK+="{name}%n"')
    return "\n".join(lines) + "\n"


def plan_join(attachments: Sequence[VolumeAttachment], observed: ObservedVolumes) -> VolumePlan:
    """Log in to what is attached; what this machine has already is left as it is."""
    steps: list[VolumeStep] = []
    sessions = {(each.target, each.portal) for each in observed.sessions}
    for each in attachments:
        if each.by_agent:
            continue
        for portal in each.portals:
            key = each.iqn, portal
            record = _record(*key)
            if key in observed.damaged:
                remove = ("rm", "-r", "-f", "--", observed.damaged[key])
                steps.append(VolumeStep(remove, f"{each.device}: remove its record, which is damaged"))
            if key not in observed.records:
                steps.append(VolumeStep((*record, "-o", "new"), f"{each.device}: note where it is"))
            if key not in observed.automatic:
                startup = ("-o", "update", "-n", "node.startup", "-v", "automatic")
                steps.append(VolumeStep((*record, *startup), f"{each.device}: log in at each start"))
            if key not in sessions:
                steps.append(VolumeStep((*record, "--login"), f"{each.device}: log in"))
    return VolumePlan(tuple(steps), ())


def plan_leave(leaving: Sequence[tuple[str, str, Portal]], observed: ObservedVolumes) -> VolumePlan:
    """Log out of targets (device, target, portal), each only when nothing uses its disks any more.

    The order is unmount, shut the file system's daemon down, log out, detach: a disk that goes under a daemon
    that has it open takes the file system with it.
    """
    steps: list[VolumeStep] = []
    troubles: list[str] = []
    for device, iqn, portal in leaving:
        disks = [disk for each in observed.sessions if (each.target, each.portal) == (iqn, portal)
                 for disk in each.disks]  # fmt: skip
        uses = [observed.used[disk] for disk in disks if disk in observed.used]
        if uses:
            troubles.append(f"{device} is in use: {uses[0]}; unmount it and shut its file system down first")
            continue
        if any((each.target, each.portal) == (iqn, portal) for each in observed.sessions):
            steps.append(VolumeStep((*_record(iqn, portal), "--logout"), f"{device}: log out"))
        if (iqn, portal) in observed.records:
            steps.append(VolumeStep((*_record(iqn, portal), "-o", "delete"), f"{device}: forget it"))
    return VolumePlan(tuple(steps), tuple(troubles))


def lacking(
    desired: Sequence[DesiredVolume], attachments: Sequence[VolumeAttachment], observed: ObservedVolumes
) -> tuple[str, ...]:
    """What this machine does not have yet of what it should, one sentence each."""
    found = {each.device: each for each in attachments}
    answering = {each.target for each in observed.sessions if each.answers}
    silent = {each.target for each in observed.sessions} - answering
    missing = []
    for each in desired:
        attachment = found.get(each.device)
        if attachment is None:
            missing.append(f"{each.name} is not attached to this machine as {each.device}")
        elif each.device not in observed.links:
            agent = "; Oracle's agent logs in to it: is its Block Volume Management plugin on?"
            why = agent if attachment.by_agent else ""
            missing.append(f"{each.name} is not there yet as {each.device}{why}")
        # Volumes that the agent logs in to have other paths, with targets of their own.
        elif attachment.iqn in silent and not attachment.by_agent:
            portals = ", ".join(map(str, attachment.portals))
            missing.append(f"{each.name} is there as {each.device}, but {portals} does not answer any more")
    return tuple(missing)


def misled(attachments: Sequence[VolumeAttachment], observed: ObservedVolumes) -> tuple[str, ...]:
    """Names that lead to another volume: to go on would destroy what is on it."""
    return tuple(
        f"{each.device} leads to {' and '.join(observed.links[each.device]) or 'a disk without a target'}, "
        f"not to {each.iqn}: detach one of the two, and restart the machine"
        for each in attachments
        # Paths that the agent logs in to have targets of their own.
        if not each.by_agent and each.device in observed.links and each.iqn not in observed.links[each.device]
    )


def _record(iqn: str, portal: Portal) -> tuple[str, ...]:
    return ("iscsiadm", "-m", "node", "-T", iqn, "-p", str(portal))


STATE = ROOT / "var/lib/gridwright/volumes.json"
"""Targets that this program noted: others are not its own, and it leaves them alone."""
LOCK = ROOT / "run/gridwright-volumes.lock"
"""Not in /run/lock, where all may make files on some systems."""
PAUSE_S = float(os.environ.get("GRIDWRIGHT_VOLUMES_PAUSE_S", "5"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 where all volumes are as they should be."""
    parser = argparse.ArgumentParser(prog="volumes", description="Volumes of this server, by iSCSI.")
    parser.add_argument(
        "--config", type=Path, default=CONFIGURATION, metavar="FILE", help="what it should have"
    )
    parser.add_argument("--leave", action="store_true", help="log out of all, before they are detached")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args(arguments)
    done: list[str] = []
    troubles: Sequence[str] = ()
    try:
        configuration = read_configuration(given.config)
        # Who may read a file may lock it.
        with os.fdopen(os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)) as lock:
            os.fchmod(lock.fileno(), 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _leave(_noted(), done) if given.leave else _join(configuration, done)
    except BlockingIOError:
        troubles = ["another one is at work on the volumes: wait for it"]
    except VolumesError as error:
        troubles = error.troubles
    for each in troubles:
        print(f"volumes: {each}", file=sys.stderr)  # noqa: T201 - a program of its own
    if given.json:
        print(json.dumps({"schema": 1, "steps": done, "troubles": list(troubles)}))  # noqa: T201
    return 3 if troubles else 0


def _join(configuration: VolumesConfiguration, done: list[str]) -> None:
    """Wait for attachments, log in, and hold names to their targets. Raises VolumesError."""
    deadline = time.monotonic() + configuration.wait_seconds
    devices = [each.device for each in configuration.volumes]
    while True:
        attachments = attachments_of(_documents(configuration))
        desired = [each for each in attachments if each.device in devices]
        _carry_out(plan_join(desired, observe(devices)), done, desired)
        _forget(desired, done)
        _name(desired, devices, done)
        observed = observe_disks(devices)
        if wrong := misled(desired, observed):
            raise VolumesError(*wrong)
        missing = lacking(configuration.volumes, attachments, observed)
        if not missing:
            return
        if time.monotonic() >= deadline:
            raise VolumesError(*(f"{each}: look at attachments of this machine" for each in missing))
        time.sleep(PAUSE_S)


def _carry_out(plan: VolumePlan, done: list[str], desired: Sequence[VolumeAttachment] = ()) -> None:
    if plan.steps and desired:
        # Before the first of them: what a kill leaves half done is known as this program's own.
        _note({*_noted(), *((each.device, each.iqn, one) for each in desired for one in each.portals)})
    for step in plan.steps:
        run(step.argv)
        done.append(step.why)
    if plan.steps:
        flush_records(((each.iqn, one) for each in desired for one in each.portals), ROOT)
    if plan.troubles:
        raise VolumesError(*plan.troubles)


def _forget(desired: Sequence[VolumeAttachment], done: list[str]) -> None:
    """Log out of what was detached."""
    there = {(each.iqn, one) for each in desired for one in each.portals}
    gone = [each for each in _noted() if (each[1], each[2]) not in there]
    if gone:
        _leave(gone, done)


def _leave(leaving: Sequence[tuple[str, str, Portal]], done: list[str]) -> None:
    """Log out; what is in use keeps all of them. Raises VolumesError."""
    plan = plan_leave(leaving, observe([]))
    if plan.troubles:
        raise VolumesError(*plan.troubles)
    _carry_out(plan, done)
    _note({*_noted()} - {*leaving})


def _name(desired: Sequence[VolumeAttachment], devices: Sequence[str], done: list[str]) -> None:
    """Have udev give disks their names, where one lacks its own or the rules are others."""
    path, text = ROOT / RULES, udev_rules(desired)
    is_new = not path.exists() or path.read_text("utf-8") != text
    if is_new:
        _write(path, text)
        run(["udevadm", "control", "--reload"])
        done.append("names of volumes written")
    if is_new or any(device not in observe_disks(devices).links for device in devices):
        run(["udevadm", "trigger", "--subsystem-match=block", "--action=change"])
        run(["udevadm", "settle", "--timeout=60"])


def _documents(configuration: VolumesConfiguration) -> Sequence[dict[str, Any]]:
    if configuration.attachments is not None:
        return configuration.attachments
    from gridwright.providers.oci.boot import cloud

    try:
        found: list[dict[str, Any]] = cloud.Cloud({}).attachments()
    except cloud.REFUSED as refused:
        raise VolumesError(f"the cloud does not tell what is attached: {refused}") from None
    return found


def _noted() -> list[tuple[str, str, Portal]]:
    try:
        found = json.loads(STATE.read_text("utf-8"))
        return [(str(each["device"]), str(each["iqn"]), Portal(str(each["address"]), int(each["port"])))
                for each in found["targets"]]  # fmt: skip
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VolumesError(f"{STATE} is damaged ({error!r}): remove it, and run this again") from None


def _note(targets: set[tuple[str, str, Portal]]) -> None:
    rows = [{"device": device, "iqn": iqn, "address": portal.address, "port": portal.port}
            for device, iqn, portal in sorted(targets, key=str)]  # fmt: skip
    _write(STATE, json.dumps({"schema": 1, "targets": rows}, indent=1) + "\n")


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
