"""Compares what a lab needs of this machine with what it has, before anything is changed.

Looks up what this machine has that a lab needs, and changes nothing.
"""

from __future__ import annotations

import ipaddress
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.commands import CommandError, run_bounded
from gridwright.errors import ExitStatus, Finding, GridwrightError, Problem
from gridwright.filesystems import kind_of
from gridwright.filesystems.kind import LabServices
from gridwright.filesystems.library_directories import unmounted_point
from gridwright.filesystems.mounts import parse_mounts
from gridwright.providers.lab.image import (
    NEEDED_BYTES,
    OPEN_PYTHON,
    closed_python,
    image_directory,
    lab_packages,
    python_directories,
    root_filesystem,
)
from gridwright.providers.lab.layout import Lab, LabLayout, LabRole
from gridwright.providers.lab.namespaces import MountFlag, Namespace, mount, unshare
from gridwright.providers.lab.record import LABS
from gridwright.providers.provider import Preflight
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec.model import GridSpec
from gridwright.units import Bytes

TOOLS = ("ip", "tc", "nsenter", "unshare", "mount", "debootstrap", "losetup", "mkfs.ext4")
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FUSE = Path("/dev/fuse")
_PROBE_S = 10.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found; sizes in bytes."""

    is_root: bool
    kernel: tuple[int, int]
    missing_tools: frozenset[str]
    """Of TOOLS."""
    has_image: bool
    has_keys: bool
    """The keys that Debian signs its packages with."""
    fuse: str | None
    """Why FUSE cannot be used; None where it can."""
    namespaces: str | None
    """Why namespaces cannot be made, as the kernel says; None where they can."""
    networks: tuple[tuple[ipaddress.IPv4Network, str], ...]
    """Ranges that this machine has addresses in or routes to, with the interface."""
    free_bytes: int
    """Where labs are kept."""
    image_free_bytes: int
    """Where the image is kept."""
    available_memory_bytes: int


def look(packages: Sequence[str] = ()) -> Facts:
    """Look at this machine; `packages` are those of the image beside what every image has."""
    is_root = os.geteuid() == 0
    missing = frozenset(tool for tool in TOOLS if _which(tool) is None)
    return Facts(
        is_root=is_root,
        kernel=_machine_kernel(platform.release()),
        missing_tools=missing,
        has_image=root_filesystem(packages).is_dir(),
        has_keys=KEYS.is_file(),
        fuse=_fuse(),
        namespaces=_namespaces() if is_root and "ip" not in missing else None,
        networks=tuple(each for each in _networks() if not each[0].is_loopback),
        free_bytes=_free(LABS),
        image_free_bytes=_free(image_directory(packages)),
        available_memory_bytes=_available_memory(Path("/proc/meminfo").read_text()),
    )


def _which(tool: str) -> str | None:
    # A user's PATH may be without the directories of root's tools.
    return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def _machine_kernel(release: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _fuse() -> str | None:
    try:
        os.close(os.open(FUSE, os.O_RDWR))
    except OSError as error:
        return error.strerror or str(error)
    return None


def _namespaces() -> str | None:
    """Make all kinds of namespaces, a mount, a bridge and a pair of interfaces, in a process that ends."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, (_probe() or "").encode()[:4000])
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        text = answer.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return text or None


def _probe() -> str | None:
    kinds = Namespace.MOUNT | Namespace.UTS | Namespace.IPC | Namespace.NETWORK
    if Path("/proc/self/ns/cgroup").exists():
        kinds |= Namespace.CGROUP
    try:
        unshare(kinds)
        mount("", "/", flags=MountFlag.RECURSIVE | MountFlag.PRIVATE)
        mount("tmpfs", "/proc", "tmpfs")
        for kind in ("bridge", "veth"):
            command = ["ip", "link", "add", f"probe-{kind}", "type", kind]
            done = run_bounded(command, timeout_s=_PROBE_S)
            if done.status:
                why = done.stderr.decode(errors="replace").strip()
                return f"no network interface of type {kind}: {why}"
        unshare(Namespace.PID)
    except (OSError, CommandError) as error:
        return str(error)
    return None


def _networks() -> Iterator[tuple[ipaddress.IPv4Network, str]]:
    for entry in _ip_json("route", "show", "table", "all"):
        if entry.get("dst", "default") != "default":
            yield _network(str(entry["dst"])), str(entry.get("dev", "a route"))
    for interface in _ip_json("address", "show"):
        for address in interface.get("addr_info", []):
            text = f"{address.get('local')}/{address.get('prefixlen')}"
            yield _network(text), str(interface.get("ifname"))


def _network(text: str) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network(text, strict=False)


def _ip_json(*words: str) -> list[dict[str, Any]]:
    try:
        printed = run_bounded(["ip", "-4", "-j", *words], timeout_s=_PROBE_S).stdout
        return list(json.loads(printed or "[]"))
    except (ValueError, CommandError):
        return []


def _free(place: Path) -> int:
    """Bytes free where a directory is, or would be made."""
    there = next(each for each in (place, *place.parents) if each.exists())
    return shutil.disk_usage(there).free


def _available_memory(meminfo: str) -> int:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


OLDEST_KERNEL = (5, 6)
"""pidfd_open(2) is there since 5.3; overlays on all that has extended attributes, and `ip -j`, go with it."""
LAB_BYTES = 500_000_000
"""Free space that a lab needs before its file systems hold anything."""

# Resident memory of daemons after their start, as measured in a lab: slurmctld with sshd and munged on the
# controller; slurmd, sshd and munged on a node. Kinds of file systems tell what theirs need.
BASE_MEMORY, NODE_MEMORY = 60 << 20, 25 << 20

_PACKAGES = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"}
_PACKAGES_OF_DISKS = {"losetup": "mount", "mkfs.ext4": "e2fsprogs"}
_PACKAGES_OF_BANDWIDTH = {"tc": "iproute2"}
_ALL_PACKAGES = _PACKAGES | _PACKAGES_OF_DISKS | _PACKAGES_OF_BANDWIDTH
_OF_THE_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/run"),
    *("/sbin", "/sys", "/tmp", "/usr", "/var", "/var/lib", "/var/log", "/var/lib/gridwright"),  # noqa: S108
)
_SUGGESTED = [ipaddress.IPv4Network(f"10.{second}.0.0/24") for second in range(77, 250)]


def check_machine(spec: GridSpec, layout: LabLayout) -> None:
    """Raise GridwrightError (ENVIRONMENT) with all that keeps this machine from having a lab."""
    found = list(problems(spec, layout, look(lab_packages(spec))))
    if found:
        raise GridwrightError(*found, status=ExitStatus.ENVIRONMENT)


def preflight(spec: GridSpec, layout: LabLayout) -> Preflight:
    """What keeps this machine from having a lab, as `up --check` prints it."""
    facts = look(lab_packages(spec))
    lacking = problems(spec, layout, facts)
    found = [Finding("error", "machine-unfit", each.what, each.remedy or "") for each in lacking]
    if spec.users and (closed := closed_python()):
        found.append(Finding("warning", "python-closed", closed, OPEN_PYTHON))
    machine = {
        "machine": platform.node(),
        "kernel": ".".join(map(str, facts.kernel)),
        "nodes": str(len(layout.nodes)),
        "free memory": f"{Bytes(facts.available_memory_bytes)}",
        "node image": "there" if facts.has_image else "made by the first up",
    }
    return Preflight(spec.name, spec.provider, machine, (), tuple(found))


def problems(spec: GridSpec, layout: LabLayout, facts: Facts) -> Iterator[Problem]:
    """All that keeps a machine from having a lab, each with its remedy."""
    if not facts.is_root:
        yield Problem(
            what="only root can make a lab: it is made of namespaces, mounts and a bridge",
            remedy="run the command as root, such as with sudo",
        )
    yield from _kernel(facts)
    yield from _tools(spec, facts)
    yield from _places(spec)
    yield from _addresses(spec, layout, facts)
    yield from _room(spec, layout, facts)
    fuse = {
        name: kind
        for name, each in spec.filesystems.items()
        if isinstance(kind := kind_of(each), LabServices) and kind.lab_needs_fuse
    }
    if fuse and facts.fuse:
        first, kind = next(iter(fuse.items()))
        yield Problem(
            what=f"/dev/fuse cannot be used: {facts.fuse}; {kind.title} is mounted through it",
            field=f"filesystems.{first}",
            where=_file(spec),
            remedy="run modprobe fuse (in a container: give it the device /dev/fuse), or write type: local",
        )


def _file(spec: GridSpec) -> str | None:
    return str(spec.file) if spec.file else None


def _kernel(facts: Facts) -> Iterator[Problem]:
    if facts.kernel < OLDEST_KERNEL:
        has, wants = (".".join(map(str, version)) for version in (facts.kernel, OLDEST_KERNEL))
        yield Problem(
            what=f"the kernel of this machine is {has}, and a lab needs {wants} or newer",
            remedy="work on a newer system, such as Debian 12",
        )
    elif facts.namespaces:
        yield Problem(
            what=f"this machine does not let us make namespaces: {facts.namespaces}",
            remedy="work on the machine itself, or in a container that has all privileges (--privileged)",
        )


def _tools(spec: GridSpec, facts: Facts) -> Iterator[Problem]:
    lab = spec.section(Lab)
    required = {*_PACKAGES}
    if lab is not None and lab.disk is not None:
        required |= {*_PACKAGES_OF_DISKS}
    if lab is not None and lab.bandwidth is not None:
        required |= {*_PACKAGES_OF_BANDWIDTH}
    if needed := facts.missing_tools & required:
        packages = sorted({_ALL_PACKAGES[tool] for tool in needed})
        yield Problem(
            what=f"not installed here: {', '.join(sorted(needed))}",
            remedy=f"install what has them; on Debian: apt-get install {' '.join(packages)}",
        )
    if facts.has_image:
        return
    missing: list[str] = [tool for tool in ("debootstrap", "mount") if tool in facts.missing_tools]
    if not facts.has_keys:
        missing.append("debian-archive-keyring")
    if missing:
        yield Problem(
            what=f"not installed here: {', '.join(missing)}; the node image is made with it",
            remedy=f"install it; on Debian and Ubuntu: apt-get install {' '.join(missing)}",
        )


def _places(spec: GridSpec) -> Iterator[Problem]:
    """Directories that are not there yet, and file systems that would hide what every node needs."""
    state = state_directory(spec)
    mounts = parse_mounts(Path("/proc/mounts").read_text(errors="surrogateescape"))
    for place in (LABS, state):
        if point := unmounted_point(place, mounts):
            yield Problem(
                what=f"{point} is a mount point in /etc/fstab, and nothing is mounted there: "
                "a lab of this name may be on its disk",
                where=str(place),
                remedy=f"mount it: mount {point}",
            )
            break
    needed = [*python_directories(), LABS / spec.name]
    for name, filesystem in spec.filesystems.items():
        path = filesystem.path
        hidden = next((each for each in needed if each.is_relative_to(path)), None)
        if str(path) in _OF_THE_SYSTEM or hidden is not None:
            yield Problem(
                what=f"on nodes, {path} would hide {hidden or 'a directory of the system'}",
                field=f"filesystems.{name}.path",
                where=_file(spec),
                remedy="name a directory of its own, such as /mnt/grid",
            )
        elif state.is_relative_to(path):
            yield Problem(
                what=f"{state} is on a file system of the lab, which this machine does not see",
                field="state",
                where=_file(spec),
                remedy="remove the line: a lab keeps its state in its own directory",
            )
    if spec.state is not None and str(Path(spec.state)) in _OF_THE_SYSTEM:
        yield Problem(
            what=f"on nodes, {spec.state} would hide a directory of the system",
            field="state",
            where=_file(spec),
            remedy="remove the line: a lab keeps its state in its own directory",
        )


def _addresses(spec: GridSpec, layout: LabLayout, facts: Facts) -> Iterator[Problem]:
    """Ranges that this machine uses: people would take one for the other."""
    planned = ipaddress.IPv4Network(layout.network)
    for network, interface in facts.networks:
        if network.overlaps(planned):
            used = [each for each, _ in facts.networks]
            free = next((each for each in _SUGGESTED if not any(each.overlaps(one) for one in used)), None)
            yield Problem(
                what=f"addresses of the lab, {planned}, are in use on this machine: {network} on {interface}",
                field="lab.network",
                where=_file(spec),
                remedy=f"write lab: {{network: {free or 'another private range'}}}",
            )
            return


def _room(spec: GridSpec, layout: LabLayout, facts: Facts) -> Iterator[Problem]:
    places = [(LABS, facts.free_bytes, LAB_BYTES, "a lab")]
    if not facts.has_image:
        places.append(
            (
                image_directory(lab_packages(spec)),
                facts.image_free_bytes,
                NEEDED_BYTES,
                "making the node image",
            )
        )
    for place, free, needed, what in places:
        if free < needed:
            yield Problem(
                what=f"{free / 1e6:.0f} MB are free, and {what} needs {needed / 1e6:.0f} MB",
                where=str(place),
                remedy="make room there"
                if place == LABS
                else "make room there, or set XDG_CACHE_HOME to a directory with more",
            )
    needed = memory_needed(spec, layout)
    of_kinds = (
        kind.lab_memory_remedy
        for each in spec.filesystems.values()
        if isinstance(kind := kind_of(each), LabServices)
    )
    remedies = ("end other programs, or have fewer nodes", *of_kinds)
    if facts.available_memory_bytes < needed:
        yield Problem(
            what=f"{facts.available_memory_bytes / 1e6:.0f} MB of memory are available, and the daemons of "
            f"the lab need {needed / 1e6:.0f} MB",
            where=_file(spec),
            remedy="; ".join(dict.fromkeys(filter(None, remedies))),
        )


def memory_needed(spec: GridSpec, layout: LabLayout) -> int:
    """Memory that the daemons of a lab need before any job runs, in bytes."""
    needed = BASE_MEMORY + len(layout.nodes) * NODE_MEMORY
    clients = sum(node.role != LabRole.STORAGE for node in layout.nodes)
    return needed + sum(
        kind.lab_memory_bytes(each, clients)
        for each in spec.filesystems.values()
        if isinstance(kind := kind_of(each), LabServices)
    )
