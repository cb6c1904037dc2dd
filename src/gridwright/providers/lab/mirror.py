"""Finds where debootstrap fetches packages from: the mirror that this machine's own apt uses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from gridwright.commands import CommandError, run_bounded

VARIABLE = "GRIDWRIGHT_LAB_MIRROR"
"""Environment variable that names a mirror."""


def mirror(suite: str, apt: Path = Path("/etc/apt")) -> str | None:
    """The mirror of Debian to use; None is debootstrap's default."""
    if chosen := os.environ.get(VARIABLE):
        return chosen
    for uri, suites, components in _sources(apt):
        parts = urlsplit(uri)
        is_debian = "debian" in parts.path and "security" not in parts.path
        if (
            is_debian
            and suite in suites
            and "main" in components
            and parts.scheme in ("http", "https", "file")
        ):
            return uri
    return None


def environment() -> dict[str, str]:
    """The environment of debootstrap: that of this process, with the proxy of apt where it has one."""
    found = dict(os.environ) | {"LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
    for scheme in ("http", "https"):
        if f"{scheme}_proxy" not in found and (proxy := _apt_proxy(scheme)):
            found[f"{scheme}_proxy"] = proxy
    return found


def _apt_proxy(scheme: str) -> str | None:
    name = f"Acquire::{scheme}::Proxy"
    try:
        printed = run_bounded(["apt-config", "dump", name], timeout_s=10).stdout.decode(errors="replace")
    except CommandError:
        return None
    found = re.search(rf'^{name} "([^"]+)";', printed, re.MULTILINE | re.IGNORECASE)
    return found[1] if found and found[1].upper() != "DIRECT" else None


def _sources(apt: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    """URI, suites and components of every source, in both forms of sources.list(5)."""
    lists = [apt / "sources.list", *sorted(apt.glob("sources.list.d/*.list"))]
    for file in lists:
        for line in _text(file).splitlines():
            found = re.match(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)\s+(.+)", line.strip())
            if found:
                yield found[1], [found[2]], found[3].split("#")[0].split()
    for file in sorted(apt.glob("sources.list.d/*.sources")):
        for paragraph in re.split(r"\n\s*\n", _text(file)):
            fields = _fields(paragraph)
            if "deb" in fields.get("types", []) and fields.get("enabled", ["yes"]) != ["no"]:
                for uri in fields.get("uris", []):
                    yield uri, fields.get("suites", []), fields.get("components", [])


def _fields(paragraph: str) -> dict[str, list[str]]:
    """Words of each field; comments are left out, and lines that begin with a space go on (deb822(5))."""
    lines = [line for line in paragraph.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\n[ \t]+", " ", "\n".join(lines))
    pairs = (line.partition(":") for line in joined.splitlines() if ":" in line)
    return {name.strip().lower(): value.split() for name, _, value in pairs}


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
