"""What hangs in the daemon of a Spectrum Scale, and what its file system was made with.

Columns are those of real output as tools of others read it (looked up 2026-11-27).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gridwright.errors import Finding
from gridwright.filesystems.scale.administration.y_format import records
from gridwright.units import Bytes

LONG_WAIT_S = 300.0
"""deadlockDetectionThreshold, as Scale has it by default: a monitored waiter of this age may be a deadlock
(IBM Storage Scale, mmchconfig command)."""
_IDLE = ("EventsExporter",)
"""Threads that wait for the next event, as long as there is none."""
_MOST_NAMED = 3


def waiter_findings(printed: str) -> Iterator[Finding]:
    """Threads that have waited for long, out of `mmdiag --waiters -Y`."""
    found: Counter[str] = Counter()
    longest = 0.0
    for rows in records(printed).values():
        for row in rows:
            seconds, name = _seconds(row.get("waitTime", "")), row.get("threadName", "")
            watched = row.get("isMonitored", "monitored") == "monitored"
            if seconds < LONG_WAIT_S or not watched or name.startswith(_IDLE):
                continue
            why = (row.get("auxReason") or row.get("condVarReason") or "").strip(" '")
            found[f"{name} {why}".strip()] += 1
            longest = max(longest, seconds)
    if found:
        named = ", ".join(f"{name} ({count})" for name, count in found.most_common(_MOST_NAMED))
        yield Finding(
            "warning",
            "scale-long-waiters",
            f"{found.total()} threads of Spectrum Scale have waited for up to {longest:.0f} s: {named}",
            "mmlsnode -N waiters -L finds the node that all wait for; see its disks, its network and its log",
        )


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    # Neither NaN nor infinity is a time.
    return value if 0 <= value < 1e12 else 0.0


def filesystem_findings(printed: str, device: str, block_size: int, replicas: int) -> Iterator[Finding]:
    """Where it was made with other figures than the spec has, out of `mmlsfs DEVICE -Y`."""
    fields: dict[str, set[str]] = {}
    for rows in records(printed).values():
        for row in rows:
            fields.setdefault(row.get("fieldName", ""), set()).add(row.get("data", ""))
    sizes = {int(each) for each in fields.get("blockSize", ()) if each.isascii() and each.isdecimal()}
    if sizes and block_size not in sizes:
        there = " and ".join(str(Bytes(size)) for size in sorted(sizes))
        yield Finding(
            "warning",
            "scale-block-size",
            f"{device} was made with blocks of {there}, and the spec has {Bytes(block_size)}: a file system "
            "keeps its own for good",
            f"Write block_size: {Bytes(max(sizes))}, or copy the data to a new file system",
        )
    for field, what in (("defaultDataReplicas", "data"), ("defaultMetadataReplicas", "metadata")):
        copies, flag = fields.get(field, set()), "r" if what == "data" else "m"
        if copies and str(replicas) not in copies:
            yield Finding(
                "warning",
                "scale-replicas",
                f"{device} has {' or '.join(sorted(copies))} cop{'y' if copies == {'1'} else 'ies'} of "
                f"{what}, and the spec has {replicas}",
                f"mmchfs {device} -{flag} {replicas}, then mmrestripefs {device} -R; or write what it has",
            )
