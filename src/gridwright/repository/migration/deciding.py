"""Decides what becomes of a name of the source: from its status, its row, and what is in the library."""

from __future__ import annotations

import os
import stat
from enum import Enum

from gridwright.repository.file_clock import bounded_ns
from gridwright.repository.migration.journal import MigratedFile
from gridwright.repository.walking import FileStatus


class MigrationDecision(Enum):
    """What to do, or why nothing is done."""

    SAME = "nothing has changed"
    COPY = "the source is new or has changed"
    COMPARE = "the contents tell"
    DIRECTORY = "it is a directory"
    LINK = "it is another name of a file"
    CHANGED_HERE = "it was changed here, and the source was not"
    CHANGED_ON_BOTH_SIDES = (
        "it was changed at the source and here, and not overwritten (removed, it is copied)"
    )
    STRANGER = "something else is here already; it was not overwritten (move it away, and it is copied)"
    AGAIN = "a directory is here, and the source has none; --cut-over removes what the source no longer has"
    EXCHANGED = "another directory is here than the migration made or met; it was left as it is"
    OF_ANOTHER = (
        "another directory is at the source than before; this one stays closed while it holds files of that"
        " one (--cut-over removes what the migration has made of them)"
    )
    SOCKET = "nobody listens to a copy of it"


def decide(source: FileStatus, row: MigratedFile | None, here: os.stat_result | None) -> MigrationDecision:
    """What to do about a name; `here` is None where the library has none. Hard links are not looked at."""
    if stat.S_ISSOCK(source.st_mode):
        return MigrationDecision.SOCKET
    if stat.S_ISDIR(source.st_mode):
        is_free = here is None or stat.S_ISDIR(here.st_mode)
        is_ours = row is not None and here is not None and row.is_of_migration(here, source)
        return MigrationDecision.DIRECTORY if is_free or is_ours else MigrationDecision.STRANGER
    if here is None:
        return MigrationDecision.COPY
    return _beside_stranger(source, here) if row is None else _beside(source, row, here)


def may_dress(
    source: FileStatus, row: MigratedFile | None, here: os.stat_result, writers: set[int | None]
) -> bool:
    """Whether a directory that is here may get the attributes of its source, and copies.

    It is that of an earlier pass, or nobody else can have put it there: `writers` are who may rename what
    others have on the way to it.
    """
    if row is not None and row.inode == here.st_ino:
        return True
    trusted = {0, os.geteuid()}
    if row is not None and not row.inode:
        # A pass that was killed has made it, and nobody else could enter it since.
        return here.st_uid in trusted and not here.st_mode & 0o077
    if here.st_uid == source.st_uid:
        # Whoever exchanges directories of his own gives nobody anything.
        trusted.add(here.st_uid)
    return here.st_uid in trusted and writers <= trusted


def is_replaced(source: FileStatus, row: MigratedFile | None) -> bool:
    """Whether a directory that is here may hold what came from another one of the source.

    Who may rename directories there gives another owner to what the library has, otherwise.
    """
    if row is None:
        return False
    return row.source_inode != source.st_ino or (row.is_begun and row.inode != 0)


def _beside_stranger(source: FileStatus, here: os.stat_result) -> MigrationDecision:
    is_alike = (stat.S_IFMT(here.st_mode), here.st_size) == (stat.S_IFMT(source.st_mode), source.st_size)
    return (
        MigrationDecision.COMPARE
        if is_alike and not stat.S_ISDIR(here.st_mode)
        else MigrationDecision.STRANGER
    )


def _beside(source: FileStatus, row: MigratedFile, here: os.stat_result) -> MigrationDecision:
    if stat.S_ISDIR(here.st_mode) and stat.S_ISDIR(row.mode):
        return MigrationDecision.AGAIN
    if not row.is_of_migration(here, source):
        return (
            MigrationDecision.CHANGED_HERE
            if row.is_same_source(source)
            else MigrationDecision.CHANGED_ON_BOTH_SIDES
        )
    if row.is_same_source(source):
        return MigrationDecision.SAME
    same = (row.source_size, row.source_mtime_ns) == (source.st_size, bounded_ns(source.st_mtime_ns))
    same = same and stat.S_IFMT(row.mode) == stat.S_IFMT(source.st_mode)
    return MigrationDecision.COMPARE if same else MigrationDecision.COPY
