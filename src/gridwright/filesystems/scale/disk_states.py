"""What is wrong with the disks of a Spectrum Scale, out of rows of mmlsdisk and mmlsnsd.

Columns are those of real clusters' output as tools of others read it (looked up 2026-11-27); what states mean
is IBM's (IBM Storage Scale, disk states; mmlsnsd command).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from gridwright.errors import Finding
from gridwright.filesystems.health import TargetHealth
from gridwright.filesystems.scale.administration.naming import short
from gridwright.filesystems.scale.administration.y_format import records

_LEAVING = ("suspended", "to be emptied", "being emptied", "emptied", "replacing")
"""States of a disk that gets no new data: somebody is about to remove it, or forgot to resume it."""
_NO_PATH = ("not found", "unknown")
"""What mmlsnsd -X remarks of a server that does not see the disk."""
_MOST_NAMED = 8


def _rows(printed: str) -> list[dict[str, str]]:
    return [row for rows in records(printed).values() for row in rows]


def disks_of(printed: str) -> list[TargetHealth]:
    """Every disk of `mmlsdisk DEVICE -Y`, with its availability."""
    return [
        TargetHealth(
            name=row["nsdName"],
            server="",
            # A disk that recovers takes writes, and refuses reads of what may be old.
            up=row.get("availability", "").lower() in ("up", ""),
            state=row.get("availability", ""),
        )
        for row in _rows(printed)
        if row.get("nsdName")
    ]


def disk_findings(printed: str, device: str) -> Iterator[Finding]:
    """One finding for each state that disks are in and should not be, with their names."""
    told: dict[str, list[str]] = defaultdict(list)
    for row in _rows(printed):
        if not row.get("nsdName"):
            continue
        available, status = row.get("availability", "").lower(), row.get("status", "").lower()
        if available in ("down", "unrecovered", "recovering"):
            told[available].append(row["nsdName"])
        elif any(status.startswith(each) for each in _LEAVING):
            told["leaving"].append(row["nsdName"])
    if down := [*told["down"], *told["unrecovered"]]:
        yield Finding(
            "error",
            "scale-disk-down",
            f"{_listed(down, 'disk')} of {device} {_are(down)} not read or written: files with blocks on it "
            "that have no copy are out of reach",
            f"See that a server of it reaches it (mmlsnsd -X), then mmchdisk {device} start -a",
        )
    if told["recovering"]:
        yield Finding(
            "warning",
            "scale-disk-recovering",
            f"{_listed(told['recovering'], 'disk')} of {device} {_are(told['recovering'])} being brought up: "
            "writes reach it, and reads go to copies",
            f"Wait until mmchdisk {device} start has ended; run it again where it was cut off",
        )
    if told["leaving"]:
        yield Finding(
            "warning",
            "scale-disk-suspended",
            f"{_listed(told['leaving'], 'disk')} of {device} {_are(told['leaving'])} suspended or being "
            "emptied: new data go to the others, which have to do more",
            f"mmchdisk {device} resume -a where nobody removes it",
        )


def path_findings(printed: str) -> Iterator[Finding]:
    """Servers that do not see a disk that they are to serve, out of `mmlsnsd -X -Y`."""
    lost: dict[str, list[str]] = defaultdict(list)
    for row in _rows(printed):
        remarks = row.get("remarks", "").lower()
        if row.get("diskName") and "server" in remarks and any(each in remarks for each in _NO_PATH):
            lost[short(row.get("serverList", ""))].append(row["diskName"])
    for server, disks in sorted(lost.items()):
        yield Finding(
            "warning",
            "scale-path-missing",
            f"{server or 'a server'} does not see {_listed(disks, 'disk')} that it is to serve: the other "
            "server of the pair serves it alone, and nothing does when that one dies",
            "Bring the disk back there (cable, iSCSI session, multipath), then mmnsddiscover -a -N all",
        )


def serves(printed: str, host: str) -> bool:
    """Whether a host is a server of some disk, out of `mmlsnsd -Y`."""
    return any(
        short(host) in map(short, row.get("serverList", "").split(","))
        for row in _rows(printed)
        if row.get("serverList")
    )


def _listed(names: Iterable[str], noun: str) -> str:
    every = sorted(names)
    more = f" and {len(every) - _MOST_NAMED} others" if len(every) > _MOST_NAMED else ""
    return f"{noun}{'s' * (len(every) != 1)} {', '.join(every[:_MOST_NAMED])}{more}"


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
