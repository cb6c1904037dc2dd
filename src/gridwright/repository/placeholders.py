"""Files without content that earlier releases made where nothing holds back who reads them: they go.

Such a file has the size of its object, and gives zeros to whoever reads it. The first command that changes
something looks for them by their attribute, once: one that nobody has changed goes, and its row says that it
is in the bucket alone. A directory that was closed to users gets its permissions back in the end.

What the user may not read he could not remove either: it is passed over, and each verb names it as its own
problem. Who may read it later sends no zeros (`sending.refuse_without_content`).
"""

from __future__ import annotations

import errno
import json
import os
import stat

from gridwright.beneath import change_xattr
from gridwright.refusals import reason_of
from gridwright.repository.below import at as path_at
from gridwright.repository.content import open_for_reading
from gridwright.repository.extended import read_xattrs
from gridwright.repository.file_locks import HoldsForAll, lock_of, take_lease
from gridwright.repository.known_file import KnownFile
from gridwright.repository.object_format import portable_mode
from gridwright.repository.references import FileState, StateError, attribute_name, read_state
from gridwright.repository.settings import OpenRepository
from gridwright.repository.walking import walk_below

FACT = "no placeholders"
_CLOSED = "trusted.gridwright.closed"
_ABSENT = frozenset({errno.ENODATA, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOENT, errno.EPERM})


def remove_placeholders(opened: OpenRepository) -> tuple[int, list[tuple[bytes, str]]]:
    """Remove them; how many, and those that could not be, with why not.

    Raises OSError where the walk cannot be begun, and GridwrightError where a Lustre's released files cannot
    be told from them.
    """
    if opened.known.fact(FACT) == "1":
        return 0, []
    removed, problems = 0, list[tuple[bytes, str]]()
    attribute = attribute_name()
    for walked, troubles in walk_below(opened.below.root):
        problems += [
            (each.path, each.why) for each in troubles if not (each.is_left_out or each.errno == errno.EACCES)
        ]
        for path in [each.path for each in walked if stat.S_ISREG(each.st_mode)]:
            try:
                directory, name = opened.below.parent(path)
                if not _has(directory, name, attribute):
                    continue
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            except OSError as error:
                problems.append((path, f"whether it has content here cannot be seen: {error.strerror}"))
                continue
            try:
                why = _remove(opened, directory, name, path)
            except OSError as error:
                why = f"it has no content here, and cannot be removed: {reason_of(error)}"
            removed += why is None
            if why:
                problems.append((path, why))
    opened.known.flush()
    if not problems:
        _open_again(opened.below.root)
        opened.known.set_fact(FACT, "1")
    return removed, problems


def _remove(opened: OpenRepository, directory: int, name: bytes, path: bytes) -> str | None:
    """Remove a file if it is one, and nobody has changed it; why not. Raises OSError."""
    descriptor = open_for_reading(name, directory)
    try:
        try:
            state = read_state(descriptor)
        except StateError as error:
            return f"its attribute cannot be read: {error}"
        if state is None or not state.is_name_only:
            return ""
        if opened.is_guarded and opened.released_names.is_released(descriptor):
            return ""
        if lock_of(descriptor).lock is HoldsForAll.KERNEL and not take_lease(descriptor):
            return "it has no content here, and is open; run the command again when it is not"
        status = os.fstat(descriptor)
        if not state.is_unchanged(status):
            return (
                "it was written to before its content was here, and what was not written is zeros: take what "
                "you need of it, remove it, and import it"
            )
        row = opened.known.get(path) or _row_of(path, status, state, read_xattrs(descriptor))
        opened.known.put(row.not_here())
        # Before the file goes: else its object would be that of a file that somebody has deleted.
        opened.known.flush()
        os.unlink(name, dir_fd=directory)
    finally:
        os.close(descriptor)
    return None


def _row_of(path: bytes, status: os.stat_result, state: FileState, xattrs: bytes | None) -> KnownFile:
    """What a placeholder says of its object, where the state of the repository was lost."""
    reference = state.reference
    return KnownFile(
        path=path, mode=portable_mode(status.st_mode), uid=status.st_uid, gid=status.st_gid,
        size=status.st_size, blocks=-1, atime_ns=status.st_atime_ns, mtime_ns=status.st_mtime_ns,
        ctime_ns=0, inode=0, links=1,
        key=reference.key, etag=reference.etag, version_id=reference.version_id, crc64=state.crc64,
        target=None, xattrs=xattrs, link_of=None, is_name_only=True,
    )  # fmt: skip


def _open_again(root: int) -> None:
    """Give a directory that was closed to users what it had. Raises OSError."""
    try:
        value = json.loads(os.getxattr(root, _CLOSED))
    except OSError as error:
        if error.errno in _ABSENT:
            return
        raise
    if stat.S_IMODE(os.fstat(root).st_mode) == 0:
        os.fchown(root, value["uid"], value["gid"])
        os.fchmod(root, value["mode"])
    change_xattr(root, _CLOSED, None)
    os.fsync(root)


def _has(directory: int, name: bytes, attribute: str) -> bool:
    try:
        os.getxattr(path_at(directory, name), attribute, follow_symlinks=False)
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        raise
    return True
