"""Changes of a repository on a Lustre whose metadata servers keep changelogs for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.handed_files import parsed_json, read_named
from gridwright.repository.below import relative_directory
from gridwright.repository.changelog.journal import ChangeJournal
from gridwright.repository.changelog.looking import find_all_changes, find_told_changes
from gridwright.repository.changelog.lustre_source import LustreSource
from gridwright.repository.changelog.resolving import PathFinder
from gridwright.repository.changelog.source import ChangelogUser, ChangeSource
from gridwright.repository.changelog.taking import ChangeTaker
from gridwright.repository.settings import OpenRepository, RepositoryReport

_MDT = re.compile(r"[A-Za-z0-9_-]{1,8}-MDT[0-9a-f]{4}")
_USER = re.compile(r"cl[0-9]{1,10}")
_INDEX = re.compile(r"[0-9]{1,18}", re.ASCII)
SourceOf = Callable[[Path], ChangeSource]
_MOST_BYTES = 1 << 20
"""Of a file that says who is registered; there is a line for each MDT."""


@dataclass(frozen=True, slots=True)
class RegisteredUsers:
    """What `gridwright setup` writes on the machine that exports: who is registered for a repository."""

    mount: Path
    """Where the Lustre is mounted."""
    users: Sequence[ChangelogUser]

    @classmethod
    def read(cls, file: Path) -> RegisteredUsers:
        """Raises OSError where the file cannot be read, ValueError where it says something else."""
        found = parsed_json(read_named(file, _MOST_BYTES))
        if not isinstance(found, dict) or not isinstance(found.get("users"), dict):
            raise ValueError("it has no users")
        return cls(Path(_text(found, "mount", re.compile(r"/[^\0]*"))), _users(found["users"]))


def _users(found: dict[str, Any]) -> list[ChangelogUser]:
    return [_user(mdt, about) for mdt, about in sorted(found.items())]


def _user(mdt: str, about: object) -> ChangelogUser:
    if not _MDT.fullmatch(mdt):
        raise ValueError(f"{mdt!a} is no MDT")
    if not isinstance(about, dict):
        raise ValueError(f"nobody is registered at {mdt}")
    return ChangelogUser(mdt, _text(about, "user", _USER), int(_text(about, "index", _INDEX)))


def _text(found: dict[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    value = found.get(name)
    value = str(value) if isinstance(value, int) else value
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"its {name} is {value!a}")
    return value


class RepositoryChanges:
    """What one export asks of changelogs: first to take them, and then what was changed."""

    def __init__(self, opened: OpenRepository, source_of: SourceOf = LustreSource) -> None:
        self._opened = opened
        self._source_of = source_of
        self._journal = ChangeJournal(opened.known)

    def take(self) -> None:
        """Take what changelogs have. It needs no store, so that records never wait for one.

        Whatever is wrong with changelogs, a scan finds what they do not tell.
        """
        try:
            registered = self._registered()
            directory = self._opened.settings.directory
            prefix = relative_directory(directory, registered.mount)
            source = self._source_of(registered.mount)
        except (OSError, ValueError) as error:
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self._journal.owe(f"changelogs cannot be read: {why}")
            return
        finder = PathFinder(source, self._journal, registered.mount, prefix)
        ChangeTaker(self._opened, source, finder, self._journal).take(registered.users)

    def _registered(self) -> RegisteredUsers:
        file = self._opened.settings.changelog
        if file is None:
            raise ValueError("no file says who is registered")
        try:
            return RegisteredUsers.read(file)
        except FileNotFoundError:
            raise ValueError(
                f"{file} is not there: gridwright setup registers a user, and writes it"
            ) from None
        except ValueError as error:
            raise ValueError(f"{file}: {error}; gridwright setup writes it anew") from None

    def find(self, report: RepositoryReport, *, deletions: bool) -> None:
        """Keep as work what an export has to do, of all that changelogs have told or a scan tells."""
        if why := self._journal.owed:
            report.notes.append(f"all files were looked at: {why}")
            find_all_changes(self._opened, self._journal, report, deletions=deletions)
        else:
            count = self._journal.count()
            what = "file or directory" if count == 1 else "files and directories"
            report.notes.append(f"changelogs named {count} {what}")
            find_told_changes(self._opened, self._journal, report, deletions=deletions)
