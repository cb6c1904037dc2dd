"""Buckets that directories of a Spectrum Scale are caches of, by its own AFM, as the grid spec names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import FieldError, matching

_ONCE = Update(
    Change.NEVER, "the directory keeps the bucket that it was made for; make another one beside it"
)

_Problem = tuple[tuple[str, ...], FieldError]


class AfmBucket(SpecModel):
    """A bucket, and the directory that shows it."""

    directory: Annotated[
        str,
        matching(
            r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$",
            "a name of a directory",
            "one below the mount point, such as raw",
        ),
        _ONCE,
    ] = Field(description="The directory right below the mount point, which is a fileset of this name.")
    bucket: Annotated[
        str,
        matching(r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", "a name of a bucket", "it alone, such as lake-raw"),
        _ONCE,
    ] = Field(description="The bucket, which has to be there.")
    prefix: Annotated[
        str | None,
        matching(r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,500}$", "a prefix", "one, such as in/raw"),
        _ONCE,
    ] = Field(default=None, description="Only objects below it.")
    endpoint: Annotated[
        str,
        matching(
            r"^https?://[A-Za-z0-9][A-Za-z0-9.-]{0,252}(?::\d{1,5})?$",
            "an address of an object store",
            "one, such as https://s3.eu-central-1.amazonaws.com",
        ),
        _ONCE,
    ] = Field(description="Where the store answers, by its S3 dialect.")
    region: Annotated[
        str | None, matching(r"^[a-z0-9-]{2,40}$", "a region", "one, such as eu-central-1"), _ONCE
    ] = Field(default=None, description="Its region, where the store wants to know it.")
    mode: Annotated[Literal["ro", "lu", "sw", "iw"], _ONCE] = Field(
        default="ro",
        description="ro: objects are read. lu: files change here alone. sw: they change here, and objects "
        "follow. iw: both change.",
    )
    keys: Annotated[
        str,
        matching(r"^/[A-Za-z0-9._/-]{1,500}$", "a path of a file", "one on the first server, from / on"),
        Update(Change.LIVE, "the file is read when the directory is made"),
    ] = Field(
        description="A file on the first server with the access key and the secret key, and a colon between "
        "them. It is the site's to put there; no secret is in the spec."
    )


def bucket_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """Directories are apart, and the file system is one's own."""
    given = fields.get("buckets")
    seen: set[str] = set()
    for number, each in enumerate(given) if isinstance(given, list) else ():
        name = each.get("directory") if isinstance(each, Mapping) else None
        if isinstance(name, str) and name in seen:
            yield (
                ("buckets", str(number), "directory"),
                FieldError(f"directory {name} shows a bucket already", "name another directory"),
            )
        elif isinstance(name, str):
            seen.add(name)
    if given and fields.get("remote") is not None:
        yield (
            ("buckets",),
            FieldError(
                "filesets are made by the cluster that has the file system, and that is another one",
                "remove the lines, and ask its administrators",
            ),
        )
