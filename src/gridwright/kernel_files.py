"""Reads small files of /proc and /sys, which may be absent or not readable for everyone."""

from __future__ import annotations

import re
from pathlib import Path


def text_of(path: Path) -> str | None:
    """What a file says, without blanks around it; None where it is absent, cannot be read, or is empty."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def number_of(path: Path) -> int | None:
    """A whole number; None where there is none."""
    text = text_of(path) or ""
    return int(text) if re.fullmatch("-?[0-9]{1,20}", text, re.ASCII) else None


def names_in(directory: Path) -> list[str]:
    """Names of what is in a directory, in order; none where it cannot be read."""
    try:
        return sorted(each.name for each in directory.iterdir())
    except OSError:
        return []


def boot_id() -> str:
    """Identify this boot of this kernel; empty where the kernel does not tell."""
    return text_of(Path("/proc/sys/kernel/random/boot_id")) or ""
