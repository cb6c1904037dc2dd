"""Finds the logs that a user means: files as named, and those below a directory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.errors import GridwrightError, Problem, input_error
from gridwright.refusals import refusal

# Also those that were rotated (night.log.3, night.log-20261121) or packed.
_LOG_NAME = re.compile(r".+\.(?:log|acct|html?)(?:[.-]?\d{1,14})?(?:\.gz)?", re.IGNORECASE)


@dataclass(slots=True)
class FoundLogs:
    """Files to be read as logs, in the order in which they were named, and what is none."""

    files: list[Path] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    passed_over: list[Path] = field(default_factory=list)
    """Files below a directory that are no logs by their names."""


def find_logs(names: Sequence[Path]) -> FoundLogs:
    """Find the logs; a directory stands for all logs below it, by name and in the order of their paths."""
    found = FoundLogs()
    for name in names:
        if not name.is_dir():
            found.files.append(name)
            continue
        try:
            below = sorted(_files_below(name))
        except GridwrightError as error:
            found.refused += error.problems
            continue
        logs = [path for path in below if _LOG_NAME.fullmatch(path.name)]
        found.files += logs
        found.passed_over += [path for path in below if path not in set(logs)]
        if not logs:
            found.refused.append(
                Problem(
                    f"there is no log below this directory, by name: {len(below)} other files",
                    where=str(name),
                    remedy="Logs are named *.log, *.html or *.acct, also numbered and packed "
                    "(.log.1, .log.gz); name others one by one.",
                )
            )
    return found


def _files_below(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory, without those that are hidden. Raises GridwrightError."""

    def unreadable(error: OSError) -> None:
        where = str(error.filename or directory)
        why = refusal(where, error, "name directories that you may read")
        raise input_error(
            f"the directory cannot be read: {why.reason}", where=where, remedy=why.remedy
        ) from error

    # Links to directories are not followed: they may lead in a circle.
    for place, below, names in os.walk(directory, onerror=unreadable):
        below[:] = [name for name in below if not name.startswith(".")]
        yield from (Path(place, name) for name in names if not name.startswith("."))
