"""Metadata servers that fill with the first bytes of files (data on MDT)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gridwright.errors import Finding
from gridwright.filesystems.desired_layout import DesiredLayout
from gridwright.filesystems.health import Run
from gridwright.filesystems.layout import FileLayout
from gridwright.filesystems.lustre_client.attribute import ClassCount
from gridwright.filesystems.lustre_client.parameters import read_parameters, whole_number
from gridwright.filesystems.lustre_client.scan_program import LibraryScan
from gridwright.units import format_bytes

FULL = 0.7
"""Part of a metadata target in use from which it is told: at 90 % the doctor warns of any target."""
SOON_DAYS = 60
"""Or it is full within so many days at the rate of the last week."""
SHARE = 0.05
"""Part of what is in use that has to be data of the library: else something else fills it."""
_WEEK_DAYS = 7


@dataclass(frozen=True, slots=True)
class MetadataSpace:
    """A metadata target. Sizes in bytes."""

    target: str
    total_bytes: int
    available_bytes: int

    @property
    def used_bytes(self) -> int:
        """What nobody can use any more."""
        return self.total_bytes - self.available_bytes


def read_metadata_space(run: Run, name: str) -> list[MetadataSpace]:
    """Of each metadata target of file system `name`. Raises GridwrightError where one does not answer."""
    parts = ("kbytestotal", "kbytesavail")
    told = read_parameters(run, [f"mdc.{name}-MDT*-mdc-*.{part}" for part in parts], timeout_s=3.0).values
    sizes: dict[str, dict[str, int]] = {}
    for parameter, value in told.items():
        row = re.fullmatch(r"mdc\.(\S+-MDT[0-9a-f]{4})-mdc-\S+\.(\w+)", parameter)
        if row and (kib := whole_number(value)) is not None:
            sizes.setdefault(row[1], {})[row[2]] = kib * 1024
    return [
        MetadataSpace(target, each[parts[0]], min(each[parts[1]], each[parts[0]]))
        for target, each in sorted(sizes.items())
        if len(each) == len(parts)
    ]


def data_on_mdt_findings(
    found: LibraryScan, directory: str, spaces: Sequence[MetadataSpace], wish: DesiredLayout
) -> Iterator[Finding]:
    """A finding where files of the library fill metadata targets, with when these are full."""
    held = found.scanned.metadata_server_bytes
    used = sum(each.used_bytes for each in spaces)
    if not spaces or held < SHARE * used:
        return
    fullest = max(spaces, key=lambda each: each.used_bytes / max(each.total_bytes, 1))
    part_in_use = fullest.used_bytes / max(fullest.total_bytes, 1)
    daily = min(new_bytes(found.scanned.classes), held) / _WEEK_DAYS
    days = sum(each.available_bytes for each in spaces) / daily if daily else None
    if part_in_use < FULL and (days is None or days > SOON_DAYS):
        return
    scan_part = "" if found.scanned.complete else " (of the files found in time)"
    when = f"; at the rate of the last week they are full in {days:.0f} days" if days is not None else ""
    yield Finding(
        "warning",
        "metadata-fills-with-data",
        f"files in {directory} keep {format_bytes(held)}{scan_part} on metadata targets, "
        f"{100 * held / used:.0f} % of what these hold; {fullest.target} is {100 * part_in_use:.0f} % in "
        f"use, {format_bytes(fullest.available_bytes)} left{when}. {_whose(found, wish)}. Once it is "
        "full no file at all can be made",
        f"State a layout without where: mdt, then {wish.command('set')}, and {wish.command('rebalance')} "
        "--at-least 1B for files that are there",
    )


def new_bytes(classes: Sequence[ClassCount]) -> int:
    """Bytes on metadata targets of files that were written in the last week; no less than there are."""
    found = 0
    for each in classes:
        row = re.match(r"(\d+):mdt", each.layout)
        if row and 0 < each.age_days <= _WEEK_DAYS:
            found += min(each.bytes, each.files * int(row[1]))
    return found


def _whose(found: LibraryScan, wish: DesiredLayout) -> str:
    default = found.default.layout if found.default else None
    layouts: Mapping[str, FileLayout | None] = {
        f"The layout of library {wish.library}": wish.layout,
        "The layout of its directory": default,
    }
    for whose, layout in layouts.items():
        first = layout.components[0] if layout else None
        if first is not None and first.on_metadata_server:
            return f"{whose} has the first {format_bytes(first.end or 0)} of each file there"
    return "Its layout for new files keeps none there"
