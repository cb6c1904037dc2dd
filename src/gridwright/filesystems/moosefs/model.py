"""A MooseFS as the grid spec describes it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import MOST_SERVERS, NEW_KIND, FileSystem


class MooseFileSystem(FileSystem):
    """MooseFS: a master and chunk servers of one's own, mounted through FUSE."""

    type: Annotated[Literal["moosefs"], NEW_KIND] = Field(
        description="The kind of file system: moosefs is MooseFS on servers of one's own."
    )
    servers: Annotated[int, Update(Change.REBUILD, "chunk servers are added or emptied by hand")] = Field(
        default=2,
        ge=1,
        le=MOST_SERVERS,
        description="How many chunk servers it has; the first one is the master, too.",
    )
    copies: Annotated[int, Update(Change.LIVE, "new files have it; old ones are copied")] = Field(
        default=1, ge=1, le=9, description="On how many chunk servers each piece of data is kept (its goal)."
    )
