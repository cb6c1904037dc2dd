"""The presence heartbeat announces a run on a file system, and looks out for others there.

    python -m gridwright.interference.heartbeat

It reads a `HeartbeatRequest` from stdin, and writes the list of other runs, as JSON, whenever that changes.
The end of stdin is its order to end. It is a process of its own, so that a file system that hangs holds up
nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.interference.markers import (
    MOST_MARKERS,
    SCRATCH,
    Announcement,
    Sighting,
    beat,
    markers,
    nearby,
    read_marker,
    remove_marker,
    write_marker,
)
from gridwright.messages import decode, encode
from gridwright.runs.load_record import OtherRun

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
