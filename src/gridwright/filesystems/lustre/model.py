"""A Lustre on servers of one's own as the grid spec describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gridwright.filesystems.lustre_client.fields import NOBODY, SquashedByDefault, StripeCount, stripe_count
from gridwright.filesystems.service_model import ServiceFileSystem
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import NEW_KIND, Servers
from gridwright.yamltext.fields import matching

_NID = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}@(?:tcp|o2ib|kfi)[0-9]{0,3}"
LUSTRE_SOURCE_PATTERN = rf"^{_NID}(?:[,:]{_NID}){{0,15}}:/[A-Za-z0-9_-]{{1,8}}(?:/[A-Za-z0-9._/-]*)?$"
"""NIDs of management servers and the name of the file system, of at most 8 characters (mount.lustre(8))."""
LustreSource = Annotated[
    str,
    matching(
        LUSTRE_SOURCE_PATTERN,
        "what a Lustre client mounts",
        "the address of the management server, its network and the file system's name, "
        "such as 10.0.0.1@tcp:/scratch",
        "10.0.0.1@tcp:/scratch",
    ),
]
"""What a Lustre client mounts."""


class LustreFileSystem(ServiceFileSystem):
    """Lustre on servers of one's own."""

    takes_layouts: ClassVar[bool] = True
    has_copytool: ClassVar[bool] = True
    has_changelogs: ClassVar[bool] = True

    type: Annotated[Literal["lustre"], NEW_KIND] = Field(
        description="The kind of file system: lustre is Lustre on servers of one's own."
    )
    source: Annotated[LustreSource | None, Update(Change.REMOUNT, "clients mount it anew")] = Field(
        default=None,
        description="What nodes mount, where it is there already: 10.0.0.1@tcp:/scratch, or "
        "mgs1@tcp:mgs2@tcp:/scratch with a second management server.",
    )
    oss: Annotated[Servers | None, Update(Change.REBUILD, "targets are added or emptied by hand")] = Field(
        default=None,
        description="The object storage servers: instance, count, and the disks of each, one OST a disk. "
        "Needed where it has no source.",
    )
    mds: Annotated[Servers | None, Update(Change.REBUILD, "metadata live on it")] = Field(
        default=None, description="The metadata servers."
    )
    mgs: Annotated[Servers | None, Update(Change.REBUILD, "clients mount through it")] = Field(
        default=None, description="The management server. By default the first metadata server."
    )
    root_squash: Annotated[
        SquashedByDefault, Update(Change.LIVE, "servers set it as they run; clients have it at once")
    ] = Field(
        default=NOBODY,
        description="The UID and GID that root of a node becomes, where the provider builds the servers, or "
        "none. Root of head and login node stays root.",
    )
    stripe_count: StripeCount = stripe_count()

    @property
    def server_groups(self) -> Mapping[str, Servers]:
        """Object storage, metadata and management servers, those that are described."""
        groups = {"oss": self.oss, "mds": self.mds, "mgs": self.mgs}
        return {name: each for name, each in groups.items() if each is not None}

    @property
    def is_built(self) -> bool:
        """Whether it is not there already."""
        return self.source is None
