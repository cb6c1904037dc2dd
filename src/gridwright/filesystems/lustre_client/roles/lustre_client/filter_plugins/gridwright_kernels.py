"""Filters about kernels and the module of the Lustre client for them; they need nothing but Python."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

MODULES, IMAGE = "lustre-client-modules-", "linux-image-"
"""How packages are called that have the client's module for a kernel, and kernels (FSx for Lustre User Guide,
installing the Lustre client; archives of Ubuntu and Debian)."""
RELEASE = r"(\d+(?:\.\d+)+(?:-\d+|\+[a-z0-9+]+)?)-([a-z][a-z0-9-]*)"
"""A kernel's release as uname tells it, in its version and flavour: 6.8.0-1057-aws, 6.1.0-28-cloud-amd64."""
LEFT_OUT = (
    "kernel",
    "kernel-core",
    "kernel-modules",
    "kernel-modules-core",
    "kernel-modules-extra",
    "kernel6.*",
)
"""Packages of dnf that bring another kernel; kernel-headers stays, since compilers need it. Later kernels of
Amazon Linux 2023 are called kernel6.12 and so on."""


def lustre_kernel(listed: str, running: str) -> str:
    """The kernel to start, by what apt-cache lists: this one, where the archive has the module for it.

    Else the newest of its flavour that has both, kernel and module; empty where there is none.
    """
    names = {line.split()[0] for line in str(listed).splitlines() if line.strip()}
    if MODULES + running in names:
        return running
    mine = re.fullmatch(RELEASE, str(running))
    found = (re.fullmatch(MODULES + RELEASE, name) for name in names)
    kernels = [f"{each[1]}-{each[2]}" for each in found if each and mine and each[2] == mine[2]]
    return max((each for each in kernels if IMAGE + each in names), key=_version, default="")


def _version(kernel: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", str(kernel).partition("-")[0])] + [
        int(each) for each in re.findall(r"(?<=-)\d+", str(kernel))
    ]


def boot_entry(menu: str, kernel: str) -> str:
    """What GRUB calls the entry of a kernel, by grub.cfg: identifiers from the outermost menu on.

    There is > between them, as GRUB_DEFAULT has it. Entries of a recovery mode do not count; empty where
    there is none.
    """
    menus: list[str] = []
    for line in str(menu).splitlines():
        words = re.match(r"\s*(submenu|menuentry)\s.*\$menuentry_id_option\s+'([^']+)'.*\{\s*$", line)
        if words and words[1] == "submenu":
            menus.append(words[2])
        elif words and words[2].startswith(f"gnulinux-{kernel}-advanced-"):
            return ">".join([*menus, words[2]])
        elif line.startswith("}"):
            menus.clear()
    return ""


def kernel_packages(listed: str, kernel: str) -> list[str]:
    """Installed packages that bring another kernel, or are this one with its module: those to hold.

    `listed` has lines of dpkg-query: the abbreviated state, and the name. Packages without a version in their
    names bring the latest kernel: linux-aws, linux-image-aws, lustre-client-modules-aws.
    """
    release = re.fullmatch(RELEASE, str(kernel))
    flavour = re.escape(release[2]) if release else "generic"
    latest = rf"(linux|linux-(image|headers|modules|modules-extra)|lustre-client-modules)-{flavour}(-.+)?"
    this = rf"({re.escape(IMAGE)}|linux-modules-|linux-modules-extra-|{MODULES}){re.escape(str(kernel))}"
    lines = [line.split() for line in str(listed).splitlines()]
    # The second letter is the state that a package is in: installed.
    there = {words[1].partition(":")[0] for words in lines if len(words) > 1 and words[0][1:2] == "i"}
    return sorted(name for name in there if re.fullmatch(f"{latest}|{this}", name))


def newer_kernels(listed: str, kernel: str) -> list[str]:
    """Installed kernels that GRUB would start before this one, by the same list."""
    lines = [line.split() for line in str(listed).splitlines()]
    names = [words[1].partition(":")[0] for words in lines if len(words) > 1 and words[0][1:2] == "i"]
    found = (re.fullmatch(rf"{IMAGE}(?:unsigned-)?({RELEASE})", name) for name in names)
    return sorted(each[1] for each in found if each and _version(each[1]) > _version(kernel))


def dnf_left_out(text: str, hold: bool = True, names: Iterable[str] = LEFT_OUT) -> str:
    """dnf.conf(5) with these packages left out of what is updated, or in again; what a site has stays."""
    lines, names = str(text).splitlines(), list(names)
    setting = re.compile(r"\s*(excludepkgs|exclude)\s*=(.*)")
    at = next((number for number, line in enumerate(lines) if setting.match(line)), None)
    if at is None:
        if not hold:
            return str(text)
        main = next((number for number, line in enumerate(lines) if line.strip() == "[main]"), None)
        at = len(lines) if main is None else main + 1
        lines[at:at] = ["excludepkgs="] if main is not None else ["[main]", "excludepkgs="]
        at += main is None
    end = at + 1
    while end < len(lines) and lines[end][:1] in (" ", "\t") and lines[end].strip():
        end += 1
    parts = setting.match(lines[at])
    key, value = (parts[1], parts[2]) if parts else ("excludepkgs", "")
    there = re.findall(r"[^\s,]+", " ".join([value, *lines[at + 1 : end]]))
    wanted = [each for each in there if hold or each not in names]
    wanted += [each for each in names if hold and each not in wanted]
    if wanted != there or not wanted:
        lines[at:end] = [f"{key}={' '.join(wanted)}"] if wanted else []
    return "".join(f"{line}\n" for line in lines)


class FilterModule:
    """What Ansible looks for in this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Filters by the name that templates call them."""
        return {
            "gridwright_lustre_kernel": lustre_kernel,
            "gridwright_boot_entry": boot_entry,
            "gridwright_kernel_packages": kernel_packages,
            "gridwright_newer_kernels": newer_kernels,
            "gridwright_dnf_left_out": dnf_left_out,
        }
