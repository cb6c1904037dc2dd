"""Object storage that a file system is linked with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from gridwright.endpoints import why_no_prefix
from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import FieldError, Written
from gridwright.yamltext.source import show

BUCKET_PATTERN = r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9!_.*'()/-]{0,900})?$"
"""A bucket's name (Amazon S3 User Guide, bucket naming rules) and a prefix."""
NAMESPACED_SCHEME = "oci"
"""How buckets begin that name the namespace of their tenancy, as Oracle's do."""
NAMESPACED_PATTERN = r"^oci://[A-Za-z0-9._-]{1,256}@[a-z0-9_-]{1,64}(/[A-Za-z0-9!_.*'()/-]{0,900})?$"
"""A bucket's name as Oracle's Object Storage has it, the namespace of its tenancy, and a prefix."""

Event = Literal["new", "changed", "deleted"]


def _without_steps(value: str) -> str:
    if reason := why_no_prefix(value):
        raise FieldError(f"{show(value)} {reason}", "write bucket and prefix as they are")
    return value.rstrip("/")


def _bucket(value: str) -> str:
    if re.fullmatch(BUCKET_PATTERN, value, re.ASCII):
        return _without_steps(value)
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


def scheme_of(bucket: object) -> str:
    """How a bucket begins, such as s3; empty where that cannot be read."""
    return bucket.partition("://")[0] if isinstance(bucket, str) and "://" in bucket else ""


def _namespaced(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(NAMESPACED_PATTERN, value, re.ASCII):
        return _without_steps(value)
    near = _with_namespace(value) if isinstance(value, str) else ""
    raise FieldError(
        f"{show(value)} is not a bucket of Object Storage with its namespace",
        f"write {near or 'one, such as oci://bucket@namespace or oci://bucket@namespace/prefix'}; "
        "oci os ns get prints the namespace",
    )


def _with_namespace(value: str) -> str:
    """What lacks nothing but the namespace, or has one slash, or capitals in front; empty for all else."""
    match = re.fullmatch(r"oci:/{1,2}([^/@]+)(@[^/]*)?(/.*)?", value, re.IGNORECASE)
    near = f"oci://{match[1]}{match[2] or '@NAMESPACE'}{match[3] or ''}" if match else ""
    return near if re.fullmatch(NAMESPACED_PATTERN, near.replace("@NAMESPACE", "@ns"), re.ASCII) else ""


def _any_bucket(value: object) -> str:
    if not isinstance(value, str):
        raise FieldError(f"{show(value)} is not a bucket", "write one, such as s3://bucket/prefix")
    # One slash, or capitals, are meant for the same: the message says how it is written.
    is_namespaced = value.lower().startswith(f"{NAMESPACED_SCHEME}:")
    return _namespaced(value) if is_namespaced else _bucket(value)


def is_bucket(value: str) -> bool:
    """Whether it is one, of either form."""
    patterns = (BUCKET_PATTERN, NAMESPACED_PATTERN)
    return any(re.fullmatch(pattern, value, re.ASCII) for pattern in patterns)


NamespacedBucket = Annotated[str, Written(_namespaced, NAMESPACED_PATTERN, "oci://bucket@namespace/prefix")]
"""A bucket of Oracle's Object Storage with its namespace, with or without a prefix."""
AnyBucket = Annotated[
    str, Written(_any_bucket, f"{BUCKET_PATTERN}|{NAMESPACED_PATTERN}", "s3://bucket/prefix")
]
"""Either: how it begins says who carries it."""


@dataclass(frozen=True, slots=True)
class NamespacedPlace:
    """A bucket of Object Storage, its namespace, and a prefix, which may be empty."""

    namespace: str
    bucket: str
    prefix: str

    @classmethod
    def parse(cls, url: str) -> NamespacedPlace:
        """Read `oci://bucket@namespace/prefix`, which is right already."""
        bucket, _, rest = url.removeprefix(f"{NAMESPACED_SCHEME}://").partition("@")
        namespace, _, prefix = rest.partition("/")
        return cls(namespace, bucket, prefix.strip("/"))

    @property
    def of_service(self) -> str:
        """As Oracle's Lustre writes it: namespace:/bucket/prefix."""
        return f"{self.namespace}:/{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")


@dataclass(frozen=True, slots=True)
class DirectoryLink:
    """A directory of a file system that it links with a bucket by itself, whichever section says so."""

    bucket: str
    directory: str
    """Absolute within the file system."""
    import_on: Sequence[Event] = ()
    """Events of the bucket that change files by themselves."""
    export_on: Sequence[Event] = ()
    """Events of files that change objects by themselves."""
    overwrite: bool = False
    """Whether a job replaces what is there already, where jobs ask for that."""


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

    def as_link(self) -> DirectoryLink:
        """The same, as all links are."""
        return DirectoryLink(self.bucket, self.directory, self.import_on, self.export_on)
