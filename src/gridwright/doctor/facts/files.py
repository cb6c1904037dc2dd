"""Reads small files of /proc and /sys, which may be absent or not readable for everyone."""

from __future__ import annotations

from pathlib import Path

DIRECTORY_OF_SYSCTLS = Path("/proc/sys")


def text_of(path: Path) -> str | None:
    """What a file of one line holds; None where it is absent, cannot be read, or is empty."""
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None


def number_of(path: Path) -> int | None:
    """A whole number; None where there is none."""
    text = text_of(path)
    try:
        return int(text) if text else None
    except ValueError:
        return None
