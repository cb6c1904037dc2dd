"""A repository on a modelled Lustre, whose exports are noted and leave no bucket."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from gridwright.repository.changelog.changes import RepositoryChanges
from gridwright.repository.changelog.journal import ChangeJournal
from gridwright.repository.known_file import KnownFile
from gridwright.repository.object_format import portable_mode
from gridwright.repository.scan import find_changes
from gridwright.repository.settings import OpenRepository, RepositoryReport, RepositorySettings
from tests.support.changelog_model import LustreModel
from tests.unit.repository.test_many_objects import ListedStore

REPOSITORY = b"results"
Work = list[tuple[bytes, str]]


class ChangelogSite:
    """A Lustre, and a repository in one of its directories whose exports leave no bucket."""

    def __init__(self, place: Path, mdts: int = 1) -> None:
        mount = place / "lustre"
        (mount / "results").mkdir(parents=True)
        (mount / "elsewhere").mkdir()
        self.lustre = LustreModel(mount, mdts)
        self.file = place / "changelog.json"
        self.register()

    def register(self) -> None:
        """What the set-up of the grid does, for all MDTs anew."""
        users = {mdt: {"user": log.register(), "index": log.index} for mdt, log in self.lustre.logs.items()}
        self.file.write_text(json.dumps({"mount": str(self.lustre.mount), "users": users}))

    def user(self, mdt: str = "scratch-MDT0000") -> str:
        return str(json.loads(self.file.read_text())["users"][mdt]["user"])

    @contextlib.contextmanager
    def opened(self) -> Iterator[OpenRepository]:
        directory = self.lustre.mount / "results"
        about = RepositorySettings("archive", directory, "s3://site-sas/prod", changelog=self.file)
        opened = OpenRepository.open(about, ListedStore(0), alone=False)  # type: ignore[arg-type]
        try:
            yield opened
        finally:
            opened.close()

    def scanned(self, deletions: bool) -> Work:
        """What a scan finds."""
        with self.opened() as opened:
            find_changes(opened, (), RepositoryReport("archive", "export"), deletions=deletions)
            return sorted((path, action) for path, action, _, _ in opened.known.work())

    def holds_nothing_back(self, journal: ChangeJournal) -> None:
        """No record is kept for us that was taken."""
        for mdt, log in self.lustre.logs.items():
            position = journal.position(mdt)
            if position is not None and position.user in log.users:
                assert log.users[position.user] == position.read_to

    def existing(self) -> list[bytes]:
        """All files and directories, but for those that have to stay."""
        top = os.fsencode(self.lustre.mount)
        found = [place + b"/" + each for place, names, files in os.walk(top) for each in names + files]
        paths = [each[len(top) + 1 :] for each in found]
        return sorted(each for each in paths if b"/" in each and b".gridwright" not in each)

    def export(
        self,
        deletions: bool = False,
        meanwhile: Callable[[], None] = lambda: None,
        fails: Callable[[bytes], bool] = lambda _path: False,
        compares: bool = True,
    ) -> str:
        """Find what was changed, hold it to what a scan finds, and note all of it as exported; what it said.

        `meanwhile` happens after changelogs were taken. What `fails` is as it was.
        """
        report = RepositoryReport("archive", "export")
        with self.opened() as opened:
            changes = RepositoryChanges(opened, lambda _mount: self.lustre)
            changes.take()
            self.holds_nothing_back(ChangeJournal(opened.known))
            meanwhile()
            changes.find(report, deletions=deletions)
            found = sorted((path, action) for path, action, _, _ in opened.known.work())
            if compares and not any(log.held_back for log in self.lustre.logs.values()):
                assert found == self.scanned(deletions)
            for path, action in found:
                if not fails(path):
                    _settle(opened, path, action)
        (note,) = [each for each in report.notes if "changelogs named" in each or "all files" in each]
        return note


def _settle(opened: OpenRepository, path: bytes, action: str) -> None:
    """What the end of an export does for one path."""
    status = opened.below.status(path)
    if "deleted" in action:
        opened.known.forget(path)
    elif status is not None:
        opened.known.put(_row(opened, path, status), settles=True)


def _row(opened: OpenRepository, path: bytes, status: os.stat_result) -> KnownFile:
    is_directory = stat.S_ISDIR(status.st_mode)
    directory, name = opened.below.parent(path) if path else (opened.below.root, b".")
    target = os.readlink(name, dir_fd=directory) if stat.S_ISLNK(status.st_mode) else None
    return KnownFile(
        path=path, mode=portable_mode(status.st_mode), uid=status.st_uid, gid=status.st_gid,
        size=0 if is_directory else status.st_size, blocks=0, atime_ns=0, mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns, inode=status.st_ino, links=status.st_nlink, key="key", etag="etag",
        version_id=None, crc64=None, target=target, xattrs=None, link_of=None, is_name_only=False,
    )  # fmt: skip
