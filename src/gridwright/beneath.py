"""Files beneath a directory that other users may write: reached, changed and removed by descriptor.

Whoever may write a directory may put a symbolic link where a file was, at any moment. So nothing here is done
by a path: each name on the way is opened without following links, and owner, mode, times and extended
attributes are set on what is open. The walk admits what openat2(2) admits with RESOLVE_BENEATH and
RESOLVE_NO_SYMLINKS, and no other file system: a user may mount one of his own over a directory of his (FUSE),
which says what he likes of owners and inodes. It also works on kernels before 5.6 (Red Hat 8), and keeps some
directories open for the next name.

Nodes run this file without the rest of Gridwright, with Python 3.9 and newer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a directory is opened that must not be a symbolic link."""
_PIN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_IMPLIED_MODE = 0o755
OWNERS_OF_ROOT = frozenset({0, 65_534})
"""Whose root's files are: on an export with root_squash those of nobody, by default (exports(5))."""
_DEEPEST = 100
"""Open directories while a tree is removed: deeper ones are moved up first, so that no tree is too deep."""
_ROUNDS = 50
_LEVELS = 8
"""Directories that one walk keeps open: many walks fit into the usual limit of 1,024 descriptors."""


class Beneath:
    """Opens what lies beneath a directory. One thread uses it."""

    def __init__(self, directory: Path) -> None:
        """Raises OSError where it is no directory. The path to it is the caller's, and is followed."""
        self.directory = directory
        self.root = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._device = os.fstat(self.root).st_dev
        # Where the last walk went; of its directories the last ones are open.
        self._names: list[bytes] = []
        self._met: list[os.stat_result] = []
        self._opened: list[int] = []

    def __enter__(self) -> Beneath:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all that is open."""
        self._leave(0)
        os.close(self.root)

    def parent(self, path: bytes, *, make: bool = False, inodes: Sequence[int] = ()) -> tuple[int, bytes]:
        """The open directory that a path lies in, and its name there; valid until the next call.

        With `make`, directories that are missing are made. `inodes` are those of the directories on the way,
        the outermost first, 0 for one that is not known. Raises OSError: EXDEV where the path leads out of
        the directory or another file system is mounted on the way; ENOTDIR or ELOOP where something else than
        a directory is there; ESTALE where it is another directory than is known.
        """
        *names, name = path.split(b"/")
        if b".." in (*names, name) or b"" in names or b"\0" in path:
            raise OSError(errno.EXDEV, "the path leads out of the directory", os.fsdecode(path))
        if names != self._names:
            same = 0
            while same < min(len(names), len(self._names)) and names[same] == self._names[same]:
                same += 1
            self._leave(same)
            for step in names[len(self._names) :]:
                self._enter(step, make=make)
        met = zip(self._met, inodes)  # noqa: B905 - Python 3.9
        if inodes and any(inode not in (0, status.st_ino) for status, inode in met):
            self._leave(0)
            raise OSError(errno.ESTALE, "another directory has come in its place", os.fsdecode(path))
        return self._here(), name

    def _here(self) -> int:
        return self._opened[-1] if self._opened else self.root

    def _enter(self, step: bytes, *, make: bool) -> None:
        here = self._here()
        if make:
            with suppress(FileExistsError):
                os.mkdir(step, _IMPLIED_MODE, dir_fd=here)
        opened = os.open(step, DIRECTORY, dir_fd=here)
        try:
            self._met.append(status_within(here, opened, b"/".join((*self._names, step))))
        except OSError:
            os.close(opened)
            raise
        self._opened.append(opened)
        self._names.append(step)
        if len(self._opened) > _LEVELS:
            os.close(self._opened.pop(0))

    def status(self, path: bytes) -> os.stat_result | None:
        """The status of what a path names, not followed; None where nothing is there.

        Raises OSError: EXDEV, with its path, where another file system is mounted there or on the way.
        """
        if not path:
            return os.fstat(self.root)
        try:
            directory, name = self.parent(path)
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if status.st_dev != (self._met[-1].st_dev if self._met else self._device):
                descriptor = os.open(name, _PIN, dir_fd=directory)
                try:
                    return status_within(directory, descriptor, path)
                finally:
                    os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status

    def writers(self, path: bytes) -> set[int | None]:
        """Users who may rename what others have on the way to a path; None stands for more than the owners.

        Raises OSError.
        """
        self.parent(path)
        writers: set[int | None] = set()
        for status in (os.fstat(self.root), *self._met):
            writers.add(status.st_uid)
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX:
                writers.add(None)
        return writers

    def refresh(self) -> None:
        """Forget which directories are open: something was renamed or removed."""
        self._leave(0)

    def _leave(self, depth: int) -> None:
        """Go up to a depth; to the root, where the directory there is open no more."""
        first = len(self._names) - len(self._opened)
        if depth <= first:
            depth = 0
        for descriptor in self._opened[max(0, depth - first) :]:
            os.close(descriptor)
        del self._opened[max(0, depth - first) :], self._names[depth:], self._met[depth:]


def status_within(directory: int, opened: int, path: bytes | str) -> os.stat_result:
    """The status of what was opened in an open directory. Raises OSError: EXDEV where it is mounted there.

    Files of one overlay may have several devices; directories of another device are left out by walks, too.
    """
    status = os.fstat(opened)
    if status.st_dev != os.fstat(directory).st_dev and (
        stat.S_ISDIR(status.st_mode) or _mount_of(opened) != _mount_of(directory)
    ):
        raise OSError(errno.EXDEV, "another file system is mounted there", os.fsdecode(path))
    return status


def _mount_of(descriptor: int) -> str:
    """The number of the mount that an open file was reached by (mnt_id in proc(5))."""
    with open(f"/proc/self/fdinfo/{descriptor}") as facts:  # noqa: PTH123 - of a descriptor
        return next((line for line in facts if line.startswith("mnt_id:")), "")


def fuse_user(device: int) -> int | None:
    """The number of the user who mounted the FUSE file system of this device; None for any other device.

    mountinfo of proc(5); `user_id` of fuse_show_options in fs/fuse/inode.c. Raises OSError.
    """
    # Only root has one on a block device (fuseblk).
    if os.major(device):
        return None
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        fields = line.split(" ")
        kind = fields[fields.index("-") + 1]
        if fields[2] == f"0:{os.minor(device)}" and kind.partition(".")[0] == "fuse":
            options = dict(each.partition("=")[::2] for each in fields[-1].split(","))
            return int(options.get("user_id", "0"))
    return None


def owner_of(status: os.stat_result) -> int:
    """The number of the user whose a file or directory is: on FUSE whoever mounted it. Raises OSError."""
    user = fuse_user(status.st_dev)
    return status.st_uid if user in (None, 0) else user


def make_private(directory: int, name: bytes) -> int:
    """Make a directory, in an open one, that nobody else may enter; its descriptor.

    Raises OSError: FileExistsError where the name is taken, ESTALE where another has come in its place, or
    the file system gives what is made there another owner or mode.
    """
    os.mkdir(name, 0o700, dir_fd=directory)
    made = os.open(name, DIRECTORY, dir_fd=directory)
    status = os.fstat(made)
    if owner_of(status) != os.geteuid() or status.st_mode & 0o077:
        os.close(made)
        raise _not_own(status, name)
    return made


def _not_own(status: os.stat_result, path: str | bytes | os.PathLike[str]) -> OSError:
    """The error of a directory that is not this user's alone: whose it is, with its mode."""
    try:
        owner = pwd.getpwuid(owner_of(status)).pw_name
    except KeyError:
        owner = str(owner_of(status))
    name = os.fsdecode(path)
    why = f"directory {name} belongs to {owner} and has mode {stat.S_IMODE(status.st_mode):04o}"
    return OSError(errno.ESTALE, why, name)


def open_own(path: str | bytes | os.PathLike[str], *, directory: int | None = None) -> int:
    """Open a directory, by a path or by a name in an open one, that this user made and nobody else can write.

    Its own name is not followed. Raises OSError: ESTALE where it is another user's, or others can write it.
    """
    try:
        opened = os.open(path, DIRECTORY, dir_fd=directory)
    except PermissionError:
        status = os.stat(path, dir_fd=directory, follow_symlinks=False)
        if status.st_uid == os.geteuid():
            raise
        raise _not_own(status, path) from None
    status = os.fstat(opened)
    if not is_own(owner_of(status)) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.close(opened)
        raise _not_own(status, path)
    return opened


def is_own(uid: int) -> bool:
    """Whether what a user number owns is of the user of this process."""
    return uid in (OWNERS_OF_ROOT if os.geteuid() == 0 else {os.geteuid()})


class PrivateDirectory:
    """A new directory that its maker alone may enter, in one that others write; removed with `close`.

    What is made in it gets content, owner and mode before another user can open or exchange it, and is
    renamed out of it then. One thread uses it.
    """

    def __init__(self, directory: int, name: bytes) -> None:
        """Make it in an open directory. Raises OSError: ESTALE where another has come in its place."""
        self.descriptor = make_private(directory, name)
        self._name = name
        self.parent = os.dup(directory)

    def close(self) -> None:
        """Remove it, where nothing is in it."""
        os.close(self.descriptor)
        with suppress(OSError):
            os.rmdir(self._name, dir_fd=self.parent)
        os.close(self.parent)


@contextmanager
def pinned(directory: int, name: bytes | str, expected: os.stat_result | None = None) -> Iterator[int]:
    """A descriptor (O_PATH) of what has a name in an open directory: also of a link, a device or a pipe.

    Raises OSError: ESTALE where `expected` is another file, or one of another type; EXDEV where another file
    system is mounted there.
    """
    descriptor = os.open(name, _PIN, dir_fd=directory)
    try:
        status = status_within(directory, descriptor, name)
        if expected is not None and not is_same_file(status, expected):
            raise OSError(errno.ESTALE, "another file has come in its place", os.fsdecode(name))
        yield descriptor
    finally:
        os.close(descriptor)


def is_same_file(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether two are one inode of one type."""
    return (one.st_dev, one.st_ino, stat.S_IFMT(one.st_mode)) == (
        other.st_dev,
        other.st_ino,
        stat.S_IFMT(other.st_mode),
    )


def descriptor_path(descriptor: int) -> str:
    """A path of the open file itself, for calls that take none with O_PATH; a link is not followed.

    proc(5): names in /proc/self/fd lead to the open file, whatever its name means by now.
    """
    return f"/proc/self/fd/{descriptor}"


def change_owner(descriptor: int, uid: int, gid: int) -> None:
    """Give an open or pinned file to a user and a group (-1 leaves one). Raises OSError."""
    os.chown(descriptor_path(descriptor), uid, gid)


def change_mode(descriptor: int, mode: int) -> None:
    """Set the permissions of an open or pinned file. Raises OSError, also for a link, which has none."""
    os.chmod(descriptor_path(descriptor), mode)  # noqa: PTH101 - what is pinned has no fchmod


def change_times(descriptor: int, atime_ns: int, mtime_ns: int) -> None:
    """Set the times of an open or pinned file, in ns since 1970. Raises OSError."""
    os.utime(descriptor_path(descriptor), ns=(atime_ns, mtime_ns))


def change_xattr(descriptor: int, name: str, value: bytes | None) -> None:
    """Set an extended attribute of an open or pinned file; None takes it away. Raises OSError."""
    if value is None:
        os.removexattr(descriptor_path(descriptor), name)
    else:
        os.setxattr(descriptor_path(descriptor), name, value)


def remove_tree(place: str | bytes | os.PathLike[str], *, directory: int | None = None) -> bool:
    """Remove a directory with all in it, also what was made unwritable; returns whether it is gone.

    `place` is one name in the open `directory`, or a path whose directory is followed and whose last name is
    not: a link of that name, or a file, stays. No link beneath it is followed. What comes into it meanwhile
    may keep it.
    """
    head, name = os.path.split(os.fsencode(place).rstrip(b"/"))
    try:
        parent = os.open(head or b".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        with suppress(OSError):
            _remove(parent, name)
        return not _is_there(parent, name)
    finally:
        os.close(parent)


@dataclass(frozen=True)
class OwnDirectory:
    """An open directory of the user who runs this, by a name in an open one."""

    path: Path
    descriptor: int
    parent: int

    def remove(self, beat: Callable[[], object] = lambda: None) -> bool:
        """Remove it with all in it; returns whether it is gone. `beat` is called after each name in it."""
        empty_directory(self.descriptor, beat)
        with suppress(OSError):
            os.rmdir(self.path.name, dir_fd=self.parent)
        return not _is_there(self.parent, os.fsencode(self.path.name))


def own_directories(place: Path, prefix: str) -> Iterator[OwnDirectory]:
    """Directories of the user who runs this whose names begin with a prefix, each open until the next.

    Whoever may write the place may give such a name to anything, also to another directory of one's own: what
    proves one is a file in it (`trusted.read_file`). What others may write is left out, and so are theirs.
    """
    try:
        parent = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        for name in sorted(each for each in os.listdir(parent) if each.startswith(prefix)):  # noqa: PTH208
            try:
                opened = os.open(name, DIRECTORY, dir_fd=parent)
            except OSError:
                continue
            try:
                status = os.fstat(opened)
                is_own = owner_of(status) == os.geteuid()
                if is_own and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    yield OwnDirectory(place / name, opened, parent)
            finally:
                os.close(opened)
    finally:
        os.close(parent)


def empty_directory(directory: int, beat: Callable[[], object] = lambda: None) -> bool:
    """Remove all in an open directory, as `remove_tree` does; returns whether nothing is left.

    `beat` is called after each name.
    """
    for _ in range(_ROUNDS):
        # What lies deep comes up, and is removed in the next round.
        _empty(directory, directory, 0, beat)
        if not os.listdir(directory):
            return True
    return False


def _remove(parent: int, name: bytes) -> None:
    opened = _opened_directory(parent, name)
    try:
        empty_directory(opened)
    finally:
        os.close(opened)
    os.rmdir(name, dir_fd=parent)


def _opened_directory(parent: int, name: bytes) -> int:
    """Open a directory so that it can be emptied, by whoever owns it. Raises OSError."""
    with pinned(parent, name) as pin:
        status = os.fstat(pin)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "it is no directory", os.fsdecode(name))
        if status.st_mode & 0o700 != 0o700:
            with suppress(OSError):
                change_mode(pin, 0o700)
        return os.open(descriptor_path(pin), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _empty(directory: int, top: int, depth: int, beat: Callable[[], object]) -> None:
    """Remove what can be removed; where a tree is deep, its lower part is moved into `top`."""
    for name in map(os.fsencode, os.listdir(directory)):
        with contextlib.suppress(OSError):
            if not stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=directory)
                beat()
                continue
            opened = _opened_directory(directory, name)
            try:
                if depth == _DEEPEST:
                    os.rename(
                        name, b"." + secrets.token_hex(16).encode(), src_dir_fd=directory, dst_dir_fd=top
                    )
                    continue
                _empty(opened, top, depth + 1, beat)
            finally:
                os.close(opened)
            os.rmdir(name, dir_fd=directory)


def _is_there(directory: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
