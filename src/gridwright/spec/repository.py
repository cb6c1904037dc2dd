"""Object storage of a grid: buckets that file systems are linked with, and repositories of libraries.

How often something is done by itself is here, too.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, cast

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, create_model

from gridwright.endpoints import INSTEAD, why_no_endpoint, why_no_prefix
from gridwright.secret_text import names_secret
from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.spec.users import FIRST_ID, LAST_ID
from gridwright.units import DURATION_PATTERN, UnitError, parse_duration
from gridwright.yamltext.fields import Duration, FieldError, Written
from gridwright.yamltext.source import show

AT_ONCE, NEVER = "at-once", "never"
_NAMED: dict[str, float | None] = {AT_ONCE: 0.0, "hourly": 3600.0, "daily": 86400.0, NEVER: None}
LEAST_S = 60.0
"""A look at all files takes its time, so that none begins before the last one can have ended."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How often, as it is written."""

    text: str

    @property
    def period_s(self) -> float | None:
        """Seconds from one time to the next: 0 at once, None never."""
        return _NAMED[self.text] if self.text in _NAMED else parse_duration(self.text)

    @property
    def is_timed(self) -> bool:
        """Whether a timer has it done."""
        return bool(self.period_s)

    @property
    def is_at_once(self) -> bool:
        """Whether it is done as soon as there is something to do."""
        return self.text == AT_ONCE

    def __str__(self) -> str:
        return self.text


def read_schedule(value: object) -> Schedule:
    """What `value` says. Raises FieldError."""
    if isinstance(value, Schedule):
        return value
    instead = "write at-once, hourly, daily, never, or a time such as 15m"
    if isinstance(value, str) and value in _NAMED:
        return Schedule(value)
    try:
        seconds = parse_duration(value)
    except UnitError:
        raise FieldError(f"{show(value)} does not say how often", instead) from None
    if seconds < LEAST_S:
        raise FieldError(f"{show(value)} is too often: a look at all files takes longer", "write at least 1m")
    return Schedule(f"{seconds:.12g}s" if not isinstance(value, str) else value.strip())


HowOften = Annotated[
    Schedule, Written(read_schedule, rf"^({'|'.join(_NAMED)})$|{DURATION_PATTERN}", "hourly")
]
"""A Schedule."""


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


def _directory(value: object) -> str:
    """A directory of a library, as `/` or `/some/where`."""
    if not isinstance(value, str) or not re.fullmatch(r"/[^\x00-\x1f\x7f$]{0,1000}", value):
        raise FieldError(f"{show(value)} is no directory of a library", "write / for all of it, or /results")
    if ".." in value.split("/"):
        raise FieldError(f"{show(value)} leads out of the library", "write / for all of it, or /results")
    return "/" + posixpath.normpath(value).strip("/")


def read_ids(value: object) -> tuple[int, int]:
    """The lowest and the highest number of users and groups, as 1000-60000. Raises FieldError."""
    match = re.fullmatch(r"([0-9]{1,10})-([0-9]{1,10})", value, re.ASCII) if isinstance(value, str) else None
    if match is None or not int(match[1]) <= int(match[2]) <= LAST_ID:
        raise FieldError(
            f"{show(value)} is no range of users and groups",
            f"write the lowest and the highest number, such as 1000-60000; {LAST_ID} is the highest",
        )
    return int(match[1]), int(match[2])


def _endpoint(value: object) -> str:
    """The endpoint of a store. Raises FieldError."""
    if reason := why_no_endpoint(value) if isinstance(value, str) else "is no URL":
        raise FieldError(f"{show(value)} {reason}", INSTEAD)
    return str(value).rstrip("/")


def _events(schedule: Schedule, deletions: bool) -> list[Event]:
    """What a file system does by itself that links directories."""
    if not schedule.is_at_once:
        return []
    return ["new", "changed", "deleted"] if deletions else ["new", "changed"]


class ExportPlan(SpecModel):
    """When files become objects."""

    changed: Annotated[HowOften, Update(Change.LIVE, "later changes have it")] = Field(
        default=Schedule(NEVER),
        description="How often new and changed files are sent: hourly, daily, a time such as 15m (by a timer "
        "of a node, or of the cloud for fsx-lustre), at-once where the file system does that by itself "
        "(fsx-lustre), or never: when somebody exports.",
    )
    by: Annotated[
        Literal["scan", "changelog"], Update(Change.LIVE, "the first export that way looks at all files")
    ] = Field(
        default="scan",
        description="How changes are found: by a scan of all names, or by the changelogs of a Lustre of "
        "one's own that is there already (changelog): gridwright setup registers a user at each MDT, and "
        "exports look at what its records name.",
    )
    deletions: Annotated[bool, Update(Change.LIVE, "later changes have it")] = Field(
        default=False, description="Whether objects of files that are gone are deleted."
    )


class ImportPlan(SpecModel):
    """When objects become files."""

    names: Annotated[HowOften, Update(Change.LIVE, "later changes have it")] = Field(
        default=Schedule(NEVER),
        description="How often new and changed objects are taken note of: hourly, daily, a time such as 15m, "
        "at-once where the file system does that by itself (fsx-lustre), or never: when somebody imports.",
    )
    deletions: Annotated[bool, Update(Change.LIVE, "later changes have it")] = Field(
        default=False, description="Whether files are deleted whose objects are gone."
    )
    contents: Annotated[bool, Update(Change.LIVE, "later changes have it")] = Field(
        default=False,
        description="Whether a timer brings the contents of new objects. Without, they are released files on "
        "a Lustre with an HSM archive, elsewhere no files, and files that are here are brought up to date.",
    )


class _WithoutImport(SpecModel):
    """A directory of a library whose files are objects of a bucket, too."""

    library: Annotated[
        Literal["data", "work", "util"], Update(Change.LIVE, "files and objects stay where they are")
    ] = Field(description="The library whose files they are: data, work or util.")
    path: Annotated[
        Annotated[
            str,
            PlainValidator(_directory),
            WithJsonSchema({"type": "string", "pattern": "^/", "examples": ["/", "/results"]}),
        ],
        Update(Change.LIVE, "files and objects stay where they are"),
    ] = Field(default="/", description="The directory of the library; / is all of it.")
    bucket: Annotated[AnyBucket, Update(Change.LIVE, "files and objects stay where they are")] = Field(
        description="The bucket, with or without a prefix: s3://bucket/prefix. It has to be there. "
        "oci://bucket@namespace/prefix has Oracle's managed Lustre carry it by a link of its own. "
        "Credentials come from a role, a profile or the environment, never from the spec."
    )
    overwrite: Annotated[bool, Update(Change.LIVE, "later jobs have it")] = Field(
        default=False,
        description="With oci://: whether a job replaces what is there already. Without it, what is there is "
        "passed over, even where the other side is newer.",
    )
    endpoint: Annotated[
        Annotated[
            str,
            PlainValidator(_endpoint),
            WithJsonSchema(
                {"type": "string", "pattern": "^https?://[^@?]+$", "examples": ["https://s3.example.com"]}
            ),
        ]
        | None,
        Update(Change.LIVE, "the next transfer goes there"),
    ] = Field(
        default=None,
        description="Where the store is, with TLS unless it is this machine. By default that of "
        "AWS_ENDPOINT_URL, else AWS's own.",
    )
    export: Annotated[ExportPlan, Update(Change.LIVE, "later changes have it")] = Field(
        default_factory=ExportPlan, description="When files become objects, such as {changed: hourly}."
    )
    hsm_archive: Annotated[
        int,
        Update(Change.LIVE, "new names are of it; those made before wait for an agent of the earlier one"),
    ] = Field(
        default=1,
        ge=1,
        le=32,
        description="On a Lustre of one's own: the number of the archive of Lustre's HSM that the repository "
        "is, 1 to 32. Each repository of one Lustre has another one.",
    )
    ids: Annotated[
        Annotated[
            tuple[int, int],
            Written(read_ids, "^[0-9]{1,10}-[0-9]{1,10}$", "1000-60000", lambda ids: f"{ids[0]}-{ids[1]}"),
        ],
        Update(Change.LIVE, "the next import has it"),
    ] = Field(
        default=(FIRST_ID, LAST_ID),
        description="Which users and groups an import by root gives files to because the bucket says so, "
        "from the lowest to the highest number. Files of others, such as those of the system, get the owner "
        "and the group of the repository's directory, and the import says which.",
    )
    rpo: Annotated[Duration | None, Update(Change.LIVE, "only `gridwright repo status` reads it")] = Field(
        default=None,
        description="How old a change may become that no object has, such as 2h: `gridwright repo status` "
        "says whether that is met.",
    )

    @property
    def imports(self) -> ImportPlan:
        """When objects become files: the field `import`, which is no name in Python."""
        return cast("ImportPlan", getattr(self, "import"))

    def as_link(self, below: str) -> DirectoryLink:
        """The same as a file system says it that links directories itself; `below` is the library's path."""
        return DirectoryLink(
            bucket=self.bucket,
            directory="/" + posixpath.normpath(posixpath.join("/", below, self.path.lstrip("/"))).strip("/"),
            import_on=_events(self.imports.names, self.imports.deletions),
            export_on=_events(self.export.changed, self.export.deletions),
            overwrite=self.overwrite,
        )

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str] | None:
        """Whoever writes credentials here is told where they belong."""
        if names_secret(name) or re.search("key.?id|profile", name, re.IGNORECASE):
            return (
                f"{name} would put credentials into the grid spec",
                "remove it: a role, AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY have them",
            )
        return None


if TYPE_CHECKING:

    class LibraryRepository(_WithoutImport):
        """A directory of a library whose files are objects of a bucket, too."""

else:
    # A class cannot say `import: …` in its body, since that is a word of Python.
    LibraryRepository = create_model(
        "LibraryRepository",
        __base__=_WithoutImport,
        __doc__=_WithoutImport.__doc__,
        **{
            "import": (
                Annotated[ImportPlan, Update(Change.LIVE, "later changes have it")],
                Field(
                    default_factory=ImportPlan,
                    description="When objects become files, such as {names: hourly, contents: true}.",
                ),
            )
        },
    )
