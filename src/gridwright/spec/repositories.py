"""The repositories of a grid: directories of libraries whose files are objects of a bucket, too."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Annotated, Literal, cast

from pydantic import Field, PlainValidator, WithJsonSchema, create_model

from gridwright.endpoints import INSTEAD, why_no_endpoint
from gridwright.secret_text import names_secret
from gridwright.spec.account_fields import FIRST_ID, LAST_ID
from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.spec.repository import AnyBucket, DirectoryLink, Event
from gridwright.spec.schedule import NEVER, HowOften, Schedule
from gridwright.yamltext.fields import Duration, FieldError, Written
from gridwright.yamltext.source import show


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
