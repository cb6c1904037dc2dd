"""How long ago files of a directory were used: a look at all of them, which reads no contents."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.refusals import reason_of
from gridwright.repository.below import is_part
from gridwright.repository.counted_names import CountedNames
from gridwright.repository.keys import RESERVED

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
