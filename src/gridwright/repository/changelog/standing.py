"""How changelogs stand beside exports: what was not taken yet, and for how long nobody has."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from gridwright.refusals import reason_of
from gridwright.repository.changelog.changes import RegisteredUsers, SourceOf
from gridwright.repository.changelog.journal import ChangeJournal
from gridwright.repository.changelog.lustre_source import LustreSource
from gridwright.repository.changelog.records import RecordError
from gridwright.repository.changelog.source import ChangelogUser, ChangeSource
from gridwright.repository.settings import OpenRepository
from gridwright.units import counted

MOST_COUNTED = 100_000
"""Records that a look at the status reads."""


@dataclass(frozen=True, slots=True)
class ChangelogStanding:
    """One MDT's changelog."""

    mdt: str
    user: str
    index: int
    """The last record that this user has taken."""
    last: int
    """The last record that was read; that index where there is none behind it."""
    untaken: int
    """Records that no export has taken yet, up to `MOST_COUNTED`."""
    oldest_s: float | None
    """The age of the oldest of them, in seconds; None where there is none."""
    idle_s: float | None
    """How long ago an export has taken any, in seconds: Lustre removes users that are idle for long. None
    for never."""

    def text(self) -> str:
        """For people."""
        more = "more than " if self.untaken >= MOST_COUNTED else ""
        oldest = "" if self.oldest_s is None else f", the oldest {self.oldest_s:.0f} s old"
        idle = "never taken" if self.idle_s is None else f"last taken {self.idle_s:.0f} s ago"
        behind = f"{more}{counted(self.untaken, 'record')} behind (the last is {self.last}{oldest})"
        where = behind if self.untaken else "with none behind it"
        return f"{self.mdt}: user {self.user} is at record {self.index}, {where}; {idle}"


def standing_of(
    opened: OpenRepository, file: Path, source_of: SourceOf = LustreSource
) -> tuple[list[ChangelogStanding], str]:
    """How each MDT's changelog stands, and why some cannot be read. Nothing is taken or given up."""
    try:
        registered = RegisteredUsers.read(file)
        source = source_of(registered.mount)
    except (OSError, ValueError) as error:
        return [], f"{file}: {reason_of(error)}"
    journal, found, trouble = ChangeJournal(opened.known), [], ""
    for user in registered.users:
        try:
            found.append(_standing(journal, source, user))
        except (OSError, RecordError) as error:
            trouble = f"{user.mdt}: {reason_of(error)}"
    return found, trouble or journal.owed


def _standing(journal: ChangeJournal, source: ChangeSource, user: ChangelogUser) -> ChangelogStanding:
    position = journal.position(user.mdt)
    index = position.read_to if position else user.index
    untaken, last, oldest_ns, now = 0, index, None, time.time()
    for record in source.records(user.mdt, index + 1):
        last = max(last, record.index)
        oldest_ns = record.time_ns if oldest_ns is None else oldest_ns
        untaken += 1
        if untaken >= MOST_COUNTED:
            break
    return ChangelogStanding(
        user.mdt,
        user.user,
        index,
        last,
        untaken,
        None if oldest_ns is None else max(0.0, now - oldest_ns / 1e9),
        None if position is None else max(0.0, now - position.taken_s),
    )
