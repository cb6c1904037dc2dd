"""Where what is known of a repository's directory is kept: where nobody but its user can write.

It says what is to be sent, overwritten and removed, so that it is believed. For root it is below
`/var/lib/gridwright`, never in a library. For other users it is beside the data where they alone write there,
and no other user has made the trash; else below their own state directory (XDG Base Directory Specification).
It stays where it was made: it is refused beside data that others may write by now, and stays at home when a
directory was closed to them, or the trash of another user has gone.

State that is not beside the data could outlive them: a mount that is missing, or a file system made anew, has
the same path. So the directory carries an identifier as an extended attribute, which the state has, too. On
another file system a directory with another one is refused: it may be the mount point of a library that is
not mounted. On the same one it was made anew, and what is known is dropped. Nothing believes the attribute
for more: whoever owns the directory may change it. Users and root see the same one, `user.…`; root takes one
of his own, `trusted.…`, which earlier releases gave him, where the file system keeps no other.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import sqlite3
import stat
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from gridwright.atomic import naming
from gridwright.beneath import DIRECTORY, descriptor_path, is_own
from gridwright.errors import GridwrightError, environment_error
from gridwright.own_directories import state_home
from gridwright.refusals import reason_of
from gridwright.repository.keys import MANIFEST, RESERVED, shown
from gridwright.repository.state_failures import FULL, state_failure
from gridwright.trusted import (
    open_directory,
    open_file,
    read_file,
    untrusted,
    user_name,
    why_untrusted,
    why_untrusted_path,
)

VARIABLE = "GRIDWRIGHT_REPOSITORY_STATE"
"""Another directory for the state of all repositories, for whoever sets it."""
ROOT_STATE = Path("/var/lib/gridwright/repositories")
EMPTYING = "gridwright repo trash with the same NAME or flags and --empty-older-than 0d"
"""What takes `.gridwright` away where nothing but its owner's trash lies in it."""
FILE, LOCK, LIBRARY = "known.sqlite", "lock", "library"
OF_BUCKETS = "known*.sqlite"
"""Data bases of a directory: that of its first bucket, and one for each other (`binding.py`)."""
MIGRATION, UPLOADS = "migration.sqlite", "uploads"
_STEMS = frozenset(each.partition(".")[0] for each in (FILE, LOCK, LIBRARY, MIGRATION, UPLOADS, MANIFEST))
_STEM = re.compile(rb"[a-z]+(?=[.-]|\Z)")
_ATTRIBUTE = "gridwright.directory"
_COPY_S = 30.0


@dataclass(slots=True)
class StateDirectory:
    """An open state directory. Nobody else can write it, or rename what leads to it: paths in it hold."""

    path: Path
    descriptor: int | None
    """None where a command that only looks found none."""
    identity: str | None
    """Of the repository's directory; None where the state is beside the data, or nobody asked for it."""
    note: str | None = None
    """What an older release has left and is not believed, or what was moved."""
    library: str = ""
    """What names the directory on all machines and for all users; empty without extended attributes."""
    others: tuple[str, ...] = ()
    """Identities that root's state of earlier releases may have of the same directory."""
    former: Path | None = None
    """What an older release has left beside the data and is believed: who only looks reads it there."""

    def is_of(self, known: str) -> bool:
        """Whether what is known of an identity is of this directory."""
        return any(is_same_identity(known, each) for each in (self.identity or "", *self.others))

    @property
    def made(self) -> int:
        """The descriptor of a directory that was to be made where it was not."""
        if self.descriptor is None:
            raise ValueError("who looks makes no state")
        return self.descriptor

    def close(self) -> None:
        """Close it."""
        if self.descriptor is not None:
            os.close(self.descriptor)


def is_state_file(name: bytes) -> bool:
    """Whether a file of a state directory has this name, or one beside it, such as a journal of SQLite."""
    found = _STEM.match(name)
    return found is not None and found.group().decode() in _STEMS


def open_state(
    directory: Path, *, identify: bool = False, file: str = FILE, looks: bool = False
) -> StateDirectory:
    """The state directory of a repository's or a library's directory, made where it is not.

    Close it in the end. With `identify`, the directory gets an identifier where it has none. The data base
    `file` that an older release kept beside the data is moved where it can be believed. Who only `looks`
    makes and moves nothing. Raises GridwrightError where the place for it cannot be trusted, or where a
    directory of another file system is known under this path; and OSError.
    """
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        resolved = Path(os.readlink(descriptor_path(opened)))  # noqa: PTH115 - of what is open
        base = _held_base(opened, resolved, looks=looks)
        if base is None:
            beside = _open(RESERVED, opened, _remedy(resolved), looks=looks)
            library = identifier_of(_identity(opened, make=identify and not looks))
            return StateDirectory(resolved / RESERVED, beside, None, library=library)
        path = base / _name(resolved)
        found = StateDirectory(path, _open(path, None, None, looks=looks), None)
        try:
            _identify(opened, found, resolved, make=identify)
            former = _former(opened, resolved, found, file)
            if looks:
                found.identity, found.former = _identity(opened, make=False), former
                found.others = _others(opened, found.identity)
            elif former is not None:
                _move(former, found)
            found.library = identifier_of(found.identity)
        except BaseException as error:
            found.close()
            if isinstance(error, OSError) and error.errno in FULL:
                raise state_failure(error, path / file) from error
            raise
        return found
    finally:
        os.close(opened)


def renew_identity(directory: Path, state: StateDirectory) -> str:
    """Give a directory another identifier: from now on it is another library. Raises OSError."""
    opened = os.open(directory, DIRECTORY)
    try:
        for kind in ("trusted", "user"):
            with suppress(OSError):
                os.removexattr(opened, f"{kind}.{_ATTRIBUTE}")
        identity = _identity(opened, make=True)
        state.library, state.others = identifier_of(identity), ()
        _record(state, identity)
        return identity
    finally:
        os.close(opened)


def made_identity(opened: int) -> str:
    """An identity that an open directory could have, for a dry run."""
    return json.dumps([secrets.token_hex(16), os.fstat(opened).st_ino, os.fstatvfs(opened).f_fsid])


def _open(path: Path | str, directory: int | None, remedy: str | None, *, looks: bool) -> int | None:
    """The descriptor of a directory of state; None where who looks finds none."""
    try:
        return open_directory(path, directory=directory, make=None if looks else 0o700, remedy=remedy)
    except FileNotFoundError:
        if looks:
            return None
        raise


def is_same_identity(one: str, other: str) -> bool:
    """Whether two identities are of one directory: the attribute and the inode tell, else the file system.

    A copy of a directory has its attribute, too, and another inode.
    """
    first, second = _read(one), _read(other)
    if first is None or second is None:
        return False
    if first[0] and second[0]:
        return bool(first[:2] == second[:2])
    return bool(first[1:] == second[1:])


def identifier_of(identity: str | None) -> str:
    """What names a directory on all machines that have it, 32 hexadecimal digits; empty without attributes.

    The file system has another number on each, and a copy of the directory has another inode.
    """
    found = _read(identity) if identity else None
    if found is None or not found[0]:
        return ""
    return hashlib.sha256(json.dumps(found[:2]).encode()).hexdigest()[:32]


def _read(identity: str) -> list[object] | None:
    """Attribute, inode and file system of an identity; None for text that is none."""
    try:
        found = json.loads(identity)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and len(found) == 3 else None


def _identify(opened: int, state: StateDirectory, resolved: Path, *, make: bool) -> None:
    """Hold a directory against what is known of it; with `make`, give it an identity and note that.

    Raises GridwrightError where it is another one, on another file system.
    """
    known, here = _recorded(state), _identity(opened, make=False)
    if known is not None and not any(
        is_same_identity(known, each) for each in (here, *_others(opened, here))
    ):
        first, second = _read(known), _read(here)
        is_copy = first is not None and second is not None and first[0] and first[0] == second[0]
        if first is not None and second is not None and first[2] != second[2] and not is_copy:
            raise environment_error(
                "this is not the directory that is known here, and lies on another file system: it may be "
                "the mount point of one that is not mounted",
                where=str(resolved),
                remedy=f"mount it; if this one is to be used from now on, remove {state.path}",
            )
    if make:
        state.identity = _identity(opened, make=True)
        state.others = _others(opened, state.identity)
        if state.identity != known:
            _record(state, state.identity)


def _recorded(state: StateDirectory) -> str | None:
    """The identity of the directory that this state is of; None where none is noted."""
    if state.descriptor is None:
        return None
    try:
        return read_file(state.descriptor, LIBRARY).decode("ascii", "replace")
    except FileNotFoundError:
        pass
    # Older releases noted it in the data base.
    with suppress(OSError, sqlite3.Error):
        os.close(open_file(state.descriptor, FILE))
        with closing(sqlite3.connect(f"file:{quote(str(state.path / FILE))}?mode=ro", uri=True)) as known:
            row = known.execute("SELECT value FROM facts WHERE name = 'directory'").fetchone()
            return row[0] if row and isinstance(row[0], str) else None
    return None


def _record(state: StateDirectory, identity: str) -> None:
    part = f"{LIBRARY}.{os.getpid()}.part"
    written = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600, dir_fd=state.made)
    try:
        with naming(state.path / LIBRARY):
            os.write(written, identity.encode())
            os.fsync(written)
    finally:
        os.close(written)
    os.rename(part, LIBRARY, src_dir_fd=state.made, dst_dir_fd=state.made)


def _held_base(opened: int, resolved: Path, *, looks: bool) -> Path | None:
    """That of `_base`, made and without links. Raises GridwrightError where it cannot be, or be trusted."""
    try:
        base = _base(opened, resolved)
        if base is None:
            return None
        for make in (False, True):
            if make and not looks:
                _make(base)
            if reason := why_untrusted_path(base):
                raise untrusted(base, reason, f"name a directory of your own with {VARIABLE}")
        return base.resolve()
    except OSError as error:
        raise _no_place(error, opened) from error


def _base(opened: int, resolved: Path) -> Path | None:
    """The directory of the state of all repositories; None where this one's is beside the data."""
    if given := os.environ.get(VARIABLE):
        return Path(given).absolute()
    if os.geteuid() == 0:
        return ROOT_STATE
    at_home = state_home() / "gridwright" / "repositories"
    if os.fstat(opened).st_uid != os.geteuid() or why_untrusted_path(resolved) is not None:
        return at_home
    # What was once made stays in its place when the directory is closed to others, or their trash is gone.
    was_at_home = any((at_home / _name(resolved) / each).exists() for each in (FILE, MIGRATION))
    return at_home if was_at_home or owner_of_another(opened) else None


def owner_of_another(root: int) -> str | None:
    """Whose `.gridwright` of an open directory is, where another user has made it; else None."""
    try:
        status = os.stat(RESERVED, dir_fd=root, follow_symlinks=False)
    except OSError:
        return None
    is_another = stat.S_ISDIR(status.st_mode) and not is_own(status.st_uid)
    return user_name(status.st_uid) if is_another else None


def _no_place(error: OSError, opened: int) -> GridwrightError:
    """The error of state that can be nowhere, with whose `.gridwright` is beside the data."""
    what = f"there is no place for what is known of the repository: {reason_of(error)}"
    remedy = f"name a directory of your own with {VARIABLE}"
    if owner := owner_of_another(opened):
        what += f"; beside the data {RESERVED} belongs to {owner}"
        remedy += f"; or, when nothing in the trash of {owner} is needed, have {owner} run {EMPTYING}"
    return environment_error(what, where=str(error.filename), remedy=remedy)


def _make(base: Path) -> None:
    """Make a directory of state with what leads to it, whatever the umask is."""
    for place in (*reversed(base.parents), base):
        if not place.is_dir():
            with suppress(FileExistsError):
                place.mkdir(mode=0o700 if place == base else 0o755)


def _name(resolved: Path) -> str:
    readable = re.sub(r"[^A-Za-z0-9._-]", "_", resolved.name)[:40].lstrip(".") or "root"
    return f"{readable}-{hashlib.sha256(os.fsencode(resolved)).hexdigest()[:16]}"


def _identity(opened: int, *, make: bool) -> str:
    """What tells a directory from others of its path, as JSON: attribute, inode, file system."""
    roots = _attribute(opened, "trusted") if os.geteuid() == 0 else ""
    attribute = _attribute(opened, "user")
    if make and not attribute:
        attribute = _made(opened, "user", roots) or roots
        if not attribute and os.geteuid() == 0:
            attribute = _made(opened, "trusted", "")
    return _identity_of(opened, attribute or roots)


def _identity_of(opened: int, attribute: str) -> str:
    return json.dumps([attribute, os.fstat(opened).st_ino, os.fstatvfs(opened).f_fsid])


def _others(opened: int, identity: str) -> tuple[str, ...]:
    """The identity by root's own attribute, where that is another one: users had one of their own."""
    roots = _attribute(opened, "trusted") if os.geteuid() == 0 else ""
    found = _identity_of(opened, roots)
    return (found,) if roots and found != identity else ()


def _attribute(opened: int, kind: str) -> str:
    """The attribute of a kind; empty for none, or one that makes no sense."""
    with suppress(OSError):
        found = os.getxattr(opened, f"{kind}.{_ATTRIBUTE}")
        if re.fullmatch(rb"[0-9a-f]{32}", found):
            return found.decode()
    return ""


def _made(opened: int, kind: str, value: str) -> str:
    """Make the attribute, of a value where one is given; empty where it cannot be made, or be written."""
    name = f"{kind}.{_ATTRIBUTE}"
    with suppress(OSError):
        with suppress(OSError):
            os.getxattr(opened, name)
            os.removexattr(opened, name)
        # Another node may be faster.
        with suppress(FileExistsError):
            os.setxattr(opened, name, (value or secrets.token_hex(16)).encode(), os.XATTR_CREATE)
    return _attribute(opened, kind)


def _former(opened: int, resolved: Path, state: StateDirectory, file: str) -> Path | None:
    """What an older release kept beside the data, where nobody else could write it; else name it."""
    if state.descriptor is not None:
        with suppress(FileNotFoundError):
            os.stat(file, dir_fd=state.descriptor)
            return None
    former = resolved / RESERVED / file
    try:
        reason = why_untrusted_path(resolved)
        beside = os.open(RESERVED, DIRECTORY, dir_fd=opened)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            state.note = _left(former, "it is no directory")
        return None
    try:
        try:
            os.stat(file, dir_fd=beside, follow_symlinks=False)
        except OSError:
            return None
        return former if _is_believed(opened, beside, former, state, reason) else None
    finally:
        os.close(beside)


def _is_believed(opened: int, beside: int, former: Path, state: StateDirectory, reason: str | None) -> bool:
    """Whether a file that is there is; `reason` says why its directory is not believed."""
    owner, user = os.fstat(beside).st_uid, os.geteuid()
    if owner not in (0, user):
        # It is that of another user, who goes on with it.
        return False
    if user != 0 and os.environ.get(VARIABLE):
        # It is in use without the variable, and may be so again.
        state.note = f"{shown(os.fsencode(former))} is not used: {VARIABLE} names another directory"
        return False
    if reason is not None and user != 0 and owner == os.fstat(opened).st_uid == user:
        raise _open_to_others(former, reason)
    if reason := reason or why_untrusted(os.fstat(beside)):
        state.note = _left(former, reason)
        return False
    try:
        os.close(open_file(beside, former.name))
    except GridwrightError as error:
        state.note = _left(former, error.problems[0].what)
        return False
    return True


def _open_to_others(former: Path, reason: str) -> GridwrightError:
    library = shown(os.fsencode(former.parent.parent))
    return environment_error(
        f"what is known of this directory is not believed any more, since others may change it: {reason}",
        where=str(former),
        remedy=f"chmod go-w {library}, and it is used again; or remove the file: then what was deleted here "
        "since the last export is not known any more, and an import brings it back",
    )


def _move(former: Path, state: StateDirectory) -> None:
    """Move a data base of an older release that no command works with. Raises GridwrightError, OSError."""
    lock = os.open(former.parent / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _move_held(former, state)
        state.note = f"{shown(os.fsencode(former))} of an older release was moved to {state.path}"
    except sqlite3.Error as error:
        state.note = _left(former, str(error))
    except BlockingIOError:
        raise environment_error(
            "a command of an older release works on this directory",
            where=str(former),
            remedy="wait until it has ended",
        ) from None
    finally:
        os.close(lock)


def _move_held(former: Path, state: StateDirectory) -> None:
    part = state.path / f"{former.name}.{os.getpid()}.part"
    with closing(sqlite3.connect(former, timeout=_COPY_S)) as source, closing(sqlite3.connect(part)) as copy:
        source.backup(copy)
    part.rename(state.path / former.name)
    for name in (former.name, f"{former.name}-journal", LOCK):
        (former.parent / name).unlink(missing_ok=True)
    with suppress(OSError):
        former.parent.rmdir()


def _left(former: Path, reason: str) -> str:
    return (
        f"{shown(os.fsencode(former))} is of an older release and was left, since it is not to be believed "
        f"({reason}): what it knew is found out anew. What was deleted here since the last export is not "
        "known any more, and an import brings it back: delete that again then"
    )


def _remedy(resolved: Path) -> str:
    return f"remove {shown(os.fsencode(resolved / RESERVED))}: manifest and files make it anew"
