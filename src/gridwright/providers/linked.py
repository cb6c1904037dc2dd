"""A repository that a service of a cloud carries: its verbs, each by tasks of that service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gridwright.errors import Finding
from gridwright.repository.forecast import TransferLimit
from gridwright.repository.settings import RepositoryReport


@dataclass(frozen=True, slots=True)
class FlagRefusal:
    """Why a service has nothing for a flag."""

    what: str
    remedy: str
    """What to do instead."""


class LinkedRepositoryStatus(Protocol):
    """How it stands."""

    @property
    def finding(self) -> Finding | None:
        """The recovery point that is required and missed, or None."""

    @property
    def is_well(self) -> bool:
        """Whether nothing is to be mended."""

    def document(self) -> dict[str, Any]:
        """The result for programs."""

    def text(self) -> str:
        """The result for people."""


class LinkedRepository(Protocol):
    """Its verbs. Paths are relative to the linked directory; none means all of it.

    Every method raises GridwrightError; what single files fail of is a problem of the report. An interrupt
    ends the task, and what it has done stays.
    """

    @property
    def refused_flags(self) -> Mapping[str, FlagRefusal]:
        """Flags of the verbs that the service has nothing for, such as --prefer; asks nobody."""

    def status(self, back: Sequence[TransferLimit]) -> LinkedRepositoryStatus:
        """How it stands; `back` limits a transfer from the store to the files."""

    def export(self, paths: Sequence[bytes], *, dry_run: bool) -> RepositoryReport:
        """Send what was created or changed."""

    def import_names(self, paths: Sequence[bytes], *, dry_run: bool) -> RepositoryReport:
        """Make names of what was created or changed in the bucket."""

    def release(self, paths: Sequence[bytes], unread_for_s: float, *, dry_run: bool) -> RepositoryReport:
        """Free the space of exported files that nobody used for so long."""

    def verify(
        self, paths: Sequence[bytes], read: Sequence[TransferLimit], *, dry_run: bool
    ) -> RepositoryReport:
        """Compare files and objects; `read` limits what reads the files, for the time of a dry run."""
