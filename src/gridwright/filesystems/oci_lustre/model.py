"""Oracle's managed Lustre as the grid spec describes it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

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

_NEW = Update(Change.REBUILD, "Oracle makes a new file system; data are copied")


class OciLustreFileSystem(FileSystem):
    """OCI File Storage with Lustre."""

    takes_layouts: ClassVar[bool] = True

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
        "between them, when a number is raised.",
    )

    @property
    def capacity_gb(self) -> int:
        """Its capacity as Oracle's API takes it, in GB."""
        return self.capacity // GB

    @property
    def tier(self) -> str:
        """Its performance tier as Oracle's API takes it."""
        return f"MBPS_PER_TB_{self.throughput}"
