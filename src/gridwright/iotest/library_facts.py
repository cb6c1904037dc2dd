"""A library as the node that tests it sees it: what lies below, who else uses it, what failed calls mean.

`--engine direct` and an empty page cache of the library's own files leave that cache as it is: what was
just written can be read from it, however the test reads.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gridwright.bounded import Hangs, call_bounded
from gridwright.errors import Finding, Problem
from gridwright.filesystems.mounts import OF_THE_KERNEL, LibraryMount, describe_mount
from gridwright.interference.counters import stack
from gridwright.interference.heartbeat import announcement
from gridwright.interference.judge import disturbances
from gridwright.interference.presence import Presence
from gridwright.interference.watch import LoadWatch
from gridwright.iotest.options import LibraryTarget
from gridwright.iotest.outcome import Failure, Mismatch
from gridwright.iotest.scratch import remove_stale
from gridwright.runs.load_record import NodeLoad
from gridwright.runs.phase_record import PhaseRecord
from gridwright.units import format_bytes

_NAMED = 6
"""Directories that one message names."""
LOOK_S = 3.0
"""For a file system that answers; the test tells of one that hangs."""


def describe_library(target: LibraryTarget) -> tuple[LibraryMount, list[Finding]]:
    """What lies below a library, and what is to be said of it. Raises OSError if it is no directory."""
    path = Path(target.path)
    if not path.is_dir():
        path.stat()
        raise NotADirectoryError(20, "not a directory", str(path))
    mount = describe_mount(path)
    return mount, list(_remarks(target, mount))


_NO_DIRECTORY = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Errors of a path that is mistyped; others come from the file system."""


def mistyped(target: LibraryTarget) -> Problem | None:
    """Why a path cannot be a library whatever its file system does; None where the test has to tell.

    Looks in a child process, as the path may be on a mount that hangs.
    """
    try:
        kind = call_bounded(partial(_kernel_type, target.path), LOOK_S)
    except Hangs:
        return None
    except OSError as error:
        if error.errno not in _NO_DIRECTORY:
            return None
        return os_error_problem(
            error, library=target.library, path=target.path, doing="looking for the directory"
        )
    if kind not in OF_THE_KERNEL:
        return None
    what = f"library {target.library}: {kind} shows what the kernel knows, and keeps no files"
    return Problem(what, where=target.path, remedy="give a directory on a disk or a parallel file system")


def _kernel_type(path: str) -> str:
    if not Path(path).is_dir():
        Path(path).stat()
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", path)
    return describe_mount(Path(path)).filesystem_type


def _remarks(target: LibraryTarget, mount: LibraryMount) -> list[Finding]:
    found = []
    if mount.memory_backed:
        found.append(
            Finding(
                "warning",
                "memory-backed",
                f"library {target.library} lies on {mount.filesystem_type}, memory: "
                "reads are marked cached and do not count, and its files are gone after a restart",
                "test a directory on a disk or a parallel file system",
            )
        )
    if mount.served_over_network:
        found.append(
            Finding(
                "info",
                "server-cache",
                f"{mount.filesystem_type} has caches in its servers, which no client can see or empty",
                "make all files together larger than the servers' memory: raise --size or --streams",
            )
        )
    found += host_file_findings(target.library, host_files(mount.device))
    return found


def tidied(target: LibraryTarget) -> list[Finding]:
    """Remove what killed tests of this host left, and name it. Raises OSError."""
    return [
        Finding(
            "info",
            "stale-removed",
            f"a killed test had left {leftover.directory} ({format_bytes(leftover.bytes)}): removed",
            "nothing to do",
        )
        for leftover in remove_stale(Path(target.path))
    ]


def reading_set_finding(files: int, directory: Path | str, size: int) -> Finding:
    """Tell of a kept set of files that is read."""
    return Finding(
        "info",
        "kept-set",
        f"reading the {files} files kept in {directory} ({format_bytes(size)})",
        f"remove them when you no longer need them: rm -r {shlex.quote(str(directory))}",
    )


def written_first_finding() -> Finding:
    """Tell that files had to be written first."""
    return Finding(
        "info",
        "laid-out",
        "there was no kept set of files to read, so they were written first",
        "keep the files of a run with --keep to read them again",
    )


def retained_set_finding(files: int, directory: Path | str, size: int) -> Finding:
    """Tell of a set of files that was kept."""
    return Finding(
        "info",
        "kept-set",
        f"kept {files} files ({format_bytes(size)}) in {directory}",
        f"read them with --phases read; remove them with: rm -r {shlex.quote(str(directory))}",
    )


def left_finding(library: str, directories: Mapping[str, str], written: Mapping[str, int]) -> Finding:
    """Tell what a test had to leave behind: by node its directory, and bytes of the files in it."""
    sizes = {node: f"up to {format_bytes(written[node])}" for node in directories if written.get(node)}
    named = [
        f"{directory} of {node} ({sizes.get(node, 'no file of size')})"
        for node, directory in sorted(directories.items())[:_NAMED]
    ]
    more = f" and {len(directories) - _NAMED} more" if len(directories) > _NAMED else ""
    total = format_bytes(sum(written.get(node, 0) for node in directories))
    return Finding(
        "warning",
        "files-left",
        f"library {library}: the test could not remove its files, {total} at most: {', '.join(named)}{more}",
        "a node that lives removes its own within a minute, unless its scheduler ends it; the next iotest "
        "removes the others",
    )


def cached_finding(library: str, op: str, fraction: float) -> Finding:
    """Tell that a read does not count."""
    return Finding(
        "warning",
        "cached",
        f"library {library}, phase {op}: {fraction:.0%} of the pages read were in the page "
        "cache, so the figure is the memory's and does not count",
        "use --engine direct, or a --size of more than the memory divided by the streams",
    )


def wrong_data(mismatch: Mismatch, *, node: str | None = None) -> Finding:
    """Tell of bytes that are not those written."""
    on = f"node {node}: " if node else ""
    return Finding(
        "error",
        "wrong-data",
        f"{on}{mismatch.path}: {mismatch.length} bytes from offset {mismatch.offset} are not what "
        "was written",
        "do not trust this file system with data before you know the cause; `dmesg` may name it",
    )


_TARGET_FULL = "a part of the file system is full"
_UNREACHED = "a part of the file system is not reached"
_SERVER = (
    "see whether its server is up, has it mounted, and can be reached; what was written and it had not taken "
    "is lost where the client is evicted"
)
_DIRECT_REFUSED = "the file system refuses direct I/O"

_ADVICE: dict[int, tuple[str, str]] = {
    errno.ENOSPC: (
        "no space is left on the file system",
        "free space, or give a smaller --size or fewer --streams",
    ),
    errno.EDQUOT: (
        "the quota is used up",
        "raise the quota of the user who runs the test (lfs quota, quota -s), or give a smaller --size",
    ),
    errno.EIO: (
        "the device or the file system's server reported an I/O error",
        "look at `dmesg` and at the file system's health before you measure again",
    ),
    errno.EROFS: (
        "the file system is mounted read-only",
        "remount it read-write; one that turned read-only by itself has found an error: see `dmesg`",
    ),
    errno.ENOENT: ("there is no such directory", "make it, or correct the path"),
    errno.ENOTDIR: ("it is not a directory", "give the directory that the library lives in"),
    errno.ELOOP: ("its symbolic links lead in a circle", "correct the link: ls -l shows where it leads"),
    errno.EACCES: (
        "permission is denied",
        "run as a user who may write there, as root where data is root's; or test a directory of your own: "
        "iotest --directory DIR",
    ),
    errno.EPERM: (
        "the operation is not permitted",
        "run as the owner of the files; a directory may also be immutable (lsattr)",
    ),
    errno.ESTALE: (
        "the file handle is stale: the server no longer knows the directory",
        "mount the file system again",
    ),
    errno.ETIMEDOUT: ("the file system's server does not answer", "check the server and the network to it"),
    errno.ENOTCONN: (
        "the file system's connection is lost",
        "mount the file system again; its client process may have died",
    ),
    errno.EMFILE: ("too many files are open", "raise `ulimit -n`, or give fewer --streams"),
    errno.ENOMEM: (
        "there is not enough memory",
        "give a smaller --block, --queue-depth or --streams, or raise `ulimit -l`",
    ),
    errno.EAGAIN: ("a limit of the system is reached", "give fewer --streams, or raise `ulimit -u`"),
    errno.EFBIG: (
        "the file is larger than the file system or a limit allows",
        "raise `ulimit -f`, or give --size",
    ),
}


def call_problem(
    number: int,
    *,
    library: str,
    path: str,
    doing: str,
    message: str = "",
    direct: bool = False,
    detail: str = "",
) -> Problem:
    """Say what error `number` (errno(3)) means for a library.

    `doing` is what was tried, such as `write at byte 4096`; `message` the system's own text, used
    where the number says nothing; `detail` what the client of the file system adds.
    """
    if number == errno.EINVAL and direct:
        what, remedy = (
            _DIRECT_REFUSED,
            "use --engine buffered, or a --block that is a multiple of its sectors",
        )
    elif number in _ADVICE:
        what, remedy = _ADVICE[number]
    else:
        what = message or os.strerror(number)
        remedy = "check the file system with its own tools, and `dmesg`"
    if detail and number == errno.ENOSPC:
        what = _TARGET_FULL
        remedy = "move files away from there, or stripe them over more targets; see `gridwright doctor`"
    elif detail:
        what, remedy = _UNREACHED, _SERVER
    name = errno.errorcode.get(number)
    return Problem(
        what=f"library {library}: {what} ({doing}{': ' + name if name else ''})"
        f"{': ' + detail if detail else ''}",
        where=path,
        remedy=remedy,
    )


def stalled_problem(
    seconds: float, *, library: str, path: str, op: str, detail: str | None, left: str | None = None
) -> Problem:
    """Say that no byte moved for so long in phase `op`; `detail` is what the file system's client adds.

    `left` is the directory of the test, which cannot be removed while it hangs.
    """
    return Problem(
        what=f"library {library}: the file system does not answer: no byte moved for {seconds:.0f} s in "
        f"phase {op}{': ' + detail if detail else ''}",
        where=path,
        remedy=f"{_SERVER if detail else 'check the mount and its servers (`mount`, `dmesg`)'}; "
        f"{left or 'the files of the test'} may be left there, which the next iotest removes",
    )


def outcome_problem(failure: Failure, *, library: str, direct: bool) -> Problem:
    """Say what a failed call of a stream means for a library; `failure` is that of an engine's outcome."""
    place = "" if failure.offset is None else f" at byte {failure.offset}"
    return call_problem(
        failure.errno,
        library=library,
        path=failure.path,
        doing=f"{failure.op}{place}",
        message=failure.message,
        direct=direct,
        detail=failure.detail,
    )


def os_error_problem(error: OSError, *, library: str, path: str, doing: str) -> Problem:
    """Say what an OSError of Python means for a library."""
    return call_problem(
        error.errno or 0,
        library=library,
        path=str(error.filename or path),
        doing=doing,
        message=error.strerror or str(error),
    )


_CACHESTAT = 451
"""The number of cachestat(2) on all architectures; Linux has it since 6.5."""
NOTABLE = 0.05
"""Less than this part of the file is left unsaid, as reads with so much of them cached count."""


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Pages(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    )


@dataclass(frozen=True, slots=True)
class HostFile:
    """The file below a loop device. `direct`: the device passes the page cache by (losetup --direct-io)."""

    device: str
    path: str
    direct: bool

    def resident_bytes(self) -> int | None:
        """How much of it is in the page cache; None where the kernel or the file's mode does not tell."""
        try:
            file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            # A length of 0 is all to its end.
            pages, whole = _Pages(), _Range(0, 0)
            libc = ctypes.CDLL(None, use_errno=True)
            failed = libc.syscall(_CACHESTAT, file, ctypes.byref(whole), ctypes.byref(pages), 0)
            return None if failed else int(pages.cached) * os.sysconf("SC_PAGESIZE")
        finally:
            os.close(file)

    def used_bytes(self) -> int | None:
        """What it takes on the host's disk; holes hold nothing."""
        try:
            return Path(self.path).stat().st_blocks * 512
        except OSError:
            return None


def host_files(device: str | None, block: Path = Path("/sys/block")) -> list[HostFile]:
    """The files below a device: its own, or those of the members of a RAID."""
    found = []
    for layer in stack([device] if device else [], block):
        directory = block / layer.device / "loop"
        try:
            path = (directory / "backing_file").read_text().strip()
            direct = (directory / "dio").read_text().strip() == "1"
        except OSError:
            continue
        found.append(HostFile(layer.device, path, direct))
    return found


def host_file_findings(library: str, files: Iterable[HostFile]) -> Iterator[Finding]:
    """Name the host files of a library that this machine's page cache can hold."""
    for file in files:
        if not file.direct:
            yield Finding(
                "info",
                "host-file-cache",
                f"library {library} lies on {file.device}, a loop device: this machine's page cache holds "
                f"its host file {file.path}, too, whatever the test reads with",
                f"have the device pass it by: losetup --direct-io=on {file.device} {file.path}",
            )


def host_cache_findings(library: str, op: str, files: Iterable[HostFile]) -> Iterator[Finding]:
    """Tell how much of each host file is in the page cache now that a phase is to read."""
    for file in files:
        resident, used = (None, None) if file.direct else (file.resident_bytes(), file.used_bytes())
        if resident is None or not used or resident < NOTABLE * used:
            continue
        yield Finding(
            "warning",
            "host-file-cache",
            f"library {library}, phase {op}: {format_bytes(resident)} of {format_bytes(used)} in "
            f"{file.path}, the host file of {file.device}, were in this machine's page cache when reading "
            "began, so the figure may be the memory's and does not count",
            f"have the device pass it by: losetup --direct-io=on {file.device} {file.path}",
        )


_WHAT = "iotest"
_INIT = 1


def watch_over(mount: LibraryMount, presence: Presence, *, tokens: Sequence[str] = ()) -> LoadWatch:
    """A watch for which this process is ours, with whoever started it and all that has one of `tokens`."""
    roots = {os.getpid(), os.getppid()} - {_INIT}
    return LoadWatch(
        roots=roots,
        tokens=tokens,
        devices=[mount.device] if mount.device is not None else [],
        fuse=mount.is_fuse,
        presence=presence,
    )


def announce(presence: Presence, library: Path, scratch: Path | None, *, run: str, token: str) -> None:
    """Tell others on the file system of the run; `token` is the same on all its nodes."""
    directories = [scratch] if scratch is not None else []
    presence.begin(announcement(token, run, _WHAT), scratch=directories, libraries=[library])
    presence.wait()


def with_load(record: PhaseRecord, load: NodeLoad | None) -> PhaseRecord:
    """The record of a phase with what happened on its only node meanwhile, and what disturbed it."""
    if load is None:
        return record
    interferences = disturbances(load, sequential=record.op != "metadata")
    return replace(record, load=load, disturbances=interferences, disturbed=bool(interferences))
