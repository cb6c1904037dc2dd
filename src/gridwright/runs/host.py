"""Facts of this host and of the software, for the record of a run.

Names the hypervisor that this machine runs on: its host may cache what a guest reads and writes.
"""

from __future__ import annotations

import os
import platform
import socket
from importlib import metadata
from pathlib import Path

import psutil

from gridwright import __version__
from gridwright.commands import CommandError, run_bounded
from gridwright.machine import physical_cores
from gridwright.runs.records import HostFacts

LIMIT_S = 5.0
_DMI = ("product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version")
_VENDORS = {
    "KVM": "kvm",
    "OpenStack": "kvm",
    "KubeVirt": "kvm",
    "Amazon EC2": "amazon",
    "QEMU": "qemu",
    "VMware": "vmware",
    "VMW": "vmware",
    "innotek GmbH": "oracle",
    "VirtualBox": "oracle",
    "Xen": "xen",
    "Bochs": "bochs",
    "Parallels": "parallels",
    "BHYVE": "bhyve",
    "Hyper-V": "microsoft",
    "Microsoft Corporation": "microsoft",
    "Apple Virtualization": "apple",
    "Google Compute Engine": "google",
}
"""What DMI says, and the name that systemd-detect-virt gives it (src/basic/virt.c, detect_vm_dmi_vendor)."""
_CLOCKS = {"kvm-clock": "kvm", "hyperv": "microsoft", "xen": "xen"}
"""Clock sources that a hypervisor gives its guests (Documentation/virt of Linux)."""


def hypervisor(root: Path = Path("/"), command: str = "systemd-detect-virt") -> str | None:
    """The hypervisor in the words of systemd-detect-virt(1); `unknown` where it hides its name, None without.

    Asked of that command, else looked up where it looks, but for CPUID: DMI, Xen's files, the device
    tree, and the clock that guests are given.
    """
    return _detect_virt(command) or _seen(root)


def _detect_virt(command: str) -> str | None:
    try:
        done = run_bounded([command, "--vm"], timeout_s=LIMIT_S)
    except CommandError:
        return None
    # Where it says `none`, the files may tell more.
    said = done.stdout.decode(errors="replace").strip()
    return said if said and said not in {"none", "vm-other"} else None


def _seen(root: Path) -> str | None:
    clock = _text(root / "sys/devices/system/clocksource/clocksource0/available_clocksource")
    by_clock = (name for start, name in _CLOCKS.items() if start in (clock or ""))
    found = _by_dmi(root) or _text(root / "sys/hypervisor/type") or next(by_clock, None)
    if found is None and (root / "proc/xen").exists():
        found = "xen"
    if found is None and _text(root / "proc/device-tree/hypervisor/compatible") is not None:
        found = "kvm"
    return found or ("unknown" if "hypervisor" in _flags(root) else None)


def _by_dmi(root: Path) -> str | None:
    for name in _DMI:
        said = _text(root / "sys/class/dmi/id" / name) or ""
        for vendor, hypervisor_name in _VENDORS.items():
            # Bare metal of these makers says the same; a guest has the flag, too.
            if said.startswith(vendor) and "hypervisor" in _flags(root):
                return hypervisor_name
    return None


def _flags(root: Path) -> list[str]:
    for line in (_text(root / "proc/cpuinfo") or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return value.split()
    return []


def _text(file: Path) -> str | None:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return None


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
