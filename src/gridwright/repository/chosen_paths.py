"""Paths that a command is told: one that nothing has is a mistake, and is named with what is like it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from gridwright.errors import nearest
from gridwright.repository.keys import KeyRefusal, shown
from gridwright.repository.settings import OpenRepository, RepositoryReport

_MOST = 2000
"""Names of a directory that are compared with one."""


def name_unknown(opened: OpenRepository, report: RepositoryReport, paths: Sequence[bytes]) -> None:
    """Make a problem of each path that is neither here, nor known, nor in the listing of this run, if any."""
    for path in paths:
        if not (_is_here(opened, path) or _is_known(opened, path) or _is_listed(opened, path)):
            hint = f"; did you mean {shown(near)}?" if (near := _near(opened, path)) else ""
            report.problem(
                path,
                f"nothing below {shown(os.fsencode(opened.settings.directory))}, and nothing in the bucket, "
                f"has that name{hint}",
            )


def _near(opened: OpenRepository, path: bytes) -> bytes | None:
    """What was meant: a path from where the directory itself lies, or one with a name that is like it."""
    own, _, rest = path.partition(b"/")
    if own == os.fsencode(opened.settings.directory.name) and rest and _is_here(opened, rest):
        return rest
    near = nearest(os.fsdecode(path.rpartition(b"/")[2]), _beside(opened, path))
    return _joined(path, os.fsencode(near)) if near else None


def _joined(path: bytes, name: bytes) -> bytes:
    return b"/".join([*path.split(b"/")[:-1], name])


def _is_here(opened: OpenRepository, path: bytes) -> bool:
    try:
        return opened.below.status(path) is not None
    except OSError:
        # It is not seen; who works on it says why.
        return True


def _is_known(opened: OpenRepository, path: bytes) -> bool:
    query = "SELECT 1 FROM files WHERE path = ? OR (path >= ? AND path < ?) LIMIT 1"
    found = opened.known.database.execute(query, (path, path + b"/", path + b"0"))
    return found.fetchone() is not None


def _is_listed(opened: OpenRepository, path: bytes) -> bool:
    try:
        key = opened.keys.key_of(path, is_directory=False)
    except KeyRefusal:
        return False
    return opened.known.listed(key) is not None or opened.known.has_keys_below(key)


def _beside(opened: OpenRepository, path: bytes) -> Iterable[str]:
    """Names in the directory of a path, here, known and listed; some of them where there are many."""
    start = path[: len(path) - len(path.rpartition(b"/")[2])]
    found = set[bytes]()
    with suppress(OSError):
        found.update(map(os.fsencode, os.listdir(opened.below.parent(path)[0])[:_MOST]))  # noqa: PTH208
    rows = opened.known.database.execute(
        "SELECT path FROM files WHERE path > ? AND path < ? LIMIT ?",
        (start, start[:-1] + b"0" if start else b"\xff", _MOST),
    )
    found.update(each[len(start) :].partition(b"/")[0] for (each,) in rows)
    for (key,) in opened.known.database.execute("SELECT key FROM listed LIMIT ?", (_MOST,)):
        with suppress(KeyRefusal):
            each = opened.keys.path_of(key)[0]
            if each.startswith(start):
                found.add(each[len(start) :].partition(b"/")[0])
    return sorted(os.fsdecode(each) for each in found if each)
