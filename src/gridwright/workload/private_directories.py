"""The directories of a run in work and util: made fresh, marked, and removed on every way out.

`.gridwright-workload-ID` holds a marker that says which process made it; each launch has a
directory of its own inside. One whose process is dead, and that was not kept on purpose, is
removed by the next run; on a grid of several nodes, also one whose run is over. Nothing else in a
library is touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

from gridwright.atomic import write_atomically
from gridwright.beneath import OwnDirectory, open_own, own_directories
from gridwright.errors import GridwrightError
from gridwright.runs.worker_process import is_alive, process_facts
from gridwright.trusted import read_file

PREFIX = ".gridwright-workload-"
MARKER = "gridwright-workload.json"
_MARKED_S = 60.0
"""A directory without its marker is one that is being made, unless it is this old."""


@dataclass(frozen=True, slots=True)
class PrivateDirectories:
    """Where the launches of one run keep their temporary tables and what they spill."""

    work: Path
    util: Path
    keep: bool
    identities: tuple[tuple[int, int], ...]
    """Device and inode of each: others may own the library, and exchange what has its name."""

    @classmethod
    def create(cls, work: Path, util: Path, *, keep: bool, run: Path | None = None) -> PrivateDirectories:
        """Make and mark them. Raises OSError.

        `run` is the directory that is there as long as the run of several nodes which they belong to.
        """
        made: list[Path] = []
        identities: list[tuple[int, int]] = []
        name = f"{PREFIX}{run.name}-" if run is not None else PREFIX
        marker = {"process": process_facts(), "kept": keep}
        if run is not None:
            marker["run"] = str(run)
        try:
            for library in (work, util):
                made.append(library / f"{name}{secrets.token_hex(6)}")
                identities.append(_make(made[-1], json.dumps(marker, indent=1) + "\n"))
        except BaseException:
            for directory, identity in zip(made, identities, strict=False):
                _remove(directory, identity)
            raise
        return cls(made[0], made[1], keep, tuple(identities))

    def of_launch(self, number: int, label: str) -> tuple[Path, Path]:
        """The directories in work and util of one launch; not made yet."""
        name = f"{number:04d}-{re.sub(r'[^A-Za-z0-9._-]+', '-', label)[:60]}"
        return self.work / name, self.util / name

    def remove(self) -> None:
        """Remove them with all that is in them, unless they are to be kept."""
        if not self.keep:
            for directory, identity in zip((self.work, self.util), self.identities, strict=True):
                _remove(directory, identity)


def _make(directory: Path, marker: str) -> tuple[int, int]:
    """Make a directory of ours with its marker; its device and inode. Raises OSError."""
    library = os.open(directory.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Others may come in by a name that they know, such as that of the marker of a run.
        os.mkdir(directory.name, 0o711, dir_fd=library)
        opened = open_own(directory.name, directory=library)
        try:
            write_atomically(MARKER, marker, 0o644, directory=opened)
            return _identity(opened)
        except BaseException:
            OwnDirectory(directory, opened, library).remove()
            raise
        finally:
            os.close(opened)
    except OSError as error:
        # A name in an open directory says nothing to who reads it.
        error.filename = str(directory)
        raise
    finally:
        os.close(library)


def _remove(directory: Path, identity: tuple[int, int]) -> None:
    for own in own_directories(directory.parent, directory.name):
        if own.path == directory and _identity(own.descriptor) == identity:
            own.remove()


def _identity(opened: int) -> tuple[int, int]:
    status = os.fstat(opened)
    return status.st_dev, status.st_ino


def remove_run(library: Path, run: Path) -> list[Path]:
    """Remove what the launches of a run of several nodes left in a library; returns the directories."""
    removed = []
    for own in own_directories(library, f"{PREFIX}{run.name}-"):
        with contextlib.suppress(GridwrightError, OSError, ValueError, KeyError, TypeError, AttributeError):
            try:
                marker = json.loads(read_file(own.descriptor, MARKER))
            except FileNotFoundError:
                # Its job was killed before there was anything in it; else it is another one under this name.
                os.rmdir(own.path.name, dir_fd=own.parent)
                removed.append(own.path)
                continue
            if not marker["kept"] and marker["run"] == str(run) and own.remove():
                removed.append(own.path)
    return removed


def _is_over(run: str | None) -> bool:
    """Whether a run of several nodes is over: its directory is gone, where those of others could be seen."""
    return run is not None and Path(run).parent.parent.is_dir() and not Path(run).exists()


def remove_stale(library: Path) -> list[Path]:
    """Remove what killed runs of this user left in a library; returns the directories."""
    removed = []
    for own in own_directories(library, PREFIX):
        try:
            marker = json.loads(read_file(own.descriptor, MARKER))
            over = is_alive(marker["process"]) is False or _is_over(marker.get("run"))
            stale = not marker["kept"] and over
        except (GridwrightError, OSError, ValueError, KeyError, TypeError, AttributeError):
            # Killed between the making and the marking: ours by name, and there is nothing in it.
            with contextlib.suppress(OSError):
                if time.time() - os.fstat(own.descriptor).st_mtime > _MARKED_S:
                    os.rmdir(own.path.name, dir_fd=own.parent)
            continue
        if stale and own.remove():
            removed.append(own.path)
    return removed
