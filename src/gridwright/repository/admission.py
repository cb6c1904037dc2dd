"""What of a row that a bucket gives becomes a file here: one check, whether manifest or metadata has it.

Whoever can write to the bucket chooses what is in a row, and root makes files of it. So a row is refused,
and named, whose values no file can have, or that is not of its key. Never made are set-user-ID files and
set-group-ID files, set-group-ID directories of a group that no bucket may give, and extended attributes that
give rights (security.capability) or are the system's own.
Who owns a file is within what the spec allows, or the owner of the repository's directory.
"""

from __future__ import annotations

import os
import stat
from dataclasses import replace

from gridwright.repository.extended import encode, of_users
from gridwright.repository.keys import MANIFEST, KeyRefusal, Keys
from gridwright.repository.known_file import KnownFile, why_unfit
from gridwright.repository.object_format import attributes_of, portable_mode, why_no_target
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.store import ObjectHead
from gridwright.units import counted

_BATCH = 1000


class Admission:
    """The check of rows of one repository's bucket."""

    def __init__(self, opened: OpenRepository, report: RepositoryReport, *, is_made: bool = True) -> None:
        """What is refused or changed is in `report`. Owners stay as they are where no files are made."""
        self._keys = opened.keys
        self._ids = opened.settings.ids
        self._owner = opened.owner
        self._report = report
        self._library, self._former = opened.known.state.library, opened.known.former_libraries
        self._gives_away = is_made and os.geteuid() == 0
        self._newer = opened.known.newer
        self._not_given: list[KnownFile] = []
        self.refused = 0

    def admitted(self, row: KnownFile) -> KnownFile | None:
        """The row, changed to what may be made; None for one that is refused, which is named."""
        if reason := why_unfit(row) or why_not_of_its_key(self._keys, row):
            self.refused += 1
            name = row.path if isinstance(row.path, bytes) else ascii(row.path)[:80]
            self._report.problem(name, f"what the bucket says of it is refused: {reason}")
            return None
        uid, gid = self._owners(row)
        mode = portable_mode(row.mode)
        if self._gives_away and not self._ids[0] <= gid <= self._ids[1]:
            # A directory would give files of its users to a group that no bucket may give.
            mode &= ~stat.S_ISGID
        if mode != row.mode:
            self._report.note_of("lost the set-user-ID or set-group-ID bit", row.path, row.mode)
        for each in self._former:
            row.libraries = row.libraries.replace(each, self._library)
        row.mode, row.xattrs = portable_mode(row.mode), self._xattrs(row)
        if (mode, uid, gid) != row.rights[:3] and self._gives_away:
            self._not_given.append(replace(row))
            if len(self._not_given) >= _BATCH:
                self.keep_not_given()
        row.mode, row.uid, row.gid = mode, uid, gid
        return row

    def keep_not_given(self) -> None:
        """Keep what the bucket says of owners that no file here gets, so that no export sends others."""
        self._newer.keep(self._not_given)
        self._not_given.clear()

    def refuse_long(self, count: int) -> None:
        """Refuse rows that were not looked at, since one of their values is longer than any may be."""
        self.refused += count
        self._report.problem(
            MANIFEST,
            f"{counted(count, 'row')} left out: a path, a key or attributes are longer than any written",
        )

    def _owners(self, row: KnownFile) -> tuple[int, int]:
        """Owner and group, each as the row has it where that is allowed, else that of the directory."""
        if not self._gives_away:
            return row.uid, row.gid
        (low, high), (own_uid, own_gid) = self._ids, self._owner
        uid = row.uid if low <= row.uid <= high else own_uid
        gid = row.gid if low <= row.gid <= high else own_gid
        if (uid, gid) != (row.uid, row.gid):
            self._report.note_of(
                "belong to the owner or the group of the repository's directory, since the bucket's is not "
                f"within {low}-{high} (ids of the repository in the grid spec, or --ids)",
                row.path,
                row.mode,
            )
        return uid, gid

    def _xattrs(self, row: KnownFile) -> bytes | None:
        if row.xattrs is None:
            return None
        given, has_others = of_users(row.xattrs)
        if has_others:
            self._report.note_of("lost extended attributes that no bucket may give", row.path, row.mode)
        return encode(given) if given else None


def why_not_of_its_key(keys: Keys, row: KnownFile) -> str | None:
    """Why a row's path is not that of its key; None where it is."""
    is_directory = stat.S_ISDIR(row.mode)
    try:
        key = keys.key_of(row.path, is_directory=is_directory) if row.path else keys.start or None
    except KeyRefusal as refusal:
        return f"its path {refusal.reason}"
    if row.key != key or not (row.path or is_directory):
        return "its key is not that of its path"
    return None


def row_of_head(
    opened: OpenRepository, report: RepositoryReport, admission: Admission, path: bytes, head: ObjectHead
) -> KnownFile | None:
    """The row of an object that the manifest does not know; None for one that is named as no file.

    Raises StoreError where the target of a link cannot be read.
    """
    entry = head.entry
    is_directory = entry.key.endswith("/")
    read = attributes_of(
        head.metadata,
        is_directory=is_directory,
        last_modified_ns=entry.last_modified_ns,
        owner=opened.owner,
    )
    for each in read.problems:
        report.problem(path, each)
    file, target = read.attributes, None
    if file.is_link:
        if (reason := why_no_target(entry.size)) is None:
            target = opened.store.get(entry.key)
            reason = why_no_target(len(target), target)
        if reason:
            report.problem(path, f"its object is that of a symbolic link: {reason}")
            return None
    row = KnownFile(
        path=path, mode=file.mode, uid=file.uid, gid=file.gid, size=entry.size, blocks=-1,
        atime_ns=file.atime_ns, mtime_ns=file.mtime_ns, ctime_ns=0, inode=0, links=1, key=entry.key or None,
        etag=entry.etag, version_id=head.version_id, crc64=head.crc64, target=target, xattrs=None,
        link_of=None, is_name_only=False, stored_ns=entry.last_modified_ns,
    )  # fmt: skip
    return admission.admitted(row)
