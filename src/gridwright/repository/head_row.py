"""What is known of a file by its object alone, where the manifest says nothing of it."""

from __future__ import annotations

from gridwright.repository.admission import Admission
from gridwright.repository.known_file import KnownFile
from gridwright.repository.object_format import attributes_of, is_target
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.store import ObjectHead


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
        target = opened.store.get(entry.key) if entry.size <= 1 << 16 else b""
        if not is_target(target):
            report.problem(path, "its object is a symbolic link, and has no target")
            return None
    row = KnownFile(
        path=path, mode=file.mode, uid=file.uid, gid=file.gid, size=entry.size, blocks=-1,
        atime_ns=file.atime_ns, mtime_ns=file.mtime_ns, ctime_ns=0, inode=0, links=1, key=entry.key or None,
        etag=entry.etag, version_id=head.version_id, crc64=head.crc64, target=target, xattrs=None,
        link_of=None, is_name_only=False, stored_ns=entry.last_modified_ns,
    )  # fmt: skip
    return admission.admitted(row)
