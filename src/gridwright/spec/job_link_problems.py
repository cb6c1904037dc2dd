"""What is wrong with a repository that a file system carries by jobs, which somebody starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.spec.repository import NAMESPACED_SCHEME, NamespacedPlace, scheme_of
from gridwright.spec.schedule import NEVER
from gridwright.yamltext.fields import FieldError

_Wrong = Iterator[tuple[tuple[str, ...], FieldError]]


def unlinked_bucket(name: str, section: Mapping[str, Any], region: str, *, is_linked: bool) -> _Wrong:
    """A bucket, or a field, that is only for links by jobs, where there is none."""
    if is_linked:
        return
    bucket = section.get("bucket")
    if isinstance(bucket, str) and scheme_of(bucket) == NAMESPACED_SCHEME and "@" in bucket:
        found = NamespacedPlace.parse(bucket)
        prefix = f"/{found.prefix}" if found.prefix else ""
        yield (
            ("repositories", name, "bucket"),
            FieldError(
                f"{bucket} is linked by Oracle's managed Lustre alone, and the library is on none",
                f"write s3://{found.bucket}{prefix} and endpoint: "
                f"https://{found.namespace}.compat.objectstorage.{region}.oraclecloud.com",
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
