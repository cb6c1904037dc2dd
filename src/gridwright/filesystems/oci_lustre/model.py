"""Oracle's managed Lustre as the grid spec describes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from gridwright.filesystems.lustre_client.fields import RootSquash, StripeCount, stripe_count
from gridwright.filesystems.maintenance import MaintenanceWindow
from gridwright.filesystems.oci_lustre.fields import (
    DEFAULT_NAME,
    GB,
    TIERS,
    LustreCapacity,
    LustreName,
    LustreTier,
    ObjectStorageLink,
)
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import NEW_KIND, FileSystem
from gridwright.spec.repository import NAMESPACED_SCHEME, DirectoryLink

_NEW = Update(Change.REBUILD, "Oracle makes a new file system; data are copied")


class OciLustreFileSystem(FileSystem):
    """OCI File Storage with Lustre."""

    takes_layouts: ClassVar[bool] = True
    most_links: ClassVar[int] = 1000
    """More than anybody writes: Oracle publishes no largest number."""
    link_scheme: ClassVar[str] = NAMESPACED_SCHEME
    links_by_job: ClassVar[bool] = True

    type: Annotated[Literal["oci-lustre"], NEW_KIND] = Field(
        description="The kind of file system: oci-lustre is OCI File Storage with Lustre."
    )
    name: Annotated[LustreName, _NEW] = Field(
        default=DEFAULT_NAME,
        description="The name that nodes mount it by, of at most 8 characters. Two on one grid have "
        "two names.",
    )
    capacity: Annotated[LustreCapacity, Update(Change.LIVE, "storage can grow, never shrink")] = Field(
        description="Storage capacity: 31.2 TB, more in steps of 10.4 TB up to 124.8 TB, and of 41.6 TB from "
        "there on. What Oracle's pages call 31.2 TiB is the same."
    )
    throughput: Annotated[LustreTier, _NEW] = Field(
        default=TIERS[0],
        description="What each TB delivers: 125, 250, 500 or 1000 MB/s/TB.",
    )
    stripe_count: StripeCount = stripe_count()
    root_squash: Annotated[RootSquash | None, Update(Change.LIVE, "clients have it at once")] = Field(
        default=None,
        description="The UID and GID that root of a node becomes, such as 65534:65534. By default root stays "
        "root.",
    )
    maintenance: Annotated[MaintenanceWindow | None, Update(Change.LIVE, "the next week has it")] = Field(
        default=None,
        description="When Oracle may maintain it each week, in UTC, such as sun:03:00. By default Oracle "
        "chooses.",
    )
    links: Annotated[
        list[ObjectStorageLink], Update(Change.LIVE, "a link is made or ended; files and objects stay")
    ] = Field(
        default_factory=list,
        description="Directories that are linked with buckets of Object Storage; the service itself copies "
        "between them, when a number is raised, or when gridwright repo starts a job. `repositories` says "
        "the same of a library.",
    )

    @property
    def own_links(self) -> Mapping[str, DirectoryLink]:
        """Those of `links`, by their directories; that of the whole file system by nothing."""
        return {
            each.file_system_path.rstrip("/"): DirectoryLink(
                each.bucket, each.file_system_path, overwrite=each.overwrite
            )
            for each in self.links
        }

    @classmethod
    def written_links(cls, section: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
        """Those of `links`."""
        links = section.get("links")
        for number, link in enumerate(links if isinstance(links, list) else ()):
            if isinstance(link, Mapping):
                yield ("links", str(number)), link

    @property
    def capacity_gb(self) -> int:
        """Its capacity as Oracle's API takes it, in GB."""
        return self.capacity // GB

    @property
    def tier(self) -> str:
        """Its performance tier as Oracle's API takes it."""
        return f"MBPS_PER_TB_{self.throughput}"
