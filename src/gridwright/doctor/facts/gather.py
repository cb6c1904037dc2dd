"""Looks up the facts of a node, on it: `python -m gridwright.doctor.facts.gather` reads a request.

Request (JSON on stdin): a `FactsRequest`. Nothing is changed but for empty files in each library, which are
the test of whether it can be written to and locked: their names are removed at once, and so are those that a
look which was killed has left. What may hang, may be secret, or fails is looked at in a child of its own, all
at the same time. Nothing is imported that is slow to start.

The machine is looked at here: scratch arrays, services that failed, network interfaces
(https://docs.kernel.org/networking/statistics.html), the clock, the system, disks and md arrays, trouble in
the kernel's log, and settings by the names that the tuning table gives them.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import hashlib
import json
import os
import platform
import re
import resource
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import psutil

from gridwright import __version__
from gridwright.bounded import Hangs, Looker, call_bounded, look_at_all
from gridwright.commands import CommandError, CommandSilent, run_here
from gridwright.doctor.facts import kernels
from gridwright.doctor.facts.filesystems import (
    HEALTH_S,
    health,
    library,
    locks,
    mounted,
    remove_left,
    with_usage,
)
from gridwright.doctor.facts.node_facts import (
    ArrayFacts,
    ClockFacts,
    DiskFacts,
    InterfaceFacts,
    LibraryFacts,
    MemoryFacts,
    MountFacts,
    NameFacts,
    NodeFacts,
    ProcessorFacts,
    ScratchFacts,
    ServiceFacts,
    SystemFacts,
    Trouble,
)
from gridwright.doctor.messages import FactsRequest
from gridwright.filesystems.health import LATE_S
from gridwright.filesystems.lustre_client.connections import evictions
from gridwright.kernel_files import number_of, text_of
from gridwright.machine import physical_cores
from gridwright.messages import MessageError, decode, encode

_SETTING_S = 2.0
"""For one command; a client that has lost its servers may take minutes."""


def printed(command: Sequence[str]) -> str | None:
    """What a command prints; None where this node does not have it. Raises TimeoutError."""
    return None if shutil.which(command[0]) is None else _output(command)


def unit(name: str) -> str | None:
    """The state of a unit of systemd, such as `active`; None where there is no such unit (systemctl(1))."""
    if not _SYSTEMD.is_dir():
        return "?systemd does not run here"
    shown = _output(["systemctl", "show", "--property=LoadState,ActiveState", "--", name])
    facts = dict(line.partition("=")[::2] for line in shown.splitlines())
    return facts.get("ActiveState") if facts.get("LoadState") == "loaded" else None


def _output(command: Sequence[str]) -> str:
    """What a command prints, whatever its exit status. Raises TimeoutError."""
    try:
        return run_here(command, timeout_s=_SETTING_S).stdout.decode(errors="replace")
    except CommandSilent:
        raise TimeoutError(110, f"{command[0]} does not answer") from None


_SYS = Path("/sys")
_MOST_FILES = 1024
"""Files that one pattern may name: governors of many processors."""
_OF_MOUNTS = "class/bdi/0:"
"""Below it are file systems without a disk, of all kinds; the table means those of NFS."""
_MOUNTS = Path("/proc/self/mountinfo")
_ACTIVE_PROFILE = Path("/etc/tuned/active_profile")
SHOWN_UNLIMITED = "unlimited"


def values(read: Callable[[str], str | None], keys: Iterable[str]) -> dict[str, str | None]:
    """What each key holds; None where there is no such setting; `?` and why where it may not be read."""
    found: dict[str, str | None] = {}
    for key in keys:
        try:
            found[key] = read(key)
        except (PermissionError, TimeoutError) as error:
            found[key] = f"?{error.strerror}"
        except OSError:
            found[key] = None
    return found


def sysctl(key: str) -> str | None:
    """A value below /proc/sys, its fields one space apart; a name has dots or slashes (sysctl(8))."""
    if ".." in key.split("/"):
        return None
    path = key if "/" in key else key.replace(".", "/")
    return " ".join((Path("/proc/sys") / path).read_text().split())


def sysfs(pattern: str) -> str | None:
    """What files below /sys hold, the chosen one of several words; different ones with commas."""
    if ".." in pattern.split("/"):
        return None
    paths = sorted(_SYS.glob(pattern.lstrip("/")))[:_MOST_FILES]
    if not paths:
        return None
    if pattern.lstrip("/").startswith(_OF_MOUNTS):
        served = set(_served_devices())
        paths = [path for path in paths if path.parent.name in served]
        if not paths:
            return None
    found = {chosen(path.read_text().strip()) for path in paths}
    return ", ".join(sorted(found))


def _served_devices() -> Iterator[str]:
    """Numbers of the devices that stand for mounts of NFS (proc(5), /proc/self/mountinfo)."""
    for line in _MOUNTS.read_text(errors="replace").splitlines():
        words = line.split()
        if "-" in words[6:] and words[words.index("-", 6) + 1].startswith("nfs"):
            yield words[2]


def chosen(text: str) -> str:
    """The word in brackets, as in `always [madvise] never`, else all of it."""
    found = re.search(r"\[([^]]*)\]", text)
    return found[1] if found else text


def limit(key: str) -> str | None:
    """A limit of this process, which a login gave it: `nofile` (the soft one), `nofile hard`.

    The names are those of limits.conf(5).
    """
    words = set(re.split(r"[\s.:_-]+", key))
    hard = bool(words & {"hard"})
    name = next(iter(words - {"hard", "soft"}), "")
    number = getattr(resource, f"RLIMIT_{name.upper()}", None)
    if number is None:
        return None
    found = resource.getrlimit(number)[1 if hard else 0]
    return SHOWN_UNLIMITED if found == resource.RLIM_INFINITY else str(found)


def tuned() -> str | None:
    """The profile that tuned has been told to keep (tuned-adm(8))."""
    return text_of(_ACTIVE_PROFILE)


_MOST_RECORDS = 200_000
_LONGEST_S = 2.5
_RECORD = 8192
"""A record is never longer: CONSOLE_EXT_LOG_MAX of kernel/printk."""

TROUBLE: dict[str, re.Pattern[str]] = {
    "memory-killed": re.compile(r"^Out of memory: Kill"),
    "machine-check": re.compile(r"\bmce: \[Hardware Error\]|Machine Check Exception|EDAC .*\bUE\b"),
    "disk-error": re.compile(
        r"(critical medium|critical target|blk_update_request: I/O|Buffer I/O|\bI/O) error[,: ]"
        r"|EXT4-fs error|XFS \(.*\): (metadata I/O error|Corruption|log I/O error|Filesystem has been shut)"
        r"|Remounting filesystem read-only"
    ),
    "nvme-timeout": re.compile(r"nvme nvme\d+: (I/O .*timeout|controller is down|Device not ready)"),
    "task-hung": re.compile(r"task \S+:\d+ blocked for more than \d+ seconds"),
    "server-silent": re.compile(r"nfs: server \S+ not responding|LustreError: .*(Connection to|evicted)"),
}
"""Kinds of trouble, and the kernel's words for each; a job that is killed at its own limit is none.

mm/oom_kill.c, arch/x86/kernel/cpu/mce, block/blk-core.c, fs/ext4/super.c, fs/xfs, drivers/nvme/host/pci.c,
kernel/hung_task.c, net/sunrpc/clnt.c, lustre/ptlrpc.
"""


_OF_FILES = re.compile(r"\bloop\d")
"""Disks that are files: what uses them, such as an installer or a test, has its own word for it."""


def kernel_log() -> dict[str, Trouble]:
    """How often each kind of trouble is there, and the last line of it. Raises OSError: it may be secret."""
    return digest(_records())


def digest(lines: Iterable[str]) -> dict[str, Trouble]:
    """Count the kinds of trouble; only text of the kernel counts, not what a process wrote into its log.

    A target of Lustre that an administrator switched off and on here has lost nobody (`target-reactivated`).
    """
    troubles: dict[str, Trouble] = {}
    lines = list(lines)
    switched = {each.number for each in evictions(lines) if each.since_off_s is not None}
    for number, line in enumerate(lines):
        if number in switched or _OF_FILES.search(line):
            continue
        for kind, pattern in TROUBLE.items():
            if pattern.search(line):
                before = troubles[kind].count if kind in troubles else 0
                troubles[kind] = Trouble(before + 1, line[:200])
    return troubles


def _records() -> Iterator[str]:
    """The text of each record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg of the kernel)."""
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    deadline = time.monotonic() + _LONGEST_S
    with contextlib.closing(os.fdopen(log, "rb", buffering=0)):
        for _ in range(_MOST_RECORDS):
            try:
                record = os.read(log, _RECORD)
            except BlockingIOError:
                return
            except BrokenPipeError:
                # The record was overwritten while it was read: the next one follows.
                continue
            if not record or time.monotonic() > deadline:
                return
            if (text := kernel_text(record.decode(errors="replace"))) is not None:
                yield text


def kernel_text(record: str) -> str | None:
    """The text of `priority,number,microseconds,flags;text`; None of what did not come from the kernel.

    The lowest three bits of the priority are the level, the others the facility, 0 for the kernel.
    """
    head, _, rest = record.partition(";")
    priority = head.split(",", 1)[0]
    if not priority.isdigit() or int(priority) >> 3:
        return None
    return rest.split("\n", 1)[0]


_BLOCK = Path("/sys/block")
_NO_DISKS = ("loop", "ram", "zram", "sr", "fd", "nbd")
"""Block devices that are no disks: files, memory, and media that are put in."""
_QUEUE = (
    *("scheduler", "read_ahead_kb", "nr_requests", "max_sectors_kb", "max_hw_sectors_kb", "rotational"),
    *("nomerges", "rq_affinity", "write_cache", "wbt_lat_usec", "iostats"),
)
"""See https://docs.kernel.org/block/queue-sysfs.html."""


def disks() -> list[DiskFacts]:
    """Every disk and array: kind, model, size in bytes, and the settings of its queue."""
    return [_disk(path) for path in sorted(_BLOCK.iterdir()) if not path.name.startswith(_NO_DISKS)]


def _disk(path: Path) -> DiskFacts:
    queue = {name: chosen(text) for name in _QUEUE if (text := text_of(path / "queue" / name)) is not None}
    return DiskFacts(
        name=path.name,
        medium=medium(path.name, queue.get("rotational")),
        model=text_of(path / "device" / "model"),
        size_bytes=(number_of(path / "size") or 0) * 512,
        queue=queue,
        members=sorted(each.name for each in (path / "slaves").glob("*")),
    )


def medium(name: str, rotational: str | None) -> str:
    """`nvme`, `ssd` or `rotational`, as the tuning table has them; emulated disks say the last."""
    if name.startswith("nvme"):
        return "nvme"
    return "rotational" if rotational == "1" else "ssd"


def arrays() -> list[ArrayFacts]:
    """Arrays of md as the kernel has them now; see https://docs.kernel.org/admin-guide/md.html."""
    return [_array(path) for path in _md()]


def _md() -> Iterator[Path]:
    yield from (path for path in sorted(_BLOCK.glob("md*")) if (path / "md").is_dir())


def _array(path: Path) -> ArrayFacts:
    md = path / "md"
    members = [(each.name.removeprefix("dev-"), text_of(each / "state") or "") for each in md.glob("dev-*")]
    return ArrayFacts(
        name=path.name,
        level=text_of(md / "level"),
        state=text_of(md / "array_state"),
        wanted=_first_number(text_of(md / "raid_disks")),
        missing=number_of(md / "degraded"),
        action=text_of(md / "sync_action"),
        members=sorted(name for name, _ in members),
        faulty=sorted(name for name, state in members if "faulty" in state),
    )


def _first_number(text: str | None) -> int | None:
    """Out of `4`, or `4 (3)` while its shape changes."""
    match = re.match(r"\d+", text or "")
    return int(match[0]) if match else None


_CPUS = Path("/sys/devices/system/cpu")
_SELINUX = Path("/sys/fs/selinux/enforce")


def system() -> SystemFacts:
    """Kernel, release of the system, identity, and whether it is a container."""
    release = _release()
    return SystemFacts(
        kernel=platform.release(),
        architecture=platform.machine(),
        release=" ".join(filter(None, (release.get("ID"), release.get("VERSION_ID")))) or None,
        identity=_identity(),
        container=_is_container(),
        selinux={"1": "enforcing", "0": "permissive"}.get(text_of(_SELINUX) or "", "off"),
        root=os.geteuid() == 0,
    )


def _release() -> dict[str, str]:
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def _identity() -> str | None:
    """A digest of the machine's identity, which is to be kept secret itself (machine-id(5))."""
    identity = text_of(Path("/etc/machine-id"))
    return hashlib.sha256(f"gridwright {identity}".encode()).hexdigest()[:16] if identity else None


def _is_container() -> bool:
    return any(
        Path(each).exists() for each in ("/run/systemd/container", "/.dockerenv", "/run/.containerenv")
    )


def names() -> NameFacts:
    """What the node's own host name resolves to; asks the name service, which may hang."""
    host = socket.gethostname()
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return NameFacts(host, [], str(error.strerror))
    return NameFacts(host, sorted({str(each[4][0]) for each in found}))


def processors() -> ProcessorFacts:
    """Physical cores, threads of each, and processors that are switched off."""
    cores, cpus = physical_cores(), len(os.sched_getaffinity(0))
    return ProcessorFacts(cores, max(1, cpus // cores), text_of(_CPUS / "offline"))


def memory() -> MemoryFacts:
    """Memory and swap."""
    whole, swap = psutil.virtual_memory(), psutil.swap_memory()
    return MemoryFacts(whole.total, whole.available, swap.total, swap.used)


_UNSYNCHRONISED = 0x0040
"""STA_UNSYNC, include/uapi/linux/timex.h."""
_KEEPERS = ("chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys", "openntpd", "ntpsec")
"""Services that keep the time, as /proc/PID/comm names them: its first 15 characters."""
_CLOCK_ANSWER_S = 2.0


class _Timex(ctypes.Structure):
    """struct timex of adjtimex(2), up to what is read here, with room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def clock() -> ClockFacts:
    """Whether the kernel holds the clock for synchronised (adjtimex(2)), and which service keeps it."""
    keepers = _running()
    synchronised = _kernel_says()
    if not synchronised and "chronyd" in keepers:
        # Without rtcsync in its configuration, chronyd leaves the kernel's flag alone (chrony.conf(5)).
        synchronised = _chrony_says()
    return ClockFacts(synchronised, keepers)


def _kernel_says() -> bool:
    """Raises OSError where the call is not allowed."""
    timex = _Timex()
    library = ctypes.CDLL(None, use_errno=True)
    if library.adjtimex(ctypes.byref(timex)) < 0:
        raise OSError(ctypes.get_errno(), "adjtimex is refused")
    return not timex.status & _UNSYNCHRONISED


def _chrony_says() -> bool:
    """The last field of `chronyc -c tracking` is `Normal` where it is synchronised (chronyc(1))."""
    try:
        done = run_here(["chronyc", "-n", "-c", "tracking"], timeout_s=_CLOCK_ANSWER_S)
    except CommandError:
        return False
    return done.stdout.decode(errors="replace").strip().rpartition(",")[2] == "Normal"


def _running() -> list[str]:
    found = {text_of(path / "comm") for path in Path("/proc").glob("[0-9]*")}
    return sorted(name for name in _KEEPERS if name in found)


_INTERFACES = Path("/sys/class/net")
_ROUTES = Path("/proc/net/route")
_COUNTED = ("rx_packets", "rx_errors", "rx_dropped", "rx_missed_errors", "tx_packets", "tx_errors")
_LOOPBACK = "772"
"""ARPHRD_LOOPBACK, include/uapi/linux/if_arp.h."""


def interfaces() -> list[InterfaceFacts]:
    """Every interface that is up or ought to be a network card: speed in bytes/s, MTU, errors."""
    by_default = _default_interfaces()
    found = []
    for path in sorted(_INTERFACES.iterdir()):
        if not path.is_dir() or text_of(path / "type") == _LOOPBACK:
            continue
        megabits = number_of(path / "speed")
        found.append(
            InterfaceFacts(
                name=path.name,
                real=(path / "device").exists(),
                default=path.name in by_default,
                up=text_of(path / "operstate") in ("up", "unknown"),
                # Virtual cards say -1: they have no speed of their own.
                bytes_per_s=megabits * 125_000 if megabits and megabits > 0 else None,
                mtu=number_of(path / "mtu"),
                counters={name: number_of(path / "statistics" / name) or 0 for name in _COUNTED},
            )
        )
    return found


def _default_interfaces() -> set[str]:
    """Interfaces of the default route (proc(5), /proc/net/route)."""
    rows = [line.split() for line in (text_of(_ROUTES) or "").splitlines()[1:]]
    return {row[0] for row in rows if len(row) > 1 and row[1] == "00000000"}


_ANSWER_S = 3.0
_SYSTEMD = Path("/run/systemd/system")
"""There where systemd is what started the system (sd_booted(3))."""


def services() -> ServiceFacts:
    """Units that failed. Raises OSError where systemd does not run, or does not answer."""
    if not _SYSTEMD.is_dir():
        raise OSError(2, "systemd does not run here")
    command = ["systemctl", "list-units", "--failed", "--plain", "--no-legend", "--no-pager", "--all"]
    try:
        done = run_here(command, timeout_s=_ANSWER_S)
    except CommandError as error:
        raise OSError(110, str(error.problems[0].what)) from None
    if done.status:
        raise OSError(5, done.stderr.decode(errors="replace").strip()[:200] or "systemctl failed")
    return ServiceFacts(failed_units(done.stdout.decode(errors="replace")))


def failed_units(printed: str) -> list[str]:
    """The first word of each line."""
    return sorted({line.split()[0] for line in printed.splitlines() if line.split()})


CONFIGURATION = Path("/etc/gridwright/scratch.json")


def scratch() -> ScratchFacts:
    """Mount points of the configuration, and whether each is one. Raises OSError where it cannot be read."""
    try:
        text = CONFIGURATION.read_text()
    except FileNotFoundError:
        return ScratchFacts({})
    return ScratchFacts({point: os.path.ismount(point) for point in mount_points(text)})


def mount_points(text: str) -> list[str]:
    """The mount points that a configuration names. Raises OSError where it is not one."""
    try:
        return [str(each["mount_point"]) for each in json.loads(text)["arrays"]]
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(22, "it is not understood", str(CONFIGURATION)) from error


LOOK_S = 4.0
"""How long a file system may take to answer before it counts as hanging."""


_SECTIONS: Mapping[str, Looker] = {
    "system": system,
    "names": names,
    "processors": processors,
    "memory": memory,
    "disks": disks,
    "arrays": arrays,
    "interfaces": interfaces,
    "clock": clock,
    "kernel_log": kernel_log,
    "services": services,
    "scratch": scratch,
    "kernels": kernels.kernels,
}
_SETTINGS = {
    "sysctl": sysctl,
    "sysfs": sysfs,
    "limit": limit,
    "service": unit,
}
_LIBRARY, _LOCKS, _MOUNT, _SETTING, _HEALTH = "library:", "locks:", "mount:", "settings:", "health:"
_LEFT = "left:"


def gather(request: FactsRequest) -> NodeFacts:
    """Look at this node, and at what is asked for.

    Takes LOOK_S where something hangs, and HEALTH_S and LATE_S where a file system of the spec does.
    """
    try:
        mounts = call_bounded(mounted, LOOK_S)
    except (Hangs, OSError):
        mounts = []
    lookers = _lookers(request, mounts)
    longer = {_HEALTH + name: HEALTH_S + LATE_S for name in request.filesystems}
    seen = look_at_all(lookers, LOOK_S, longer)
    views = _of_kind(seen, _HEALTH)
    return NodeFacts(
        hostname=socket.gethostname(),
        version=__version__,
        time=time.time(),
        cpus=os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        libraries={name: _library(path, name, seen) for name, path in request.libraries.items()},
        mounts=[_mount(mount, seen[_MOUNT + mount.mount_point]) for mount in mounts]
        if _is_requested(request, "mounts")
        else None,
        tuned=tuned() if _is_requested(request, "tuned") else None,
        settings=_of_kind(seen, _SETTING),
        health={name: view.findings for name, view in views.items()},
        targets_away={name: view.away for name, view in views.items() if view.away is not None},
        unknown={
            name: _why(each)
            for name, each in seen.items()
            if isinstance(each, Exception) and not name.startswith(_LEFT)
        },
        **{name: seen[name] for name in _SECTIONS if name in seen and not isinstance(seen[name], Exception)},
    )


def _is_requested(request: FactsRequest, section: str) -> bool:
    return request.sections is None or section in request.sections


def _lookers(request: FactsRequest, mounts: Iterable[MountFacts]) -> dict[str, Looker]:
    """What to look at, each with its name."""
    lookers = {name: section for name, section in _SECTIONS.items() if _is_requested(request, name)}
    for name, path in request.libraries.items():
        lookers[_LIBRARY + name] = partial(library, Path(path))
        lookers[_LOCKS + name] = partial(locks, Path(path))
        lookers[_LEFT + name] = partial(remove_left, Path(path))
    for mount in mounts if _is_requested(request, "mounts") else ():
        lookers[_MOUNT + mount.mount_point] = partial(with_usage, mount)
    for kind, keys in request.settings.items():
        if kind in _SETTINGS:
            lookers[_SETTING + kind] = partial(values, _SETTINGS[kind], keys)
    for kind, command in request.commands.items():
        lookers[_SETTING + kind] = partial(_printed, command)
    for name, described in request.filesystems.items():
        lookers[_HEALTH + name] = partial(health, described)
    return lookers


def _printed(asked: Mapping[str, list[str]]) -> dict[str, str | None]:
    return values(lambda key: printed(asked[key]), asked)


def _of_kind(seen: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {
        name.removeprefix(kind): found
        for name, found in seen.items()
        if name.startswith(kind) and not isinstance(found, Exception)
    }


def _why(error: Exception) -> str:
    return str(error.strerror) if isinstance(error, OSError) and error.strerror else str(error)


def _library(path: str, name: str, seen: Mapping[str, Any]) -> LibraryFacts:
    found, locks = seen[_LIBRARY + name], seen[_LOCKS + name]
    if isinstance(found, Hangs):
        return LibraryFacts(path, hangs=True)
    if isinstance(found, OSError):
        return LibraryFacts(path, missing=found.strerror)
    if found.refused or isinstance(locks, OSError):
        locks = None
    elif isinstance(locks, Hangs):
        # A target that is away is no want of locks.
        return replace(cast("LibraryFacts", found), locks=None, hangs=True)
    return replace(cast("LibraryFacts", found), locks=locks)


def _mount(mount: MountFacts, seen: MountFacts | Hangs | OSError) -> MountFacts:
    if isinstance(seen, Hangs):
        return replace(mount, hangs=True)
    if isinstance(seen, OSError):
        # A mount below a directory that is closed to us is nothing to worry about.
        return mount if isinstance(seen, PermissionError) else replace(mount, broken=seen.strerror)
    return seen


def main() -> None:
    """Answer one request."""
    try:
        request = decode(sys.stdin.read(), FactsRequest)
    except MessageError as error:
        sys.exit(f"the request is not as agreed: {error}: install the same gridwright on all nodes")
    print(encode(gather(request)).decode())  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
