"""File systems in a grid spec: the kinds by the name that `type` gives them, and what every kind has.

Disks, and servers that have them, are what they are built from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Protocol, cast, runtime_checkable

from pydantic import Field, SerializeAsAny

from gridwright.errors import Finding
from gridwright.spec.fields import Change, Directory, SpecModel, Update
from gridwright.spec.kinds import KindRegistry, KindSection, OfItsKind
from gridwright.spec.provider import ProviderKind
from gridwright.spec.repository import DirectoryLink
from gridwright.yamltext.fields import FieldError, Size, TotalRate

INSTANCE_STORE = "instance-store"
"""The `type` of disks that belong to the machine itself, and are empty after it was stopped."""
MOST_DISKS = 128
"""Most disks of one node or server: what a Nitro machine can attach of all kinds."""
MOST_SERVERS = 1_000
"""Most servers of a file system."""


class Disks(SpecModel):
    """Disks that are alike, striped over (RAID 0 on a node, one target each on a server)."""

    type: Annotated[str, Update(Change.REBUILD, "data are copied to disks of the other type")] = Field(
        description="instance-store for the machine's own disks, or a type of block volume, such as gp3."
    )
    count: Annotated[int | None, Update(Change.REBUILD, "a stripe has its disks for good")] = Field(
        default=None,
        ge=1,
        le=MOST_DISKS,
        description="How many disks each machine has for it. By default all of an instance store, or 1.",
    )
    size: Annotated[Size | None, Update(Change.LIVE, "volumes grow while they are used")] = Field(
        default=None, description="The size of each volume, such as 2 TiB; instance stores have their own."
    )
    iops: Annotated[int | None, Update(Change.LIVE, "volumes change while they are used")] = Field(
        default=None,
        ge=1,
        description="Operations per second bought for each volume, where the type sells them.",
    )
    throughput: Annotated[TotalRate | None, Update(Change.LIVE, "volumes change while they are used")] = (
        Field(
            default=None,
            description="The rate bought for each volume, where the type sells it, such as 500 MB/s.",
        )
    )


class Servers(SpecModel):
    """Servers of a file system that are alike."""

    instance: Annotated[
        str, Update(Change.ROLLING, "servers are replaced one at a time, while all others serve")
    ] = Field(description="The instance type or shape of each server, such as c5n.9xlarge.")
    count: Annotated[int, Update(Change.REBUILD, "targets are added or emptied by hand")] = Field(
        default=1, ge=1, le=MOST_SERVERS, description="How many servers there are."
    )
    disks: Annotated[Disks | None, Update(Change.REBUILD, "data live on them and have to be copied")] = Field(
        default=None, description="The disks that each server serves."
    )


class Delivery(SpecModel):
    """What the disks of a node are known to deliver."""

    write: Annotated[TotalRate | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None, description="Written in all, such as 1 GB/s."
    )
    read: Annotated[TotalRate | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None, description="Read in all, such as 1 GB/s."
    )


NEW_KIND = Update(Change.REBUILD, "another kind of file system is a new one; its data are copied")
"""The policy of every kind's field `type`."""


class FileSystemKindInSpec(Protocol):
    """What the spec itself asks of a kind; see filesystems/kind.py for all that is asked of one."""

    @property
    def spec_model(self) -> type[FileSystem]:
        """The model of its section."""

    @property
    def finding_names(self) -> Mapping[str, str]:
        """Findings that only it brings, with their meaning."""

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """What is wrong between its fields, as plain data: a path below its section, and the problem."""

    # `spec` is a GridSpec, whose module imports this one.
    def findings(self, name: str, filesystem: Any, spec: Any) -> Iterator[Finding]:  # noqa: ANN401
        """What will hurt about a file system of the kind in a valid spec, whoever provides the nodes."""


@runtime_checkable
class ProviderRules(Protocol):
    """A kind that not every provider can make as it is written."""

    def provider_problems(
        self, fields: Mapping[str, Any], grid: Mapping[str, Any], provider: ProviderKind
    ) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """What is wrong with it for the provider of a grid, all of whose plain data are `grid`."""


FILESYSTEMS: KindRegistry[FileSystemKindInSpec] = KindRegistry(
    "file system type", "gridwright.filesystems", ("spec_model", "contribute")
)
"""Every kind of file system that a spec can name."""


class FileSystem(KindSection):
    """What every kind of file system has; a kind narrows `type` and adds its own fields."""

    registry = FILESYSTEMS

    type: Annotated[str, NEW_KIND] = Field(description="The kind of file system, such as local.")
    path: Annotated[
        Directory,
        Update(Change.REBUILD, "libraries are looked for at the new place; data stay at the old one"),
    ] = Field(
        description="The directory under which nodes see it. "
        "A relative path starts at the directory of the grid spec."
    )

    suid: Annotated[
        bool, Update(Change.REMOUNT, "nodes have it from the next mount on: remount it, or start them again")
    ] = Field(
        default=False,
        description="Whether set-user-ID programs and device files on it count. Without, nodes mount it with "
        "nosuid and nodev; programs run in either case.",
    )

    is_node_local: ClassVar[bool] = False
    """Whether each node has data of its own there, which no other node sees."""
    is_for_libraries: ClassVar[bool] = True
    """Whether it is there for libraries, so that one without any is a mistake; else for homes."""
    takes_layouts: ClassVar[bool] = False
    """Whether libraries on it say over how many targets their files are striped."""

    has_copytool: ClassVar[bool] = False
    """Whether names on it are released files, whose readers it holds back until a copytool is done."""
    has_changelogs: ClassVar[bool] = False
    """Whether its metadata servers note what is changed, for whom is registered with them."""
    most_links: ClassVar[int] = 0
    """How many of its directories it links with buckets by itself, without a program of Gridwright's."""
    not_with_links: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Numbers of its section that have to be 0 while it is linked with a bucket, and the reason."""

    link_scheme: ClassVar[str] = "s3"
    """How buckets begin that it links by itself; Gridwright carries the others."""
    linked_hosts: ClassVar[tuple[str, ...]] = ()
    """Ends of names of the stores whose buckets it links; empty where it reaches one store alone."""
    links_by_job: ClassVar[bool] = False
    """Whether its links copy when a job is started, and at no other time: they follow no change."""

    @property
    def own_links(self) -> Mapping[str, DirectoryLink]:
        """The buckets that its own section links it with, by what follows its name in theirs.

        That is nothing, or a directory, which begins with `/`.
        """
        return {}

    @classmethod
    def written_links(cls, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
        """The same as plain data, whatever may be wrong with them: path in the section, and the fields."""
        yield from ()

    @property
    def node_disks(self) -> Disks | None:
        """The disks of each node that it lies on; None where it lies on none, or none are described."""
        return None

    @property
    def server_groups(self) -> Mapping[str, Servers]:
        """The servers that the spec describes, by the name of their section, such as oss."""
        return {}

    @property
    def is_built(self) -> bool:
        """Whether its servers are machines of the grid, which the provider has to make."""
        return False


def filesystem_kind_in(section: object) -> FileSystemKindInSpec | None:
    """The kind of a file system in plain data; None where that is not known."""
    return cast("FileSystemKindInSpec | None", FileSystem.kind_in(section))


AnyFileSystem = Annotated[SerializeAsAny[FileSystem], OfItsKind(FileSystem)]
"""A file system of any registered kind."""
