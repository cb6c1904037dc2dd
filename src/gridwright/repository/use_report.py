"""How long ago files of a directory were used, and what its objects cost by storage class, for the user.

The look at all files reads no contents.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gridwright.refusals import reason_of
from gridwright.repository.below import is_part
from gridwright.repository.keys import RESERVED
from gridwright.repository.settings import CountedNames
from gridwright.units import counted, format_bytes

GIB = 2**30
"""Providers bill storage by the GiB and call it GB."""
STANDARD = "s3-standard"
CLASSES: tuple[tuple[str, str], ...] = (
    ("s3-standard-ia", "30 days"),
    ("s3-glacier-instant", "90 days"),
    ("s3-glacier-flexible", "90 days"),
    ("s3-deep-archive", "1 year"),
)
"""Items of the catalogue's prices, and how long files are to be unused for each: at least as long as a class
bills an object (30, 90, 90 and 180 days; Amazon S3 User Guide, storage classes)."""

UsdOf = Callable[[str], float | None]
"""The price of an item, USD per GB and month, or per GB retrieved; None where none is known."""


@dataclass(frozen=True, slots=True)
class ClassCost:
    """One storage class. USD; None where no price is known."""

    storage_class: str
    unused_for: str | None
    """How long the files that would be in it were not used; None: all files are in it."""
    bytes: int
    """Of these files; all others are in S3 Standard."""
    usd_per_month: float | None
    """Of all files, those in S3 Standard among them."""
    retrieval_usd: float | None
    """Of reading these files once."""


def class_costs(use: UseOfFiles, usd_of: UsdOf) -> list[ClassCost]:
    """Costs of each class, of S3 Standard alone first."""
    standard = usd_of(STANDARD)
    found = [ClassCost(STANDARD, None, use.bytes, _times(use.bytes, standard), 0.0)]
    for item, limit in CLASSES:
        cold = use.bytes_older_than(limit)
        hot_usd, cold_usd = _times(use.bytes - cold, standard), _times(cold, usd_of(item))
        month = None if hot_usd is None or cold_usd is None else hot_usd + cold_usd
        back = _times(cold, usd_of(f"{item}-retrieval"))
        found.append(ClassCost(item, limit, cold, month, back))
    return found


def _times(size: int, usd: float | None) -> float | None:
    return None if usd is None else size / GIB * usd


DAY_S = 86_400.0
LIMITS_S: tuple[tuple[str, float], ...] = (
    ("1 day", DAY_S),
    ("7 days", 7 * DAY_S),
    ("30 days", 30 * DAY_S),
    ("90 days", 90 * DAY_S),
    ("1 year", 365 * DAY_S),
)
OLDER = "longer ago"


@dataclass(frozen=True, slots=True)
class AgeClass:
    """Files that were last used within some time, and not within the time before it."""

    within: str
    files: int
    bytes: int


@dataclass(slots=True)
class UseOfFiles:
    """What a look at a directory found. Sizes are bytes."""

    files: int = 0
    bytes: int = 0
    changed_files: int = 0
    """Changed, or made, since the time that was asked about."""
    changed_bytes: int = 0
    classes: list[AgeClass] = field(default_factory=list)
    """From the newest to the oldest."""
    notes: list[str] = field(default_factory=list)
    failed: CountedNames = field(default_factory=CountedNames)
    """What could not be looked at."""

    def bytes_older_than(self, limit: str) -> int:
        """Bytes of files that were last used longer ago than one of LIMITS_S, by its name."""
        place = [each.within for each in self.classes].index(limit)
        return sum(each.bytes for each in self.classes[place + 1 :])


def use_of_files(
    directory: Path, *, changed_since: float | None = None, now: float | None = None
) -> UseOfFiles:
    """Look at all files below a directory: when they were read or written last, and what changed.

    `changed_since`: seconds since 1970; ctime tells, which no program can set back. Raises OSError where the
    directory itself cannot be looked at; what cannot be below it is a problem of the result.
    """
    now = time.time() if now is None else now
    found = UseOfFiles(notes=_notes(directory))
    files, sizes = [0] * (len(LIMITS_S) + 1), [0] * (len(LIMITS_S) + 1)
    counted: set[tuple[int, int]] = set()
    for status in _files(directory, found.failed):
        if status.st_nlink > 1:
            # Names of one file are its bytes once.
            if (status.st_dev, status.st_ino) in counted:
                continue
            counted.add((status.st_dev, status.st_ino))
        found.files += 1
        found.bytes += status.st_size
        if changed_since is not None and status.st_ctime >= changed_since:
            found.changed_files += 1
            found.changed_bytes += status.st_size
        age = now - max(status.st_atime, status.st_mtime)
        place = next((number for number, (_, limit) in enumerate(LIMITS_S) if age <= limit), len(LIMITS_S))
        files[place] += 1
        sizes[place] += status.st_size
    names = [*(name for name, _ in LIMITS_S), OLDER]
    found.classes = [AgeClass(*each) for each in zip(names, files, sizes, strict=True)]
    return found


def _notes(directory: Path) -> list[str]:
    flags = os.statvfs(directory).f_flag
    if flags & os.ST_NOATIME:
        return ["mounted with noatime: reads leave no time here, so that writes alone count as use"]
    if flags & os.ST_RELATIME:
        return ["mounted with relatime: reads within a day of the last one leave no time"]
    return []


def _files(directory: Path, failed: CountedNames) -> Iterator[os.stat_result]:
    root = os.fsencode(directory)
    waiting = [root]
    while waiting:
        here = waiting.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError as error:
                        failed.add(entry.path, f"it cannot be looked at: {reason_of(error)}")
                        continue
                    if stat.S_ISDIR(status.st_mode):
                        if (here != root or entry.name != RESERVED.encode()) and not is_part(entry.name):
                            waiting.append(entry.path)
                    elif stat.S_ISREG(status.st_mode) and not is_part(entry.name):
                        yield status
        except OSError as error:
            if here == root:
                raise
            failed.add(here, f"it cannot be listed: {reason_of(error)}")


@dataclass(frozen=True, slots=True)
class UseReport:
    """Of one repository."""

    repository: str
    directory: str
    region: str
    """Whose prices they are."""
    use: UseOfFiles
    costs: Sequence[ClassCost]

    def document(self) -> dict[str, Any]:
        """The result for programs."""
        return {
            "repository": self.repository,
            "directory": self.directory,
            "region": self.region,
            "files": self.use.files,
            "bytes": self.use.bytes,
            "last_used": [{**asdict(each), "share": self._share(each.bytes)} for each in self.use.classes],
            "storage_classes": [asdict(each) for each in self.costs],
            "notes": self.use.notes,
            "problems": self.use.failed.document(),
        }

    def text(self) -> str:
        """The result for people."""
        lines = [
            f"{self.repository}: {self.directory}, {counted(self.use.files, 'file')} "
            f"({format_bytes(self.use.bytes)})"
        ]
        before = ""
        for each in self.use.classes:
            # Each class is the files that are in none before: the words say so, and add up to all.
            span = f"{before} to {each.within} ago" if before else f"within {each.within}"
            head = f"  last used {span if each.within != OLDER else OLDER}"
            before = each.within
            lines.append(
                f"{head:<32} {self._share(each.bytes):6.1%}  {counted(each.files, 'file')} "
                f"({format_bytes(each.bytes)})"
            )
        lines.append(f"  objects a month, at prices of {self.region}:")
        lines += [f"    {_cost(each)}" for each in self.costs]
        if any(each.usd_per_month is None for each in self.costs):
            lines.append("    a price that is not known: write it under prices: services: in catalog.yaml")
        lines += [f"  {note}" for note in self.use.notes]
        lines += [f"  {each}" for each in self.use.failed.lines()]
        return "\n".join(lines)

    def _share(self, size: int) -> float:
        return size / self.use.bytes if self.use.bytes else 0.0


def _cost(cost: ClassCost) -> str:
    month = "not known" if cost.usd_per_month is None else f"{cost.usd_per_month:,.2f} USD"
    if cost.unused_for is None:
        return f"all in {cost.storage_class}: {month}"
    back = "not known" if cost.retrieval_usd is None else f"{cost.retrieval_usd:,.2f} USD"
    return (
        f"what was not used for {cost.unused_for} in {cost.storage_class} ({format_bytes(cost.bytes)}): "
        f"{month}, and {back} to read that once"
    )
