"""What a verify of a linked file system would compare: from the listing, and from files where they are."""

from __future__ import annotations

import math
import stat
import time
from collections.abc import Sequence
from pathlib import Path

from gridwright.beneath import Beneath
from gridwright.repository.forecast import PER_LISTING, TransferLimit, transfer_forecast
from gridwright.repository.keys import Keys, prefix_of
from gridwright.repository.service_verify import object_path
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.store import ObjectEntry, ReadableStore
from gridwright.units import format_bytes


def plan_verify_linked(
    name: str,
    directory: Path,
    bucket_url: str,
    store: ReadableStore,
    paths: Sequence[bytes],
    read: Sequence[TransferLimit],
) -> RepositoryReport:
    """What `verify` would look at, its requests, and how long it takes at least by what `read` limits.

    Where the file system is mounted, files are looked at, not read: what is compared is that whose size is
    that of the object. Elsewhere it is all. Loads nothing. Raises GridwrightError.
    """
    begun = time.time()
    report = RepositoryReport(name, "verify", is_dry_run=True)
    keys = Keys(prefix_of(bucket_url))
    listed = 0
    below: Beneath | None = None
    try:
        below = Beneath(directory)
    except OSError:
        report.notes.append(f"{directory} is not mounted here: sizes of files and links are not known")
    try:
        for entry in store.list(keys.start):
            listed += 1
            if (found := object_path(keys, entry, paths, report)) is not None:
                _note(report, below, entry, *found)
    finally:
        if below is not None:
            below.close()
    report.requests["list"] = max(1, math.ceil(listed / PER_LISTING))
    size = report.count("compared").bytes
    bound = transfer_forecast("verify", size, {"get": 0, **report.requests}, "get", read)
    report.at_least_s, report.at_least_by = bound.seconds, f"bound by {bound.bound_by}"
    if not read:
        report.at_least_by += "; how fast files are read is not known"
    report.notes.append("files are read, and those that were released are loaded for that")
    report.notes.append(f"so are objects whose checksums do not tell, {format_bytes(size)} at most")
    report.seconds = time.time() - begun
    return report


def _note(
    report: RepositoryReport, below: Beneath | None, entry: ObjectEntry, path: bytes, is_directory: bool
) -> None:
    if is_directory:
        report.add("looked at, directories")
        return
    report.requests["head"] = report.requests.get("head", 0) + 1
    try:
        status = None if below is None else below.status(path)
    except OSError as error:
        report.refused(path, "looked at", error)
        return
    if below is not None and status is None:
        report.add("looked at, without a file")
    elif status is not None and stat.S_ISLNK(status.st_mode):
        report.add("compared, links")
        report.requests["get"] = report.requests.get("get", 0) + 1
    elif status is not None and (not stat.S_ISREG(status.st_mode) or status.st_size != entry.size):
        report.add("looked at, of another size or kind")
    else:
        report.add("compared", entry.size)
