"""Where changes are told: what a reader of changelogs is asked, whatever stands behind it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from gridwright.repository.changelog.records import ChangeRecord
from gridwright.repository.copytool.action_list import Fid


@dataclass(frozen=True, slots=True)
class ChangelogUser:
    """Who is registered at one MDT: its records are kept until they are cleared."""

    mdt: str
    """`scratch-MDT0000`."""
    user: str
    """`cl3`, without the name that it was registered under."""
    index: int = 0
    """The last record when it was registered, or that was cleared when the set-up last looked."""


class ChangeSource(Protocol):
    """A mounted Lustre. All paths are relative to its mount."""

    def mdt_count(self) -> int:
        """How many MDTs it has. Raises OSError."""

    def fid_of(self, path: bytes) -> Fid:
        """The FID of an absolute path. Raises OSError."""

    def records(self, mdt: str, first: int) -> Iterator[ChangeRecord]:
        """Records of an MDT from an index on, to the last one. Raises OSError, RecordError."""

    def clear(self, mdt: str, user: str, last: int) -> None:
        """Give up records up to an index, which may be the one that was given before, and is above 0.

        Raises OSError: ENOENT where the user is not registered (any more).
        """

    def paths_of(self, fid: Fid) -> list[bytes]:
        """All paths of a file that Lustre knows; none for one that is gone. Raises OSError."""
