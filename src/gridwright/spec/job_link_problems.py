"""What is wrong with a repository that a file system carries by jobs, which somebody starts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.spec.repository import (
    BUCKET_PATTERN,
    NAMESPACED_SCHEME,
    NamespacedPlace,
    is_bucket,
    scheme_of,
)
from gridwright.spec.schedule import NEVER
from gridwright.yamltext.fields import FieldError

LEAST_LETTERS = 3
"""Of a bucket's name (Amazon S3 User Guide, bucket naming rules)."""
_Wrong = Iterator[tuple[tuple[str, ...], FieldError]]


def unlinked_bucket(name: str, section: Mapping[str, Any], linked_scheme: str, by_itself: int) -> _Wrong:
    """A bucket, or a field, that is only for links by jobs, where there is none.

    `linked_scheme` is how buckets begin that the file system links by itself, empty where it links none;
    `by_itself` how many it can link of this repository's kind.
    """
    if by_itself and linked_scheme == NAMESPACED_SCHEME:
        return
    bucket = section.get("bucket")
    if isinstance(bucket, str) and scheme_of(bucket) == NAMESPACED_SCHEME and is_bucket(bucket):
        yield (
            ("repositories", name, "bucket"),
            FieldError(
                f"{bucket} is linked by Oracle's managed Lustre alone, and the library is on none",
                f"this file system links buckets of {linked_scheme}:// alone: name a library on another one"
                if linked_scheme
                else _as_s3(NamespacedPlace.parse(bucket)),
            ),
        )
    elif section.get("overwrite") is True:
        yield (
            ("repositories", name, "overwrite"),
            FieldError(
                "only jobs of Oracle's managed Lustre take it: gridwright repo compares both sides",
                "remove the field; --prefer says which side wins where both were changed",
            ),
        )


def _as_s3(place: NamespacedPlace) -> str:
    """How Gridwright itself reaches the bucket, by the dialect of S3 that Object Storage speaks.

    Names there may have capitals and underscores, which names of S3 have not.
    """
    prefix = f"/{place.prefix}" if place.prefix else ""
    bucket, before = place.bucket, ""
    if not re.fullmatch(BUCKET_PATTERN, f"s3://{bucket}", re.ASCII):
        bucket = re.sub(r"[^a-z0-9.-]", "-", bucket.lower())[:63].strip(".-")
        bucket = bucket if len(bucket) >= LEAST_LETTERS else "grid-data"
        before = (
            f"no bucket of s3:// is called {place.bucket}: make one of 3 to 63 small letters, digits, "
            f"dots and hyphens, such as {bucket}, copy the objects there, and "
        )
    address = f"https://{place.namespace}.compat.objectstorage.REGION.oraclecloud.com"
    return f"{before}write s3://{bucket}{prefix} and endpoint: {address}, with the bucket's region"


def job_link_problems(name: str, section: Mapping[str, Any], kind: str) -> _Wrong:
    """Schedules, deletions and a store's address, which such a link has nothing for; an rpo out of reach."""
    for plan, field, verb in (("export", "changed", "export"), ("import", "names", "import")):
        written = section.get(plan)
        fields = written if isinstance(written, Mapping) else {}
        if fields.get(field, NEVER) != NEVER:
            yield (
                ("repositories", name, plan, field),
                FieldError(
                    f"a file system of type {kind} copies when a job is started, not by time and not at once",
                    f"remove the field, and have cron run gridwright repo {verb} {name}",
                ),
            )
        if fields.get("deletions") is True:
            yield (
                ("repositories", name, plan, "deletions"),
                FieldError(
                    f"jobs of a file system of type {kind} delete nothing on the other side",
                    "remove the field, and delete on both sides yourself",
                ),
            )
    if section.get("endpoint") is not None:
        yield (
            ("repositories", name, "endpoint"),
            FieldError(
                "the file system reaches the bucket by itself, in its own region and tenancy",
                "remove the field",
            ),
        )
    if section.get("rpo") is not None and section.get("overwrite") is not True:
        yield (
            ("repositories", name, "rpo"),
            FieldError(
                "jobs pass over changed files whose objects are there already, so that no rpo holds",
                "write overwrite: true, or remove rpo",
            ),
        )
