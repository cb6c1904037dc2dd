"""A managed file system as the grid spec describes it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gridwright.filesystems.service_model import ServiceFileSystem
from gridwright.spec.filesystem import NEW_KIND


class ManagedFileSystem(ServiceFileSystem):
    """A file system that a cloud runs as a service, and that nodes find mounted."""

    type: Annotated[Literal["managed"], NEW_KIND] = Field(
        description="The kind of file system: managed is a service of any cloud, described by its figures."
    )
