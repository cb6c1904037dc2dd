"""FSx for Lustre as the grid spec describes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from gridwright.filesystems.fsx_lustre.fields import FsxCapacity, TebibyteRate
from gridwright.filesystems.fsx_lustre.metadata import MetadataOperations
from gridwright.filesystems.lustre_client.fields import RootSquash, StripeCount, stripe_count
from gridwright.filesystems.maintenance import MaintenanceWindow
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import NEW_KIND, FileSystem
from gridwright.spec.repository import DirectoryLink, Repository


class FsxLustreFileSystem(FileSystem):
    """Amazon FSx for Lustre."""

    takes_layouts: ClassVar[bool] = True
    most_links: ClassVar[int] = 8
    """Amazon FSx for Lustre User Guide, quotas: data repository associations of one file system."""
    not_with_links: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"backup_days": "a file system that is linked with a bucket has no backups"}
    )
    linked_hosts: ClassVar[tuple[str, ...]] = (".amazonaws.com", ".amazonaws.com.cn")
    """Amazon FSx for Lustre User Guide, linking your file system to an Amazon S3 bucket: S3 alone."""

    type: Annotated[Literal["fsx-lustre"], NEW_KIND] = Field(
        description="The kind of file system: fsx-lustre is Amazon FSx for Lustre."
    )
    deployment: Annotated[
        Literal["scratch-2", "persistent-1", "persistent-2"],
        Update(Change.REBUILD, "a deployment type cannot be changed; data are copied"),
    ] = Field(
        default="persistent-2", description="The deployment type: scratch-2, persistent-1 or persistent-2."
    )
    capacity: Annotated[FsxCapacity, Update(Change.LIVE, "storage can grow, never shrink")] = Field(
        description="Storage capacity: 1200 GiB, 2400 GiB or a multiple of it; also as AWS writes: 2.4 TiB."
    )
    throughput: Annotated[
        TebibyteRate | None, Update(Change.LIVE, "persistent-2 changes it in place; others are rebuilt")
    ] = Field(
        default=None,
        description="Throughput bought for each TiB, such as 200 MB/s/TiB. By default the lowest tier.",
    )
    stripe_count: StripeCount = stripe_count()
    compression: Annotated[
        Literal["lz4", "none"], Update(Change.LIVE, "new data have it; old data keep theirs")
    ] = Field(default="none", description="Whether data are compressed: lz4 or none.")
    metadata: Annotated[
        MetadataOperations,
        Update(Change.LIVE, "operations bought can change; a file system made without any never gets them"),
    ] = Field(
        default="automatic",
        description="Metadata operations per second, of persistent-2: automatic grows with capacity, a number"
        " is bought. It cannot be added later to a file system that was made with none. Other deployment "
        "types have none.",
    )
    repository: Annotated[
        Repository | None, Update(Change.LIVE, "an association is made or ended; files stay")
    ] = Field(
        default=None,
        description="A bucket whose objects are files, and whose files become objects. `repositories` says "
        "the same of a library.",
    )
    root_squash: Annotated[RootSquash | None, Update(Change.LIVE, "clients have it at once")] = Field(
        default=None,
        description="The UID and GID that root of a node becomes, such as 65534:65534. Root of head and "
        "login node stays root. By default root stays root on all.",
    )
    maintenance: Annotated[MaintenanceWindow | None, Update(Change.LIVE, "the next week has it")] = Field(
        default=None,
        description="When AWS may maintain it each week, in UTC, such as sun:03:00. By default AWS chooses.",
    )
    backup_days: Annotated[int, Update(Change.LIVE, "older backups are removed")] = Field(
        default=0,
        ge=0,
        le=90,
        description="For how many days daily backups are kept, of persistent types; 0 makes none.",
    )

    @property
    def own_links(self) -> Mapping[str, DirectoryLink]:
        """The bucket of `repository`."""
        return {} if self.repository is None else {"": self.repository.as_link()}

    @classmethod
    def written_links(cls, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
        """That of `repository`."""
        if isinstance(link := section.get("repository"), Mapping):
            yield ("repository",), link
