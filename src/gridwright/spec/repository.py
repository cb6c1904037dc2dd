"""Object storage that a file system is linked with."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

BUCKET_PATTERN = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()/-]{0,900})?$"
"""A bucket's name (Amazon S3 User Guide, bucket naming rules) and a prefix."""

Event = Literal["new", "changed", "deleted"]


def _bucket(value: str) -> str:
    if re.fullmatch(BUCKET_PATTERN, value, re.ASCII):
        return value.rstrip("/")
    if "@" in value or "?" in value:
        raise FieldError(
            f"{show(value)} is more than a bucket, and credentials never stand in a grid spec",
            "write the bucket alone, such as s3://bucket/prefix; a role, a profile or the environment of who "
            "runs the command has the credentials",
        )
    raise FieldError(f"{show(value)} is not a bucket", "write one, such as s3://bucket or s3://bucket/prefix")


Bucket = Annotated[
    str, AfterValidator(_bucket), WithJsonSchema({"type": "string", "pattern": BUCKET_PATTERN})
]
"""A bucket, with or without a prefix: s3://bucket/prefix."""


def _all_events() -> list[Event]:
    return ["new", "changed", "deleted"]


_LIVE = Update(Change.LIVE, "later changes have it")


class Repository(SpecModel):
    """A bucket linked with a directory of a file system."""

    bucket: Annotated[Bucket, Update(Change.LIVE, "the association is made anew; files stay")] = Field(
        description="The bucket, with or without a prefix: s3://bucket/prefix. It has to be there."
    )
    directory: Annotated[str, Update(Change.LIVE, "the association is made anew; files stay")] = Field(
        default="/",
        pattern=r"^/[A-Za-z0-9._/-]{0,1000}$",
        description="The directory of the file system that its objects appear in.",
    )
    # `import` is a word of Python, so that both fields say what they automate.
    import_on: Annotated[list[Event], _LIVE] = Field(
        default_factory=_all_events,
        description="Which events of the bucket change files by themselves: new, changed, deleted.",
    )
    export_on: Annotated[list[Event], _LIVE] = Field(
        default_factory=_all_events,
        description="Which events of files change objects by themselves: new, changed, deleted.",
    )
