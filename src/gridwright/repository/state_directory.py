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

**A library that was set back to a snapshot** has an older serial than what is known of it.
Each command that notes something of files gives the library's directory a higher serial, before its first
row and after its last one, and notes it, too. A snapshot has that of its time. Of a library that was set back
nothing that is known holds: what was made since would be taken for removed, and old content for an edit. So
its directory gets another identifier, and is another library with the same bucket from then on: files and
objects are compared anew, both sides stay, and where they differ they are named (`publishing.py`).

The serial is an extended attribute of the directory, one for each state, so that machines that share a
library have one each. It is on disk before what is known has it: after a kill the library's is the newer one.

**Uploads in parts that have not ended** cost until they are aborted.
There is a line for each that is begun, and one more when it has ended. The lines of a command that was killed
say what to abort. Nothing else is aborted: a bucket has uploads of other programs, too. Where these lines are
lost, a rule of the bucket (AbortIncompleteMultipartUpload) has to do.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import sqlite3
import stat
import threading
from contextlib import closing, suppress
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from gridwright.atomic import naming
from gridwright.beneath import DIRECTORY, change_xattr, descriptor_path, is_own
from gridwright.errors import GridwrightError, environment_error
from gridwright.own_directories import state_home, temporary_directory
from gridwright.refusals import reason_of
from gridwright.repository.keys import MANIFEST, RESERVED, bucket_of, prefix_of, shown
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


def copy_of(state: StateDirectory, file: str) -> sqlite3.Connection:
    """A copy of a data base of a state directory, for this process alone; empty where there is none.

    It is a temporary file of SQLite's own. Raises GridwrightError, OSError and sqlite3.Error.
    """
    copy = sqlite3.connect("", isolation_level=None)
    source = _source(state, file)
    try:
        if source is not None:
            with closing(_readable(source)) as found:
                found.backup(copy)
    except sqlite3.OperationalError:
        _copy_with_journal(source or state.path, copy)
    return copy


def facts_of(directory: Path, bucket_url: str) -> dict[str, str] | None:
    """The facts of a directory and a bucket, as the last command has left them; None where none has.

    Of buckets of one name and several stores it is the one that was worked on last. What cannot be read is
    none, either: commands that work on it say why.
    """
    place = f"{bucket_of(bucket_url)}/{prefix_of(bucket_url).strip('/')}"
    found: list[tuple[int, dict[str, str]]] = []
    with suppress(GridwrightError, OSError, sqlite3.Error):
        state = open_state(directory, looks=True)
        try:
            for name in sorted({FILE, *(each.name for each in state.path.glob(OF_BUCKETS))}):
                if (source := _source(state, name)) is not None:
                    with closing(_readable(source)) as database:
                        rows = database.execute("SELECT name, value FROM facts").fetchall()
                    facts = {str(name): str(value) for name, value in rows}
                    if facts.get("bucket", f"/{place}").partition("/")[2] == place:
                        found.append((source.stat().st_mtime_ns, facts))
        finally:
            state.close()
    return max(found, key=itemgetter(0), default=(0, None))[1]


def _source(state: StateDirectory, file: str) -> Path | None:
    """Where a data base is read; None for none. Raises GridwrightError and OSError."""
    if state.former is not None and state.former.name == file:
        return state.former
    if state.descriptor is None:
        return None
    try:
        os.close(open_file(state.descriptor, file))
    except FileNotFoundError:
        return None
    return state.path / file


def _readable(source: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True, timeout=_COPY_S)


def _copy_with_journal(file: Path, copy: sqlite3.Connection) -> None:
    """Copy a data base that a killed command has left: SQLite settles that only where it may write."""
    place = temporary_directory("gridwright-look-")
    parts = [place / file.name, place / f"{file.name}-journal"]
    try:
        for part in parts:
            with suppress(FileNotFoundError):
                shutil.copyfile(file.with_name(part.name), part)
        with closing(sqlite3.connect(parts[0])) as found:
            found.backup(copy)
    finally:
        for part in parts:
            part.unlink(missing_ok=True)
        place.rmdir()


_ID, _SERIAL = "serial of", "serial"
_KINDS = ("trusted", "user")


class SerialStore(Protocol):
    """What is known of a library, in a data base of its state: of a repository, or of a migration."""

    directory: Path
    looks: bool
    state: StateDirectory
    database: sqlite3.Connection
    set_back: str
    """What follows for the user where the library was set back."""

    def fact(self, name: str) -> str | None:
        """A fact; None or nothing where there is none."""

    def set_fact(self, name: str, value: str) -> None:
        """Note a fact."""

    def begin_anew(self, identity: str) -> None:
        """Forget all, which was of another directory."""


def check_serial(known: SerialStore, root: int) -> None:
    """Forget all of a library that was set back, whose open directory is `root`, and say so.

    Who only looks does so for itself alone.
    """
    noted = known.fact(_SERIAL)
    if not noted or not identifier_of(known.state.identity):
        return
    here = _read_serial(root, known.fact(_ID) or "")
    if here >= int(noted):
        return
    bucket = known.fact("bucket")
    known.state.identity = (
        made_identity(root) if known.looks else renew_identity(known.directory, known.state)
    )
    known.state.library, known.state.others = identifier_of(known.state.identity), ()
    known.begin_anew(known.state.identity)
    if bucket:
        known.set_fact("bucket", bucket)
    known.state.note = (
        f"{known.directory} was set back to an earlier state (serial {here}, where {noted} is known): all "
        f"is compared anew, as of another library; {known.set_back}"
    )


def advance(known: SerialStore, root: int) -> None:
    """Give the library a higher serial, and note it. Where it takes none, nothing is noted."""
    if known.looks or not identifier_of(known.state.identity):
        return
    name = known.fact(_ID)
    if not name:
        name = secrets.token_hex(8)
        known.set_fact(_ID, name)
    # No other command of this state comes in between: the library would have an older one than is known.
    known.database.execute("BEGIN IMMEDIATE")
    try:
        serial = max(int(known.fact(_SERIAL) or 0), _read_serial(root, name)) + 1
        if _write(root, name, serial):
            statement = "INSERT OR REPLACE INTO facts VALUES (?, ?)"
            known.database.execute(statement, (_SERIAL, str(serial)))
    except BaseException:
        if known.database.in_transaction:
            known.database.execute("ROLLBACK")
        raise
    known.database.execute("COMMIT")


def _read_serial(root: int, name: str) -> int:
    """The highest serial that the library has for a state; 0 for none."""
    found = [0]
    for kind in _KINDS:
        with suppress(OSError, ValueError):
            found.append(int(os.getxattr(root, _serial_attribute(kind, name))))
    return max(found)


def _write(root: int, name: str, serial: int) -> bool:
    """Write it, and wait until it is on disk; whether the library takes it."""
    for kind in _KINDS:
        with suppress(OSError):
            change_xattr(root, _serial_attribute(kind, name), str(serial).encode())
            os.fsync(root)
            return True
    return False


def _serial_attribute(kind: str, name: str) -> str:
    return f"{kind}.gridwright.serial.{name}"


_MOST = 64 << 20
"""Bytes of the file that are read: about 300,000 uploads."""


class UploadJournal:
    """The lines of one repository, in an open state directory. Any thread may write."""

    def __init__(self, directory: int) -> None:
        """Open it. Raises GridwrightError, OSError."""
        self._file: int | None = open_file(directory, UPLOADS, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()

    def begin(self, place: str, key: str, upload_id: str) -> None:
        """Note one that was begun, in a bucket of a store (`place`). Raises OSError."""
        self._write([place, key, upload_id])

    def end(self, upload_id: str) -> None:
        """Note that the store has nothing of it any more. Raises OSError."""
        self._write([upload_id])

    def _write(self, line: list[str]) -> None:
        # A kill loses nothing that the kernel has. A thread may be late, and nobody waits for it.
        with self._lock:
            if self._file is not None:
                os.write(self._file, json.dumps(line).encode() + b"\n")

    def left(self, place: str) -> list[tuple[str, str]]:
        """Keys and identifiers of uploads to a bucket of a store that did not end. Raises OSError.

        Another store may have a bucket of that name, and says of these that they are not there.
        """
        return [(key, upload_id) for where, key, upload_id in self._left() if where == place]

    def _left(self) -> list[tuple[str, str, str]]:
        found: dict[str, tuple[str, str, str]] = {}
        for line in os.pread(self._opened, _MOST, 0).splitlines():
            # Of a full disk's last line there may be a part alone.
            with suppress(ValueError, TypeError):
                *where, upload_id = json.loads(line)
                found.pop(upload_id, None)
                if len(where) == 2:
                    found[upload_id] = where[0], where[1], upload_id
        return list(found.values())

    def shorten(self) -> None:
        """Begin anew where nothing is left of any bucket. Raises OSError."""
        if not self._left():
            os.ftruncate(self._opened, 0)

    def close(self) -> None:
        """Close it."""
        with self._lock:
            opened, self._file = self._opened, None
        os.close(opened)

    @property
    def _opened(self) -> int:
        if self._file is None:
            raise ValueError("it is closed")
        return self._file
