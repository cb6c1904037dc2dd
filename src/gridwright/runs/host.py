"""Facts of this host and of the software, for the record of a run."""

from __future__ import annotations

import os
import platform
import socket
from importlib import metadata
from pathlib import Path

import psutil

from gridwright import __version__
from gridwright.machine import physical_cores
from gridwright.runs.records import HostFacts
from gridwright.runs.virtualization import hypervisor


def host_facts() -> HostFacts:
    """Describe the node this process runs on."""
    return HostFacts(
        hostname=socket.gethostname(),
        kernel=f"{platform.system()} {platform.release()}",
        os=_os_name(),
        cpu_model=_cpuinfo("model name") or _cpuinfo("Model") or platform.machine(),
        physical_cores=physical_cores(),
        logical_cpus=len(os.sched_getaffinity(0)),
        memory_bytes=psutil.virtual_memory().total,
        hypervisor=hypervisor(),
    )


def software_versions() -> dict[str, str]:
    """Name the software that a result depends on, with versions."""
    versions = {"gridwright": __version__, "python": platform.python_version()}
    for package in ("pyarrow", "pydantic", "ruptures"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _os_name() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _cpuinfo(key: str) -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None
