"""A first look at a library on the node that tests it: what lies below, what earlier tests left."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from gridwright.bounded import Hangs, call_bounded
from gridwright.errors import Finding, Problem
from gridwright.filesystems.mounts import OF_THE_KERNEL, LibraryMount, describe_mount
from gridwright.iotest import failures, host_file
from gridwright.iotest.options import LibraryTarget
from gridwright.iotest.outcome import Mismatch
from gridwright.iotest.scratch import remove_stale
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


NO_DIRECTORY = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
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
        if error.errno not in NO_DIRECTORY:
            return None
        return failures.of_os_error(
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
    found += host_file.named(target.library, host_file.host_files(mount.device))
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
