"""What a file system's client says of a phase beside the engine: bytes fetched, targets full or away."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gridwright.commands import run_here
from gridwright.errors import GridwrightError
from gridwright.filesystems.counters import Counts, ReadCounts, traffic
from gridwright.filesystems.health import UNREACHED, Run
from gridwright.filesystems.kind import TargetReports
from gridwright.filesystems.mounts import LibraryMount
from gridwright.filesystems.watching import kind_mounted_as, watcher_of
from gridwright.iotest.outcome import Outcome


@dataclass(slots=True)
class ClientView:
    """Asks the client of a mounted file system; says nothing where its kind cannot be asked."""

    mount_point: str
    run: Run = run_here
    filesystem_type: str = ""
    """As the kernel has it."""
    _reports: TargetReports | None = field(init=False, default=None)
    _counts: ReadCounts | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Find what counts, and what knows its targets."""
        kind = kind_mounted_as(self.filesystem_type)
        self._reports = kind if isinstance(kind, TargetReports) else None
        watcher = watcher_of(self.filesystem_type)
        self._counts = watcher.mount_counters(self.run, self.mount_point) if watcher else None

    @classmethod
    def of(cls, mount: LibraryMount) -> ClientView:
        """That of a library's file system."""
        return cls(mount.mount_point, filesystem_type=mount.filesystem_type)

    def counts(self) -> Counts | None:
        """What it has moved until now; None where it does not tell, as without root."""
        try:
            return self._counts() if self._counts else None
        except GridwrightError:
            return None

    def with_client_counts(self, outcome: Outcome, before: Counts | None) -> Outcome:
        """The outcome of a phase with what the client adds; `before`: what it had moved until then."""
        outcome = replace(outcome, cached_fraction=self._cached(outcome, before))
        failure = outcome.failure
        if failure is None or self._reports is None:
            return outcome
        if failure.errno == errno.ENOSPC:
            detail = self._reports.no_space(self.run, self.mount_point, failure.path)
        else:
            detail = self.unreached() if failure.errno in UNREACHED else None
        return replace(outcome, failure=replace(failure, detail=detail or ""))

    def unreached(self) -> str | None:
        """Which parts of the file system the client does not reach now; None where it tells of none."""
        return self._reports.unreached(self.run, self.mount_point) if self._reports else None

    def _cached(self, outcome: Outcome, before: Counts | None) -> float | None:
        """The part of the reads that no server delivered meanwhile, or whose pages were in memory before.

        Other readers of the node make it too small, never too large; so the larger one counts.
        """
        after = self.counts() if before is not None and outcome.read_bytes else None
        if before is None or after is None:
            return outcome.cached_fraction
        fetched = fetched_bytes(before, after)
        if fetched is None:
            return outcome.cached_fraction
        return max(outcome.cached_fraction or 0.0, 1.0 - min(1.0, fetched / outcome.read_bytes))


def fetched_bytes(before: Mapping[str, Any], after: Mapping[str, Any]) -> int | None:
    """Bytes that were read from servers between two readings; None where a count was cleared meanwhile."""
    moved = traffic(before, after)
    return sum(each.read_bytes for each in moved) if len(moved) == len(after) and after else None
