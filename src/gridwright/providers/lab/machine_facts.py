"""Looks up what this machine has that a lab needs, and changes nothing."""

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
from gridwright.providers.lab.image import image_directory, root_filesystem
from gridwright.providers.lab.places import LABS
from gridwright.providers.lab.syscalls import MountFlag, Namespace, mount, unshare

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
        kernel=_kernel(platform.release()),
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


def _kernel(release: str) -> tuple[int, int]:
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
