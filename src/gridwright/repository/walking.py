"""Walks through the files below a directory, by threads of the native part: each name with its status.

The directory `.gridwright` of a library is known again, whatever name it has by now.
Whoever owns the directory that it lies in may rename it, and may give its name to another directory of the
same user. So its name, owner and mode prove nothing. Its maker puts a mark into it, where nobody else writes:
a directory without one is not believed, and one with it is never exported, wherever it lies.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from gridwright._native import TreeWalk, WalkedFile
from gridwright.beneath import DIRECTORY, Beneath, descriptor_path, is_own, make_private, open_own
from gridwright.repository.below import PART, is_part, is_there, same_times
from gridwright.repository.keys import RESERVED, TRASH
from gridwright.repository.state_directory import EMPTYING, is_state_file, owner_of_another
from gridwright.trusted import user_name

__all__ = [
    "FileStatus",
    "TreeWalk",
    "UnreadDirectory",
    "WalkedFile",
    "is_own_path",
    "is_storable",
    "walk_below",
]

MARK = b".gridwright-mark"
IS_RENAMED = (
    f"it is {RESERVED}, with the trash, under another name: nothing of it is exported, and no command "
    f"empties it; rename it to {RESERVED} again"
)
_OWN = RESERVED.encode()
_NOT_USABLE = frozenset({errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.ESTALE})
_MOVE_AWAY = "nothing can go to the trash; see who put it there, and move it out of the library"
_AS_ROOT = "as root: nothing of it is lost so"
_SQLITE = b"SQLite format 3\0"
"""How a data base begins (SQLite, Database File Format)."""
FileStatus: TypeAlias = os.stat_result | WalkedFile
"""What `os.stat` says of a file, and what the native walk does, under the same names."""
RENAMED = -1
"""In place of an errno: the directory is `.gridwright` under another name."""
THREADS = 8
"""More than cores: on a network each question for a status is a round trip."""
_PATIENCE_S = 0.2
"""How long a signal may wait."""


@dataclass(frozen=True, slots=True)
class UnreadDirectory:
    """A directory that was not walked through."""

    path: bytes
    errno: int | None
    """Why it could not be read; None where another file system is mounted there, or `RENAMED`."""

    @property
    def is_left_out(self) -> bool:
        """Whether it is none of the tree's own, rather than one that failed."""
        return self.errno in (None, RENAMED)

    @property
    def why(self) -> str:
        """For people."""
        if self.errno == RENAMED:
            return IS_RENAMED
        if self.errno is None:
            return "another file system is mounted there, and left out"
        if self.errno == errno.ENAMETOOLONG:
            return "its path is longer than 16 KiB: what lies in it is left out"
        return f"the directory cannot be read: {os.strerror(self.errno)}"


def walk_below(
    root: int,
    chosen: Sequence[bytes] = (),
    *,
    waiting: Callable[[TreeWalk], None] = lambda _walk: None,
    left_out: Callable[[bytes, WalkedFile], None] | None = None,
) -> Iterator[tuple[list[WalkedFile], list[UnreadDirectory]]]:
    """Everything below an open directory in batches, each directory before what lies in it.

    Gridwright's own files are left out, and so are other file systems. `waiting` is called each time that
    nothing has come for a moment, and `left_out` for each such file. Raises OSError where the walk cannot be
    begun.
    """
    skipped = (PART, _OWN) if left_out is None else (b"", b"")
    walk, renamed = TreeWalk(root, list(chosen), *skipped, THREADS), _Renamed(root)
    try:
        while (batch := walk.next(_PATIENCE_S)) is not None:
            files, troubles = renamed.taken_out(*batch)
            if left_out is not None:
                for each in [each for each in files if is_own_path(each.path)]:
                    left_out(each.path, each)
                files = [each for each in files if not is_own_path(each.path)]
                troubles = [each for each in troubles if each[1] == RENAMED or not is_own_path(each[0])]
            if files or troubles:
                yield files, [UnreadDirectory(path, why) for path, why in troubles]
            else:
                waiting(walk)
    finally:
        walk.stop()
        renamed.close()


class _Renamed:
    """Takes out of a walk what is `.gridwright` of a library by its mark, under any other name."""

    def __init__(self, root: int) -> None:
        self._below = Beneath(Path(descriptor_path(root)))
        self._found: tuple[bytes, ...] = ()

    def close(self) -> None:
        """Close what is open."""
        self._below.close()

    def taken_out(
        self, files: list[WalkedFile], troubles: list[tuple[bytes, int | None]]
    ) -> tuple[list[WalkedFile], list[tuple[bytes, int | None]]]:
        """A batch without them and all below them, where each is a trouble."""
        new = []
        for each in files:
            is_own = (
                stat.S_ISDIR(each.st_mode)
                and may_be_reserved(each.st_uid, each.st_mode)
                and each.path != _OWN
            )
            if is_own and not each.path.startswith(self._found or b"\0") and self._is_marked(each.path):
                new.append(each.path)
                self._found = (*self._found, each.path + b"/")
        if not self._found:
            return files, troubles
        files = [each for each in files if not (each.path + b"/").startswith(self._found)]
        troubles = [each for each in troubles if not (each[0] + b"/").startswith(self._found)]
        # One that is called so belongs to another repository, of a directory below this one.
        return files, [*troubles, *((path, RENAMED) for path in new if path.rpartition(b"/")[2] != _OWN)]

    def _is_marked(self, path: bytes) -> bool:
        try:
            return is_reserved(self._below.parent(path + b"/.")[0])
        except OSError:
            return False


def parts_below(root: int, fits: Callable[[bytes], bool]) -> list[WalkedFile]:
    """Gridwright's own files whose names fit, each directory before what lies in it.

    What cannot be read is left out. Raises OSError where the walk cannot be begun.
    """
    found = list[WalkedFile]()

    def note(path: bytes, status: WalkedFile) -> None:
        if fits(path.rpartition(b"/")[2]):
            found.append(status)

    for _ in walk_below(root, left_out=note):
        pass
    return sorted(found, key=lambda each: each.path)


def is_own_path(path: bytes) -> bool:
    """Whether a path is Gridwright's own, or of a file that is not whole yet, as a scan leaves them out."""
    if _OWN not in path:
        return False
    names = path.split(b"/")
    return names[0] == _OWN or any(map(is_part, names))


def is_storable(mode: int) -> bool:
    """Whether a mode is that of what objects are made of: files, directories and symbolic links."""
    return stat.S_IFMT(mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)


class ReservedUnusable(OSError):
    """`.gridwright`, or the trash in it, is no directory of this user alone; the text says what helps."""


def open_reserved(root: int, *, make: bool, marks: bool = False) -> int:
    """Open `.gridwright` of an open directory; with `make`, made where it is not.

    One of a release that gave no mark is believed where nothing lies in it but what Gridwright puts there,
    and gets it with `make` or `marks`. Raises OSError: ReservedUnusable where it is another user's, or
    something else has its name.
    """
    if make and not is_there(root, _OWN):
        with suppress(FileExistsError), same_times(root):
            made = make_private(root, _OWN)
            try:
                _mark(made)
            finally:
                os.close(made)
    if why := _why_of_another(root):
        raise ReservedUnusable(errno.ESTALE, why, RESERVED)
    opened = open_usable(root, RESERVED)
    try:
        if not is_there(opened, MARK):
            names = map(os.fsencode, os.listdir(opened))  # noqa: PTH208 - of a descriptor
            if not all(map(_is_usual, names)):
                raise ReservedUnusable(
                    errno.ESTALE, f"another directory has the name {RESERVED}: {_MOVE_AWAY}", RESERVED
                )
            if make or marks:
                with suppress(OSError):
                    _mark(opened)
    except BaseException:
        os.close(opened)
        raise
    return opened


def open_usable(directory: int, name: str, place: str = "") -> int:
    """Open a directory by its name in an open one, for this user alone; `place` is its path for people.

    Raises OSError: ReservedUnusable where something else has the name, or other users can write it.
    """
    place = place or name
    try:
        return open_own(name, directory=directory)
    except OSError as error:
        if error.errno not in _NOT_USABLE:
            raise
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            why = f"{place} is a symbolic link: {_MOVE_AWAY}"
        elif not stat.S_ISDIR(status.st_mode):
            why = f"{place} is no directory: {_MOVE_AWAY}"
        else:
            why = (
                f"{place} belongs to {user_name(status.st_uid)} and has mode {status.st_mode & 0o7777:04o}: "
                f"look who put what into it, and have its owner run chmod 0700 {place} in the library"
            )
        raise ReservedUnusable(errno.ESTALE, why, place) from error


def _why_of_another(root: int) -> str | None:
    """Whose `.gridwright` of an open directory is, and what helps; None where it is this user's, or none."""
    owner = owner_of_another(root)
    if owner is None:
        return None
    is_planted, has_state = _seen_in(root)
    if is_planted:
        return f"{RESERVED} belongs to {owner}, and has what is no repository's: {_MOVE_AWAY}, {_AS_ROOT}"
    helps = f"or, when nothing in it is needed, have {owner} run {EMPTYING}"
    if has_state:
        helps = f"since what {owner} knows of the repository lies there, too, and is to stay"
    return (
        f"{RESERVED} belongs to {owner}, who alone sees what lies in its trash and moves files there: run "
        f"this as {owner}, {helps}; where {owner} runs no such commands here, move it out of the library, "
        f"{_AS_ROOT}"
    )


def _seen_in(root: int) -> tuple[bool, bool]:
    """Whether `.gridwright` has what no repository puts there, and whether it has a data base of state.

    As far as this user sees: root does, and has no state there. The name of a data base alone is none.
    """
    with suppress(OSError):
        opened = os.open(_OWN, DIRECTORY, dir_fd=root)
        try:
            names = [os.fsencode(each) for each in os.listdir(opened)]  # noqa: PTH208 - of a descriptor
            return not all(map(_is_usual, names)), any(_is_database(opened, each) for each in names)
        finally:
            os.close(opened)
    return False, False


def _is_usual(name: bytes) -> bool:
    return name in (MARK, TRASH.encode()) or is_state_file(name)


def _is_database(directory: int, name: bytes) -> bool:
    """Whether a file of state is a data base of SQLite."""
    if not is_state_file(name):
        return False
    opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        return stat.S_ISREG(os.fstat(opened).st_mode) and os.read(opened, len(_SQLITE)) == _SQLITE
    finally:
        os.close(opened)


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

    def __init__(self, directory: Path) -> None:
        """As `Beneath`."""
        super().__init__(directory)
        self.planned_away = set[bytes]()
        """What a dry run would have removed: it is not there."""
        self.names_away = Counter[int]()
        """How many names of a file, by its inode, a dry run would have removed or given to other files."""

    def links(self, status: os.stat_result) -> int:
        """How many names a file has; in a dry run those that it would have by then."""
        return status.st_nlink - self.names_away[status.st_ino]

    def status(self, path: bytes) -> os.stat_result | None:
        """As `Beneath.status`."""
        return None if path in self.planned_away else super().status(path)

    def _enter(self, step: bytes, *, make: bool) -> None:
        if self.planned_away and b"/".join((*self._names, step)) in self.planned_away:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(step))
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
