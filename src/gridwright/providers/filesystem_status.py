"""How file systems stand, as one machine of a grid sees them: in bounded time, and in words."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gridwright.bounded import Hangs, look_at_all
from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.health import LATE_S, Condition, Health, Run, RunWithin, TimeUp
from gridwright.filesystems.mounts import mount_of, read_mounts
from gridwright.report.table import Table, columns_of, rows_table
from gridwright.spec.filesystem import FileSystem
from gridwright.spec.model import GridSpec

ANSWER_S = 11.0
"""For each file system; with LATE_S, all of them end by then, whatever hangs."""


@dataclass(frozen=True, slots=True)
class FileSystemStanding:
    """A file system; sizes in bytes."""

    name: str
    type: str
    path: str
    lacking: str | None
    """Why it cannot be used or looked at from there, in words; None where it can."""
    total_bytes: int | None = None
    free_bytes: int | None = None
    health: Health | None = None
    """What its servers or its client say; None for a kind that has none, and where nobody could be asked."""
    mounted: bool = True
    """Whether the machine that looked has it mounted: one that has not knows nothing of it."""

    @property
    def condition(self) -> Condition:
        """How well it is."""
        if self.lacking is not None:
            return Condition.BROKEN if self.mounted else Condition.SILENT
        return Condition.HEALTHY if self.health is None else self.health.condition


def client_statuses(spec: GridSpec, run: Run, machine: str) -> tuple[FileSystemStanding, ...]:
    """All that nodes share, as the client of `run` sees it. Takes ANSWER_S and LATE_S where any hangs."""
    shared = {name: each for name, each in spec.filesystems.items() if not each.is_node_local}
    looks = {name: partial(_client_health, each, run) for name, each in shared.items()}
    seen = look_at_all(looks, ANSWER_S + LATE_S)
    return tuple(_status(name, each, seen[name], machine) for name, each in shared.items())


def _client_health(filesystem: FileSystem, run: Run) -> tuple[bool, Health | None]:
    """Whether it is mounted, and how it is as far as is told in time. Raises OSError where nobody says."""
    run = RunWithin(run, time.monotonic() + ANSWER_S)
    kind, path = kind_of(filesystem), str(filesystem.path)
    try:
        mount = mount_of(path, read_mounts(run))
        if kind.kernel_types and (mount is None or mount.type not in kind.kernel_types):
            return False, None
        return True, kind.health(filesystem, run, path)
    except (GridwrightError, TimeUp) as error:
        said = str(error) if isinstance(error, TimeUp) else error.problems[0].what
        raise OSError(errno.EIO, said) from error


def _status(
    name: str, filesystem: FileSystem, seen: tuple[bool, Health | None] | Hangs | OSError, machine: str
) -> FileSystemStanding:
    place = (name, filesystem.type, str(filesystem.path))
    if isinstance(seen, Hangs):
        return FileSystemStanding(*place, f"it does not say how it is: {seen}")
    if isinstance(seen, OSError):
        return FileSystemStanding(*place, f"it does not say how it is: {seen.strerror}")
    mounted, health = seen
    if not mounted:
        return FileSystemStanding(
            *place, f"{machine} has not mounted it: see gridwright doctor", mounted=False
        )
    sizes = (health.capacity_bytes, health.available_bytes) if health else (None, None)
    return FileSystemStanding(*place, None, *sizes, health)


def status_table(filesystems: Sequence[FileSystemStanding]) -> Iterator[Table]:
    """A table of all; none where there is none."""
    if filesystems:
        rows = []
        for each in filesystems:
            sizes = (each.total_bytes, each.free_bytes)
            words = ["" if size is None else f"{size / 1e9:.1f} GB" for size in sizes]
            rows.append((each.name, each.type, each.path, each.condition.value, *words))
        yield rows_table(
            "File systems", columns_of(["name", "type", "path", "state"], ["size", "free"]), rows
        )


def status_lines(filesystems: Sequence[FileSystemStanding]) -> Iterator[str]:
    """What is wrong with each."""
    for each in filesystems:
        if each.lacking is not None:
            yield f"file system {each.name}: {each.lacking}"
        for finding in each.health.findings if each.health else ():
            yield str(replace(finding, text=f"file system {each.name}: {finding.text}"))
