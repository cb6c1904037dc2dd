"""Removes runs that have ended: what Gridwright wrote, and nothing else."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from gridwright.beneath import remove_tree
from gridwright.errors import GridwrightError, environment_error
from gridwright.runs.directory import (
    IOTEST_FILE,
    JOURNAL_FILE,
    LAUNCHES_FILE,
    LOGS,
    REPORT_FILE,
    SAMPLES_FILE,
    WORKLOAD_FILE,
    load_run,
)
from gridwright.runs.place import CLOCKS_DIFFER, RUN_FILE, is_to_come, own_runs, run_directories

_FILES = frozenset(
    {RUN_FILE, IOTEST_FILE, WORKLOAD_FILE, LAUNCHES_FILE, SAMPLES_FILE, REPORT_FILE, JOURNAL_FILE}
)
_PART = re.compile(r"\.(?P<file>.+)\.\d+\.part")
"""A file that was being written when its process was killed; see `gridwright.atomic`."""
_TO_COME = "it began in the future by this machine's clock, so its age is not known; `runs rm` takes its name"
_REMOVED = ".{}.removed"
"""What a run is called while it goes: a run that is half gone is listed by nobody."""


@dataclass(frozen=True, slots=True)
class RunOnDisk:
    """A run directory, as far as its removal is concerned."""

    path: Path
    age_s: float | None
    """Since it began; None where that is not known."""
    size_bytes: int
    kept: str | None
    """Why it must not be removed; None where it may."""


def look_at_run(path: Path, now: datetime) -> RunOnDisk:
    """Say whether a run may be removed: it has ended, and holds nothing but what a run leaves."""
    size = sum(entry.stat(follow_symlinks=False).st_size for entry in _entries(path))
    if path.is_symlink():
        return RunOnDisk(path, None, size, "it is a link to another place")
    try:
        run = load_run(path, with_samples=False).run
    except GridwrightError as error:
        return RunOnDisk(path, None, size, f"it cannot be read: {error.problems[0].what}")
    age_s = _age_s(run.started, now)
    if run.status == "running":
        return RunOnDisk(path, age_s, size, "it is in progress")
    foreign = sorted({_top(path, entry) for entry in _entries(path) if not _is_ours(path, entry)})
    kept = f"it holds what no run leaves: {', '.join(foreign)}" if foreign else None
    return RunOnDisk(path, age_s, size, kept)


def runs_below(runs: Path, now: datetime) -> list[RunOnDisk]:
    """The runs of who asks in a directory, the newest first; those of the future are last, and stay."""
    disks = [look_at_run(path, now) for path in reversed(own_runs(run_directories(runs)))]
    to_come = [disk for disk in disks if _is_to_come(disk, now)]
    return [
        *(disk for disk in disks if disk not in to_come),
        *(replace(each, kept=each.kept or _TO_COME) for each in to_come),
    ]


def _is_to_come(run: RunOnDisk, now: datetime) -> bool:
    return is_to_come(run.path, now) or (run.age_s is not None and run.age_s < -CLOCKS_DIFFER.total_seconds())


def remove_run(path: Path) -> None:
    """Remove a run that may be removed; one that somebody else removed meanwhile is no error.

    Raises GridwrightError (status ENVIRONMENT) where the file system refuses.
    """
    going = path.with_name(_REMOVED.format(path.name))
    try:
        remove_tree(going)
        path.rename(going)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _stays(error.filename or path, error.strerror) from error
    if not remove_tree(going):
        raise _stays(going, "something in it stays")


def _stays(path: str | Path, reason: str | None) -> GridwrightError:
    return environment_error(f"cannot be removed: {reason}", where=str(path), remedy="see who owns it")


def remove_leavings(runs: Path) -> None:
    """Remove what is left of runs whose removal was interrupted."""
    for path in own_runs(runs.glob(_REMOVED.format("*"))):
        # What somebody else has put there under such a name, such as a file, is none of them.
        with suppress(OSError):
            if (path / RUN_FILE).exists() or (path / LOGS).exists() or not any(path.iterdir()):
                remove_tree(path)


def _age_s(started: str, now: datetime) -> float | None:
    try:
        return (now - datetime.fromisoformat(started).astimezone(UTC)).total_seconds()
    except ValueError:
        return None


def _entries(path: Path) -> Iterator[os.DirEntry[str]]:
    """Everything below a run; what is mounted there counts, and is not entered."""
    try:
        with os.scandir(path) as entries:
            found = list(entries)
    except OSError:
        return
    for entry in found:
        yield entry
        if entry.is_dir(follow_symlinks=False) and not os.path.ismount(entry.path):
            yield from _entries(Path(entry.path))


def _is_ours(path: Path, entry: os.DirEntry[str]) -> bool:
    """Whether a run leaves such an entry: one of its files, or a log."""
    top = _top(path, entry)
    mode = entry.stat(follow_symlinks=False).st_mode
    if top == LOGS:
        return stat.S_ISREG(mode) or (stat.S_ISDIR(mode) and not os.path.ismount(entry.path))
    part = _PART.fullmatch(top)
    return stat.S_ISREG(mode) and (part["file"] if part else top) in _FILES


def _top(path: Path, entry: os.DirEntry[str]) -> str:
    return Path(entry.path).relative_to(path).parts[0]
