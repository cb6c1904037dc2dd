"""The directory `.gridwright` of a library, known again whatever name it has by now.

Whoever owns the directory that it lies in may rename it, and may give its name to another directory of the
same user. So its name, owner and mode prove nothing. Its maker puts a mark into it, where nobody else writes:
a directory without one is not believed, and one with it is never exported, wherever it lies.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from gridwright.beneath import DIRECTORY, Beneath, is_own, make_private, open_own
from gridwright.repository.below import is_there, same_times
from gridwright.repository.keys import RESERVED, TRASH
from gridwright.repository.state_directory import EMPTYING, is_state_file, owner_of_another

MARK = b".gridwright-mark"
IS_RENAMED = (
    f"it is {RESERVED}, with the trash, under another name: nothing of it is exported, and no command "
    f"empties it; rename it to {RESERVED} again"
)
_OWN = RESERVED.encode()


class ReservedOfAnother(OSError):
    """`.gridwright` is another user's, who alone can move anything to its trash."""


def open_reserved(root: int, *, make: bool, marks: bool = False) -> int:
    """Open `.gridwright` of an open directory; with `make`, made where it is not.

    One of a release that gave no mark is believed where nothing lies in it but what Gridwright puts there,
    and gets it with `make` or `marks`. Raises OSError: ESTALE where another directory has its name,
    ReservedOfAnother where it is another user's.
    """
    if make and not is_there(root, _OWN):
        with suppress(FileExistsError), same_times(root):
            made = make_private(root, _OWN)
            try:
                _mark(made)
            finally:
                os.close(made)
    try:
        opened = open_own(_OWN, directory=root)
    except OSError as error:
        if why := why_of_another(root):
            raise ReservedOfAnother(errno.ESTALE, why, RESERVED) from error
        raise
    try:
        if not is_there(opened, MARK):
            names = map(os.fsencode, os.listdir(opened))  # noqa: PTH208 - of a descriptor
            if not all(name == TRASH.encode() or is_state_file(name) for name in names):
                raise OSError(errno.ESTALE, f"another directory has the name {RESERVED}", RESERVED)
            if make or marks:
                with suppress(OSError):
                    _mark(opened)
    except BaseException:
        os.close(opened)
        raise
    return opened


def why_of_another(root: int) -> str | None:
    """Whose `.gridwright` of an open directory is, and what helps; None where it is this user's, or none."""
    owner = owner_of_another(root)
    if owner is None:
        return None
    helps = f"or, when nothing in it is needed, have {owner} run {EMPTYING}"
    if _has_state(root):
        helps = f"since what {owner} knows of the repository lies there, too, and is to stay"
    return (
        f"{RESERVED} belongs to {owner}, who alone sees what lies in its trash and moves files there: run "
        f"this as {owner}, {helps}"
    )


def _has_state(root: int) -> bool:
    """Whether state lies in `.gridwright`, as far as this user sees: root does, and has none there."""
    with suppress(OSError):
        opened = os.open(_OWN, DIRECTORY, dir_fd=root)
        try:
            return any(is_state_file(os.fsencode(name)) for name in os.listdir(opened))  # noqa: PTH208
        finally:
            os.close(opened)
    return False


def remove_reserved(root: int) -> None:
    """Remove `.gridwright` where nothing but its mark lies in it. Raises OSError where it stays."""
    with same_times(root):
        own = open_reserved(root, make=False, marks=True)
        try:
            if os.listdir(own) != [os.fsdecode(MARK)]:  # noqa: PTH208
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), RESERVED)
            os.unlink(MARK, dir_fd=own)
            try:
                os.rmdir(_OWN, dir_fd=root)
            except OSError:
                # Another thread or node has put something there.
                _mark(own)
                raise
        finally:
            os.close(own)


def may_be_reserved(uid: int, mode: int) -> bool:
    """Whether a directory is closed to all but its owner, who is the user of this process."""
    return is_own(uid) and not mode & 0o077


def is_reserved(directory: int) -> bool:
    """Whether an open directory was made as `.gridwright` of a library. Raises OSError."""
    status = os.fstat(directory)
    return may_be_reserved(status.st_uid, status.st_mode) and is_there(directory, MARK)


class LibraryFiles(Beneath):
    """What lies beneath a library's directory; nobody enters `.gridwright` under another name."""

    def _enter(self, step: bytes, *, make: bool) -> None:
        super()._enter(step, make=make)
        if self._names == [_OWN]:
            return
        try:
            if is_reserved(self._here()):
                raise OSError(errno.EPERM, IS_RENAMED, os.fsdecode(b"/".join(self._names)))
        except OSError:
            self.refresh()
            raise


def renamed_at_top(root: int) -> list[bytes]:
    """Names in an open directory of what has the mark of `.gridwright`, and another name. Raises OSError.

    It lies nowhere else: only root may move root's directory into another one (rename(2), EACCES).
    """
    found = []
    with os.scandir(root) as entries:
        names = [os.fsencode(each.name) for each in entries if each.is_dir(follow_symlinks=False)]
    for name in names:
        with suppress(OSError):
            opened = os.open(name, DIRECTORY, dir_fd=root)
            try:
                if name != _OWN and is_reserved(opened):
                    found.append(name)
            finally:
                os.close(opened)
    return sorted(found)


def _mark(directory: int) -> None:
    os.close(os.open(MARK, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory))
