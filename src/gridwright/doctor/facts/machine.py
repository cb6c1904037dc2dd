"""The system of a node: kernel, release, identity, names, processors, memory."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from pathlib import Path

import psutil

from gridwright.doctor.facts.node_facts import MemoryFacts, NameFacts, ProcessorFacts, SystemFacts
from gridwright.kernel_files import text_of
from gridwright.machine import physical_cores

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
