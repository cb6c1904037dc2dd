"""The system of a node: kernel, release, identity, names, processors, memory."""

from __future__ import annotations

import hashlib
import os
import platform
import socket
from pathlib import Path
from typing import Any

import psutil

from gridwright.doctor.facts.files import text_of
from gridwright.machine import physical_cores

_CPUS = Path("/sys/devices/system/cpu")
_SELINUX = Path("/sys/fs/selinux/enforce")


def system() -> dict[str, Any]:
    """Kernel, release of the system, identity, and whether it is a container."""
    release = _release()
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "release": " ".join(filter(None, (release.get("ID"), release.get("VERSION_ID")))) or None,
        "identity": _identity(),
        "container": _is_container(),
        "selinux": {"1": "enforcing", "0": "permissive"}.get(text_of(_SELINUX) or "", "off"),
        "root": os.geteuid() == 0,
    }


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


def names() -> dict[str, Any]:
    """What the node's own host name resolves to; asks the name service, which may hang."""
    host = socket.gethostname()
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return {"host": host, "addresses": [], "unresolved": str(error.strerror)}
    return {"host": host, "addresses": sorted({str(each[4][0]) for each in found}), "unresolved": None}


def processors() -> dict[str, Any]:
    """Physical cores, threads of each, and processors that are switched off."""
    cores, cpus = physical_cores(), len(os.sched_getaffinity(0))
    return {"cores": cores, "threads_per_core": max(1, cpus // cores), "offline": text_of(_CPUS / "offline")}


def memory() -> dict[str, Any]:
    """Memory and swap, in bytes, and how many bytes a second were swapped out since the start, on average."""
    whole, swap = psutil.virtual_memory(), psutil.swap_memory()
    return {
        "total_bytes": whole.total,
        "available_bytes": whole.available,
        "swap_bytes": swap.total,
        "swap_used_bytes": swap.used,
    }
