"""The hypervisor's name, as systemd-detect-virt gives it and from where it looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.runs.host import hypervisor

GUEST = "flags\t\t: fpu vme hypervisor lahf_lm\n"
DMI = "sys/class/dmi/id/"
CLOCK = "sys/devices/system/clocksource/clocksource0/available_clocksource"


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({}, None),
        ({"proc/cpuinfo": "flags : fpu vme\n"}, None),
        ({"proc/cpuinfo": GUEST}, "unknown"),
        ({"proc/cpuinfo": GUEST, CLOCK: "kvm-clock tsc acpi_pm\n"}, "kvm"),
        ({"proc/cpuinfo": GUEST, CLOCK: "hyperv_clocksource_tsc_page acpi_pm"}, "microsoft"),
        ({"proc/cpuinfo": GUEST, DMI + "sys_vendor": "QEMU\n"}, "qemu"),
        ({"proc/cpuinfo": GUEST, DMI + "product_name": "VMware7,1"}, "vmware"),
        ({"proc/cpuinfo": GUEST, DMI + "sys_vendor": "Amazon EC2\n"}, "amazon"),
        ({"proc/cpuinfo": "flags : fpu\n", DMI + "sys_vendor": "Amazon EC2\n"}, None),
        ({"proc/cpuinfo": GUEST, "sys/hypervisor/type": "xen\n"}, "xen"),
        ({"proc/xen/capabilities": ""}, "xen"),
        ({"proc/device-tree/hypervisor/compatible": "linux,kvm"}, "kvm"),
    ],
)
def test_without_the_command_its_own_sources_are_looked_at(
    tmp_path: Path, files: dict[str, str], name: str | None
) -> None:
    """Bare metal of a cloud says its maker, too: without the flag of a guest it is none."""
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert hypervisor(tmp_path, "no-such-command") == name


@pytest.mark.parametrize(("said", "name"), [("kvm", "kvm"), ("none", None), ("vm-other", None), ("", None)])
def test_the_command_is_asked_for_the_machine_and_not_for_a_container(
    tmp_path: Path, said: str, name: str | None
) -> None:
    command = tmp_path / "detect"
    command.write_text(f'#!/bin/sh\n[ "$1" = --vm ] && echo "{said}"\n')
    command.chmod(0o755)
    assert hypervisor(tmp_path / "empty", str(command)) == name
