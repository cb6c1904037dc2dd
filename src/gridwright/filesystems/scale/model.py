"""A Spectrum Scale as the grid spec describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import NEW_KIND, FileSystem
from gridwright.spec.storage import Servers


class ScaleFileSystem(FileSystem):
    """IBM Spectrum Scale on servers of one's own."""

    type: Annotated[Literal["scale"], NEW_KIND] = Field(
        description="The kind of file system: scale is IBM Spectrum Scale on servers of one's own."
    )
    nsd: Annotated[Servers, Update(Change.REBUILD, "disks are added or emptied by hand")] = Field(
        description="The NSD servers: instance or shape, count, and the disks of each. A server with "
        "two NICs has one for clients and one for block volumes."
    )

    @property
    def server_groups(self) -> Mapping[str, Servers]:
        """The NSD servers."""
        return {"nsd": self.nsd}
