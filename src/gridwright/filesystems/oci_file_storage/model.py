"""OCI File Storage as the grid spec describes it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gridwright.filesystems.lustre_client.fields import RootSquash
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import NEW_KIND, FileSystem
from gridwright.yamltext.fields import Size, matching

EXPORT_PATTERN = r"^/[A-Za-z0-9._-]{1,255}(/[A-Za-z0-9._-]{1,255}){0,7}$"
ExportPath = Annotated[
    str, matching(EXPORT_PATTERN, "the path of an export", "one, such as /sashome", "/sashome")
]
"""What nodes mount after the address of the mount target; `/` alone would keep all others out."""


class OciFileStorageFileSystem(FileSystem):
    """OCI File Storage: NFS 3 for what is read often and written seldom."""

    is_for_libraries: ClassVar[bool] = False

    type: Annotated[Literal["oci-file-storage"], NEW_KIND] = Field(
        description="The kind of file system: oci-file-storage is OCI File Storage, NFS for homes and "
        "configuration."
    )
    export: Annotated[ExportPath | None, Update(Change.REMOUNT, "nodes mount it anew")] = Field(
        default=None,
        description="The path that it is exported as, such as /sashome. By default that of path.",
    )
    availability_domain: Annotated[
        int | None, Update(Change.REBUILD, "Oracle makes a new file system; data are copied")
    ] = Field(
        default=None,
        ge=1,
        le=3,
        description="The availability domain that holds it, by its number. By default that of the nodes.",
    )
    capacity: Annotated[Size | None, Update(Change.LIVE, "only the cost is computed from it")] = Field(
        default=None,
        description="What you expect to keep on it, such as 500 GB: it is billed by what it holds. Without "
        "it the cost is unknown.",
    )
    root_squash: Annotated[RootSquash | None, Update(Change.LIVE, "clients have it at once")] = Field(
        default=None,
        description="The UID and GID that root of a node becomes, such as 65534:65534. By default root stays "
        "root.",
    )

    @property
    def export_path(self) -> str:
        """What nodes mount after the address of the mount target."""
        return self.export or str(self.path)
