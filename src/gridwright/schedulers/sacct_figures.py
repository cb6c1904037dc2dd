"""How Slurm writes times and sizes in what sacct prints."""

from __future__ import annotations

import re
import time
from datetime import datetime

_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+(?:\.\d+)?)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTPE]?)[nc]?", re.IGNORECASE)
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def parse_elapsed(text: str) -> float | None:
    """Seconds of `1-02:03:04`, `02:03:04` or `00:03.012`; None if it is none of these."""
    match = _ELAPSED.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return round(((days * 24 + hours) * 60 + minutes) * 60 + seconds, 6)


def parse_time(text: str) -> float | None:
    """Unix time of `2026-11-22T12:44:52`, in local time, or of seconds as SLURM_TIME_FORMAT=%s has them."""
    if text.isdigit():
        return float(text) or None
    try:
        return time.mktime(datetime.fromisoformat(text).timetuple())
    except (ValueError, OverflowError):
        return None


def parse_size(text: str) -> int | None:
    """Bytes of `9148K`, `800.04M` or `1234`: powers of 1024; None if it is none of these.

    ReqMem has n or c behind: of a node, or of a core.
    """
    match = _SIZE.fullmatch(text.strip())
    return round(float(match[1]) * 1024 ** _POWERS[match[2].upper()]) if match else None


def parse_usage(text: str) -> dict[str, int]:
    """What TRESUsageInTot tells: `cpu=00:00:02,fs/disk=32709,mem=9148K` by name, times left out."""
    pairs = (part.partition("=") for part in text.split(","))
    sizes = ((name.strip(), parse_size(value)) for name, _, value in pairs)
    return {name: size for name, size in sizes if size is not None}
