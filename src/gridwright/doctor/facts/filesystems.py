"""What a node sees of file systems: mounts that hold data, libraries, and the health of those of the spec."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from gridwright.beneath import owner_of
from gridwright.doctor.facts.node_facts import LibraryFacts, MountFacts
from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.mounts import TARGETS, describe_mount, is_closed, is_served, unescaped
from gridwright.trusted import user_name

_PREFIX = ".gridwright-check-"
LEFT_S = 60.0
"""A look ends after seconds: a file of one that is older was left behind."""
_MOST_ENTRIES = 20_000
"""Names that are looked through for such files."""
_HELD, _FREE, _BROKEN = 0, 1, 2


def library(path: Path) -> LibraryFacts:
    """Look at a library; one empty file is made in it, and its name removed at once. Raises OSError."""
    if not path.is_dir():
        path.stat()
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(path))
    mount = describe_mount(path)
    status = os.statvfs(path)
    refused, off = _written(path)
    owner = path.stat()
    return LibraryFacts(
        str(path),
        refused=refused,
        reader=user_name(os.geteuid()) if refused and is_closed(path) else None,
        is_roots=owner_of(owner) == 0 and not owner.st_mode & (stat.S_IWGRP | stat.S_IWOTH),
        read_only=bool(status.f_flag & os.ST_RDONLY),
        filesystem_type=mount.filesystem_type,
        source=mount.source,
        mount_point=mount.mount_point,
        device=mount.device,
        options=mount.options,
        total_bytes=mount.total_bytes,
        available_bytes=mount.available_bytes,
        inodes=status.f_files or None,
        inodes_free=status.f_favail if status.f_files else None,
        file_times_off_s=off,
    )


def _written(path: Path) -> tuple[str | None, float | None]:
    """Why no file can be made; where one can, how far its time is from this node's clock, in seconds."""
    before = time.time()
    try:
        with _nameless(path) as (file, _):
            made, after = os.fstat(file).st_mtime, time.time()
    except OSError as error:
        return error.strerror, None
    # File systems keep whole seconds, or the time of the last tick of the clock.
    return None, min(made - before + 1.0, 0.0) + max(made - after, 0.0)


@contextmanager
def _nameless(path: Path) -> Iterator[tuple[int, int]]:
    """A new file that is open twice and has no name any more.

    The name goes before anything asks for data or attributes: with a storage target of Lustre away these
    hang, while names are the metadata server's.
    """
    name = path / f"{_PREFIX}{time.time():.0f}-{os.urandom(6).hex()}"
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    with ExitStack() as opened:
        first = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o600)
        opened.callback(os.close, first)
        try:
            second = os.open(name, flags)
            opened.callback(os.close, second)
        finally:
            name.unlink()
        yield first, second


def remove_left(path: Path) -> int:
    """Remove files that looks which were killed have left in a library, and say how many there were.

    Those of others that look right now are kept: they are younger than LEFT_S. Raises OSError.
    """
    removed = 0
    with os.scandir(path) as entries:
        for entry in islice(entries, _MOST_ENTRIES):
            if entry.name.startswith(_PREFIX) and _made_s(entry) < time.time() - LEFT_S:
                with suppress(OSError):
                    Path(entry.path).unlink()
                    removed += 1
    return removed


def _made_s(entry: os.DirEntry[str]) -> float:
    """When a file was made, in seconds since 1970: by its name; of older releases, by its times."""
    named = re.fullmatch(r"(\d{1,12})-[0-9a-f]+", entry.name.removeprefix(_PREFIX))
    return float(named[1]) if named else entry.stat(follow_symlinks=False).st_ctime


def locks(path: Path) -> dict[str, str | None]:
    """Whether flock(2) and fcntl(2) locks exclude others on this node; an error's text where they do not."""
    return {"flock": _excludes(path, _flock), "fcntl": _excludes(path, _fcntl)}


def _flock(file: int) -> None:
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _fcntl(file: int) -> None:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _excludes(path: Path, lock: Callable[[int], None]) -> str | None:
    """Take a lock, and have another process try the same; None where it is kept out."""
    try:
        with _nameless(path) as (file, second):
            lock(file)
            other = os.fork()
            if other == 0:
                _try(second, lock)
            outcome = os.waitstatus_to_exitcode(os.waitpid(other, 0)[1])
    except OSError as error:
        return error.strerror or str(error)
    if outcome == _FREE:
        return "two processes hold it at the same time"
    return None if outcome == _HELD else "a second process cannot try it"


def _try(file: int, lock: Callable[[int], None]) -> None:
    """In another process, by an open of its own: by the holder's it would be the holder."""
    outcome = _BROKEN
    try:
        lock(file)
        outcome = _FREE
    except OSError as error:
        outcome = _HELD if error.errno in (errno.EACCES, errno.EAGAIN) else _BROKEN
    finally:
        os._exit(outcome)


_TABLE = Path("/proc/self/mountinfo")
_MOST = 64
"""Mounts that are looked at; a node with more is one of many small ones."""
_IMAGES = frozenset({"squashfs", "iso9660", "erofs", "cramfs"})
"""Images that are full and read-only by nature."""
_KERNELS_OWN = ("/sys", "/dev", "/run", "/proc")
"""Where a tmpfs holds no data of users."""


def mounted() -> list[MountFacts]:
    """Every mount of a disk or a server, once; reads the kernel's table and touches none of them."""
    return data_mounts(_TABLE.read_text(errors="replace").splitlines())


def data_mounts(lines: Iterable[str]) -> list[MountFacts]:
    """Out of lines of /proc/self/mountinfo (proc(5)): the first mount of each device, in order.

    Mounts of one Lustre have one number (client_common_fill_super of lustre/llite/llite_lib.c), and each its
    own options: of what servers serve the first one with the same options counts.
    """
    facts: dict[tuple[str, str], MountFacts] = {}
    devices = set()
    for line in lines:
        words = line.split()
        if "-" not in words[6:]:
            continue
        kind, source, options = (*words[words.index("-", 6) + 1 :], "", "", "")[:3]
        point = unescaped(words[4])
        if not _holds_data(kind, source) or (kind == "tmpfs" and point.startswith(_KERNELS_OWN)):
            continue
        shown = ",".join(sorted({*words[5].split(","), *options.split(",")} - {""}))
        if words[2] in devices and not (is_served(kind) and words[3] == "/"):
            continue
        devices.add(words[2])
        facts.setdefault(
            (words[2], shown),
            MountFacts(
                point, unescaped(source), kind, shown, local=not is_served(kind) and kind not in TARGETS
            ),
        )
    return list(facts.values())[:_MOST]


def _holds_data(kind: str, source: str) -> bool:
    if kind in _IMAGES:
        return False
    return is_served(kind) or kind in ("zfs", "btrfs", "tmpfs") or source.startswith("/dev/")


def with_usage(mount: MountFacts) -> MountFacts:
    """A mount with its room and inodes (statvfs(3)). May hang. Raises OSError."""
    status = os.statvfs(mount.mount_point)
    return replace(
        mount,
        total_bytes=status.f_blocks * status.f_frsize,
        available_bytes=status.f_bavail * status.f_frsize,
        used_bytes=(status.f_blocks - status.f_bfree) * status.f_frsize,
        inodes=status.f_files or None,
        inodes_free=status.f_favail if status.f_files else None,
    )


_TOLD_OTHERWISE = frozenset(
    {
        *("filesystem-full", "filesystem-inodes", "filesystem-not-mounted", "filesystem-silent"),
        *("filesystem-read-only", "raid-broken", "raid-degraded", "raid-rebuilding"),
        *("nfs-rsize-small", "nfs-wsize-small", "nfs-local-locks"),
    }
)
"""Findings that checks of libraries, places, disks and settings have under their own names."""
HEALTH_S = 12.0
"""How long a file system may take to tell how it is: servers are slower than disks."""
_OF_REPOSITORIES = ("hsm_archives", "changelog_users")
CANNOT_LOOK = "what looks at file systems was brought to this node for another Python"
"""Beginning of the reason where a node has no more than the part of Gridwright that was brought to it."""


@dataclass(frozen=True, slots=True)
class ClientHealth:
    """A file system as a client of it sees it."""

    findings: list[Finding]
    away: dict[str, str] | None = None
    """As Health has it."""


def health(described: Mapping[str, Any]) -> ClientHealth:
    """What is wrong with a file system, given as in the grid spec. Raises OSError where it cannot be asked.

    What is not told within HEALTH_S is left out, and said to be; ends within LATE_S after it. `hsm_archives`
    among the values are the archives of its repositories, and `changelog_users` the names that they are
    registered under.
    """
    from gridwright.commands import CommandSilent, run_here
    from gridwright.filesystems import kind_of
    from gridwright.filesystems.health import INCOMPLETE, RunWithin, TimeUp, incomplete
    from gridwright.filesystems.kind import Changelogs, LazyLoad

    try:
        from gridwright.spec.filesystem import FILESYSTEMS
    except ImportError as error:
        raise OSError(errno.ENOSYS, f"{CANNOT_LOOK}: {error}") from error
    try:
        archives = described.get("hsm_archives", ())
        users = described.get("changelog_users", ())
        fields = {name: each for name, each in described.items() if name not in _OF_REPOSITORIES}
        filesystem = FILESYSTEMS.get(described["type"]).spec_model.model_validate(fields)
        kind, path = kind_of(filesystem), str(filesystem.path)
        run = RunWithin(run_here, time.monotonic() + HEALTH_S)
        found = kind.health(filesystem, run, path)
        told = list(found.findings) if found else []
        try:
            # What hung there would hang here.
            whole = all(each.name != INCOMPLETE for each in told)
            if whole and archives and isinstance(kind, LazyLoad):
                told += kind.copytool_findings(filesystem, run, path, archives)
            if whole and isinstance(kind, Changelogs):
                told += kind.changelog_findings(filesystem, run, path, users)
        except (TimeUp, CommandSilent) as why:
            told.append(incomplete(why))
    except (ValueError, GridwrightError, TimeUp) as error:
        # A kind of a site's own package may be missing on a node.
        raise OSError(errno.EIO, str(error)) from error
    away = found.away if found else None
    # A library that hangs follows from what is away, so that it is not told: then this is.
    hidden = _TOLD_OTHERWISE - {"filesystem-silent"} if away else _TOLD_OTHERWISE
    return ClientHealth([finding for finding in told if finding.name not in hidden], away)
