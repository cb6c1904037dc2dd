"""The presence heartbeat announces a run on a file system by its marker, and looks out for others there.

    python -m gridwright.interference.heartbeat

It reads a `HeartbeatRequest` from stdin, and writes the list of other runs, as JSON, whenever that changes.
The end of stdin is its order to end. It is a process of its own, so that a file system that hangs holds up
nothing else.

A marker lies in the scratch directory of a run, says whose run it is, and has a counter that is raised every
second. A marker whose counter stands still is stale: its run was killed, and the next one there removes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from gridwright.beneath import open_own
from gridwright.handed_files import open_file
from gridwright.messages import MessageError, decode, encode
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


BEAT_S = 1.0
STALE_S = 10.0
"""A counter that stands still for so many beats is that of a killed run, also on a busy file system."""
_NEARBY_S = 10.0
"""Directories beside a library are looked into so often: each costs servers a request."""


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """Announce a run in these scratch directories, and look for others around these libraries."""

    announcement: Announcement
    scratch: list[str]
    libraries: list[str]


@dataclass(frozen=True, slots=True)
class Others:
    """The other runs that are there from a moment of time.monotonic() on, which all processes share."""

    at: float
    runs: list[OtherRun] = field(default_factory=list)
    fault: str | None = None
    """Why there may be more."""


@dataclass(slots=True)
class Lookout:
    """Tells runs that live from markers that were left; times by `clock`, in seconds."""

    own: Announcement
    clock: Callable[[], float] = time.monotonic
    _seen: dict[Path, tuple[int, float]] = field(default_factory=dict)
    """Of each marker: its counter, and when that was seen to change."""

    def living(self, sightings: dict[Path, Sighting], changed: float | None) -> set[OtherRun]:
        """Other runs whose counter moves; `changed` is when ours did, by the clock of the file system.

        A marker that is seen for the first time counts if it is as fresh as ours; after that it must move.
        """
        now = self.clock()
        found = set()
        for path, sighting in sightings.items():
            if sighting.announcement.token == self.own.token:
                continue
            before = self._seen.get(path)
            fresh = changed is not None and abs(changed - sighting.changed) <= STALE_S
            if before is None:
                self._seen[path] = sighting.beats, now if fresh else now - STALE_S
            elif before[0] != sighting.beats:
                self._seen[path] = sighting.beats, now
            if self.moves(path):
                found.add(sighting.announcement.as_other())
        self._seen = {path: seen for path, seen in self._seen.items() if path in sightings}
        return found

    def moves(self, path: Path) -> bool:
        """Whether a marker was seen to change a moment ago."""
        return path in self._seen and self.clock() - self._seen[path][1] < STALE_S


class _PresenceHeartbeat:
    def __init__(self, request: HeartbeatRequest) -> None:
        self._libraries = [Path(library) for library in request.libraries]
        self._lookout = Lookout(request.announcement)
        self._own: list[Path] = []
        for directory in request.scratch:
            # A library that may not be written to is only read: it can be looked at all the same.
            with contextlib.suppress(OSError):
                self._own.append(write_marker(Path(directory), request.announcement))
        self._known: set[Path] = set()
        self._looked_around: float | None = None
        self._left_around = 0
        self._told: tuple[set[OtherRun], str | None] | None = None

    def run(self) -> None:
        beats = 0
        try:
            while True:
                beats += 1
                self._turn(beats)
                if select.select([0], [], [], BEAT_S)[0] and not os.read(0, 4096):
                    return
        except BrokenPipeError:
            return
        except Exception as error:
            # Whatever it is, it must not look like a file system that nobody else uses.
            self._tell(set(), f"the look-out for them ended: {type(error).__name__}: {error}")
        finally:
            for path in self._own:
                with contextlib.suppress(OSError):
                    remove_marker(path)

    def _turn(self, beats: int) -> None:
        changed = None
        for path in self._own:
            with contextlib.suppress(OSError):
                changed = beat(path, beats)
        here, left = markers(self._libraries)
        around = self._around()
        moving = filter(self._lookout.moves, self._known)
        found = [
            path for path in dict.fromkeys([*moving, *here, *around, *self._known]) if path not in self._own
        ]
        left += self._left_around + max(0, len(found) - MOST_MARKERS)
        sightings = {
            path: sighting for path in found[:MOST_MARKERS] if (sighting := read_marker(path)) is not None
        }
        self._known = set(sightings)
        living = self._lookout.living(sightings, changed if changed is not None else time.time())
        self._tell(living, _left_out(self._libraries) if left else None)

    def _tell(self, living: set[OtherRun], fault: str | None) -> None:
        if (living, fault) != self._told:
            self._told = living, fault
            runs = sorted(living, key=lambda run: run.run)
            os.write(1, encode(Others(time.monotonic(), runs, fault)) + b"\n")

    def _around(self) -> list[Path]:
        """Markers beside the libraries, now and then."""
        now = time.monotonic()
        if self._looked_around is not None and now - self._looked_around <= _NEARBY_S:
            return []
        self._looked_around = now
        paths, self._left_around = markers(path for library in self._libraries for path in nearby(library))
        return paths


def _left_out(libraries: Iterable[Path]) -> str:
    """No number, which would be news each second of a flood."""
    places = ", ".join(map(str, libraries))
    return (
        f"more than {MOST_MARKERS} directories {SCRATCH}* lie in or beside {places}, and only so many are "
        "looked into; remove those that were left"
    )


def main() -> None:
    """Serve one request."""
    # One that stands still goes on when its parent ends, and so ends itself (PR_SET_PDEATHSIG, prctl(2)).
    ctypes.CDLL(None).prctl(1, signal.SIGCONT, 0, 0, 0)
    line = sys.stdin.buffer.readline()
    _PresenceHeartbeat(decode(line, HeartbeatRequest)).run()


def announcement(token: str, run: str, what: str) -> Announcement:
    """What a run of this user on this host says of itself."""
    import getpass

    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return Announcement(token, run, socket.gethostname(), user, what)


if __name__ == "__main__":
    main()
