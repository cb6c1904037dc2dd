"""What an export would do: the dry run of it, which sends nothing and reads no file."""

from __future__ import annotations

from collections.abc import Sequence

from gridwright.repository.deletion import ExportDeletions
from gridwright.repository.file_clock import is_kept_as
from gridwright.repository.missing import name_missing, send_again
from gridwright.repository.s3.parts import PART_BYTES, part_count
from gridwright.repository.scan import Action, find_changes
from gridwright.repository.settings import OpenRepository, Prefer, RepositoryReport


def plan_export(
    opened: OpenRepository,
    report: RepositoryReport,
    paths: Sequence[bytes],
    options: tuple[bool, int | None, Prefer | None],
) -> None:
    """Count what an export would do, and its requests; the bucket is listed already.

    `options` are `deletions`, `delete_up_to` and `prefer` of `ExportOptions`.
    """
    deletions, delete_up_to, prefer = options
    find_changes(opened, paths, report, deletions=deletions)
    send_again(opened, paths, prefer)
    had_files, more = opened.known.has_files(), 0
    for path, action, size, _ in opened.known.work():
        if action == Action.SEND and had_files and _will_be_renamed(opened, path):
            report.add(Action.RENAME)
        else:
            report.add(action, size if action == Action.SEND else 0)
            # One of parts is begun and ended, too.
            more += part_count(size) + 1 if action == Action.SEND and size > PART_BYTES else 0
    name_missing(opened, paths, report)
    ExportDeletions(opened, report, delete_up_to).are_allowed()
    report.requests = {"put": sum(each.count for each in report.done.values()) + more}


def _will_be_renamed(opened: OpenRepository, path: bytes) -> bool:
    """Whether a new name is one of a file that had another, by all that tells it without reading it."""
    known = opened.known
    try:
        status = opened.below.status(path)
    except OSError:
        return False
    return status is not None and known.get(path) is None and any(
        row.key is not None and row.attributes.is_file and not known.was_seen(row.path)
        and row.size == status.st_size and is_kept_as(row.mtime_ns, status.st_mtime_ns)
        for row in known.by_inode(status.st_ino)
    )  # fmt: skip
