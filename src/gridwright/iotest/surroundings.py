"""What a test of a library sees of its node: whoever else uses it, and other runs on the file system."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gridwright.filesystems.mounts import LibraryMount
from gridwright.interference.heartbeat import announcement
from gridwright.interference.judge import disturbances
from gridwright.interference.presence import Presence
from gridwright.interference.watch import LoadWatch
from gridwright.runs.load_record import NodeLoad
from gridwright.runs.phase_record import PhaseRecord

_WHAT = "iotest"
_INIT = 1


def watch_over(mount: LibraryMount, presence: Presence, *, tokens: Sequence[str] = ()) -> LoadWatch:
    """A watch for which this process is ours, with whoever started it and all that has one of `tokens`."""
    roots = {os.getpid(), os.getppid()} - {_INIT}
    return LoadWatch(
        roots=roots,
        tokens=tokens,
        devices=[mount.device] if mount.device is not None else [],
        fuse=mount.is_fuse,
        presence=presence,
    )


def announce(presence: Presence, library: Path, scratch: Path | None, *, run: str, token: str) -> None:
    """Tell others on the file system of the run; `token` is the same on all its nodes."""
    directories = [scratch] if scratch is not None else []
    presence.begin(announcement(token, run, _WHAT), scratch=directories, libraries=[library])
    presence.wait()


def with_load(record: PhaseRecord, load: NodeLoad | None) -> PhaseRecord:
    """The record of a phase with what happened on its only node meanwhile, and what disturbed it."""
    if load is None:
        return record
    interferences = disturbances(load, sequential=record.op != "metadata")
    return replace(record, load=load, disturbances=interferences, disturbed=bool(interferences))
