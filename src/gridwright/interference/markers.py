"""The marker by which runs on one file system find each other, also from other nodes.

It lies in the scratch directory of a run, says whose run it is, and has a counter that is raised every
second. A marker whose counter stands still is stale: its run was killed, and the next one there removes it.
"""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from gridwright.beneath import open_own
from gridwright.handed_files import open_file
from gridwright.messages import MessageError, decode
from gridwright.runs.journal import readable
from gridwright.runs.load_record import OtherRun
from gridwright.trusted import user_name

MARKER = "gridwright-run.json"
SCRATCH = ".gridwright-"
"""How the names of scratch directories begin."""
_MOST_DIRECTORIES = 64
"""Directories beside a library that are looked into: a file system with more has its libraries elsewhere."""
MOST_MARKERS = 256
"""Markers that are read in one turn."""
_MOST_DATED = 4096
"""Scratch directories that are looked at for the newest of them: each costs a server a request."""
_LONGEST_WORD = 200
"""Characters of what a marker says of its run that are believed."""
_BEATS = 12
"""Digits of the counter, at the beginning of the file, so that it is raised in place."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a run says of itself; `token` is the same on all its nodes, and of no other run."""

    token: str
    run: str
    host: str
    user: str
    what: str

    def as_other(self) -> OtherRun:
        """The run, as others report it."""
        return OtherRun(self.run, self.host, self.user, self.what)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A marker as it was read: how often it was raised, and when last, by the clock of its file system."""

    announcement: Announcement
    beats: int
    changed: float


def write_marker(directory: Path, announcement: Announcement) -> Path:
    """Leave a marker that everybody may read. Raises OSError."""
    text = f"{0:0{_BEATS}d}\n{json.dumps(asdict(announcement))}\n"
    with _own(directory) as opened:
        fd = os.open(MARKER, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=opened)
        try:
            os.fchmod(fd, 0o644)
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    return directory / MARKER


def beat(path: Path, beats: int) -> float:
    """Raise the counter of a marker; returns when, by the clock of its file system. Raises OSError."""
    with _own(path.parent) as opened:
        fd = os.open(path.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=opened)
    try:
        os.pwrite(fd, f"{beats:0{_BEATS}d}".encode(), 0)
        return os.fstat(fd).st_mtime
    finally:
        os.close(fd)


def remove_marker(path: Path) -> None:
    """Remove a marker of ours, where it is. Raises OSError."""
    with _own(path.parent) as opened, suppress(FileNotFoundError):
        os.unlink(path.name, dir_fd=opened)


@contextmanager
def _own(directory: Path) -> Iterator[int]:
    """A scratch directory of ours: who owns the library can put another in its place."""
    opened = open_own(directory)
    try:
        yield opened
    finally:
        os.close(opened)


def read_marker(path: Path) -> Sighting | None:
    """What a marker says; None if it is none, or no more there.

    Anybody can leave one: its texts are short and readable, and its user is the one whose file it is.
    """
    try:
        # Opened anew each time: clients of NFS then ask their server. A pipe in its place holds nobody.
        with open_file(path, follows=False) as file:
            beats, _, text = file.read(1 << 16).partition(b"\n")
            status = os.fstat(file.fileno())
        said = decode(text, Announcement)
        words = {name: readable(word[:_LONGEST_WORD]) for name, word in asdict(said).items()}
        by = Announcement(**words | {"user": user_name(status.st_uid)})
        return Sighting(by, int(beats[:_BEATS]), status.st_mtime)
    except (OSError, ValueError, RecursionError, MessageError):
        return None


def nearby(library: Path) -> list[Path]:
    """Directories of the library's file system in which other runs may have theirs.

    The library, the directories around it up to the mount point, and those beside these.
    """
    found: dict[Path, None] = {library: None}
    try:
        device = library.stat().st_dev
        # What is mounted beside a library may hang, and is another file system: it is not even looked at.
        mounted = {partition.mountpoint for partition in psutil.disk_partitions(all=True)}
        around = library.resolve()
        while around.parent != around and around.parent.stat().st_dev == device:
            around = around.parent
            found[around] = None
            for beside in _directories(around, device, mounted):
                found[beside] = None
                if len(found) >= _MOST_DIRECTORIES:
                    return list(found)
    except OSError:
        pass
    return list(found)


def _directories(directory: Path, device: int, mounted: Container[str]) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            for number, entry in enumerate(entries):
                if number > _MOST_DIRECTORIES:
                    return
                if (
                    entry.path not in mounted
                    and entry.is_dir(follow_symlinks=False)
                    and not entry.name.startswith(SCRATCH)
                    and entry.stat(follow_symlinks=False).st_dev == device
                ):
                    yield Path(entry.path)
    except OSError:
        return


def markers(directories: Iterable[Path]) -> tuple[list[Path], int]:
    """The markers in scratch directories right below these, and how many more there are than are named.

    Any user may have made any number of such directories. Of too many the newest are named: that of a run is
    new when the run begins.
    """
    paths: list[Path] = []
    for directory in directories:
        try:
            names = os.listdir(directory)  # noqa: PTH208 - every second
        except OSError:
            continue
        paths += [directory / name for name in names if name.startswith(SCRATCH)]
    left = len(paths) - MOST_MARKERS
    if left > 0:
        paths = heapq.nlargest(MOST_MARKERS, paths[:_MOST_DATED], key=_changed)
    return [place / MARKER for place in paths], max(0, left)


def _changed(place: Path) -> float:
    """When it was last changed, in seconds since 1970, which is no date that its owner could choose."""
    try:
        return place.lstat().st_ctime
    except OSError:
        return 0.0
