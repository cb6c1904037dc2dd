"""Requests of FSx that start data repository tasks, without the file system's ID.

Paths are as the Amazon FSx API Reference has them (CreateDataRepositoryTask): of an export and a release
relative to the file system, of an import those of the bucket.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gridwright.errors import input_error
from gridwright.repository.keys import RESERVED, KeyRefusal, Keys, bucket_of, prefix_of, shown
from gridwright.spec.linked import LinkedDirectory

EXPORT, IMPORT = "EXPORT_TO_REPOSITORY", "IMPORT_METADATA_FROM_REPOSITORY"
RELEASE = "RELEASE_DATA_FROM_FILESYSTEM"
MOST_PATHS = 32
"""Of one task (FSx for Lustre User Guide, data repository tasks)."""
DAY_S = 86_400


def export_request(directory: LinkedDirectory, paths: Sequence[bytes], *, identity: str) -> dict[str, Any]:
    """Export what was created or changed. Raises GridwrightError (INPUT)."""
    return _request(EXPORT, _of_files(directory, paths), directory, identity)


def import_request(directory: LinkedDirectory, paths: Sequence[bytes], *, identity: str) -> dict[str, Any]:
    """Import names and attributes of new and changed objects. Raises GridwrightError (INPUT)."""
    bucket = directory.link.bucket
    keys = Keys(prefix_of(bucket))
    root = bucket_of(bucket)
    try:
        desired = [f"s3://{root}/{keys.key_of(each)}" for each in _few(paths)] or [bucket]
    except KeyRefusal as error:
        raise input_error(f"{error.what} {error.reason}", where="PATH") from None
    return _request(IMPORT, desired, directory, identity)


def release_request(
    directory: LinkedDirectory, paths: Sequence[bytes], unread_for_s: float, *, identity: str
) -> dict[str, Any]:
    """Release exported files that nobody touched for so long, in whole days rounded up.

    Raises GridwrightError (INPUT).
    """
    days = {"Unit": "DAYS", "Value": math.ceil(unread_for_s / DAY_S)}
    desired = _of_files(directory, paths) or ["/"]
    return _request(RELEASE, desired, directory, identity) | {
        "ReleaseConfiguration": {"DurationSinceLastAccess": days}
    }


def report_place(directory: LinkedDirectory) -> str:
    """Where FSx puts reports of failed files: it has to be below the linked prefix."""
    return f"{directory.link.bucket}/{RESERVED}/tasks"


def _request(kind: str, paths: list[str], directory: LinkedDirectory, identity: str) -> dict[str, Any]:
    return {
        "Type": kind,
        **({"Paths": paths} if paths else {}),
        "Report": {
            "Enabled": True,
            "Path": report_place(directory),
            "Format": "REPORT_CSV_20191124",
            "Scope": "FAILED_FILES_ONLY",
        },
        "ClientRequestToken": identity,
    }


def _of_files(directory: LinkedDirectory, paths: Sequence[bytes]) -> list[str]:
    below = f"{directory.below}/" if directory.below else ""
    try:
        found = [f"{below}{each.decode('utf-8')}" for each in _few(paths)]
    except UnicodeDecodeError as error:
        raise input_error(
            f"{shown(error.object)} is not UTF-8, and FSx takes no other names",
            where="PATH",
            remedy="name the directory that it is in",
        ) from None
    return found or ([directory.below] if directory.below else [])


def _few(paths: Sequence[bytes]) -> Sequence[bytes]:
    if len(paths) > MOST_PATHS:
        raise input_error(
            f"{len(paths)} paths are more than the {MOST_PATHS} that a task of FSx takes",
            where="PATH",
            remedy="name directories that they are in",
        )
    return paths
