"""A local file system as the grid spec describes it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import NEW_KIND, Delivery, Disks, FileSystem
from gridwright.units import SIZE_PATTERN, Bytes
from gridwright.yamltext.fields import FieldError, Written
from gridwright.yamltext.source import show

SMALLEST_CHUNK, LARGEST_CHUNK = 4 * 2**10, 64 * 2**20


def _chunk(value: object) -> Bytes:
    """A chunk as md takes it: a power of two (mdadm(8), --chunk), of at least a page."""
    # A bare number is none either; the remedy for sizes in general would speak of GB.
    size = Bytes(0) if type(value) is int else Bytes.parse(value)
    if SMALLEST_CHUNK <= size <= LARGEST_CHUNK and size & (size - 1) == 0:
        return size
    raise FieldError(
        f"{show(value)} is not a chunk that an array can have",
        f"write a power of two from {Bytes(SMALLEST_CHUNK)} to {Bytes(LARGEST_CHUNK)}, such as 512 KiB",
    )


ChunkSize = Annotated[Bytes, Written(_chunk, SIZE_PATTERN, "512 KiB")]
"""How much of a stripe is on one disk of an array."""


class LocalFileSystem(FileSystem):
    """A directory on disks of the node itself."""

    type: Annotated[Literal["local"], NEW_KIND] = Field(
        description="The kind of file system: local is a directory on disks of the node itself."
    )
    disks: Annotated[Disks | None, Update(Change.REBUILD, "data live on them and have to be copied")] = Field(
        default=None, description="The node's disks that it lies on, striped. Predictions and clouds need it."
    )
    delivers: Annotated[Delivery | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None, description="What its disks are known to deliver, where no catalogue lists them."
    )
    format: Annotated[Literal["xfs", "ext4"], Update(Change.REBUILD, "its disks are made anew, empty")] = (
        Field(default="xfs", description="What disks of an instance store are formatted with: xfs or ext4.")
    )
    chunk: Annotated[ChunkSize, Update(Change.REBUILD, "its disks are made anew, empty")] = Field(
        # A factory, as pydantic cannot write a default of this type into the JSON Schema by itself.
        default_factory=lambda: Bytes(512 * 1024),
        json_schema_extra={"default": "512 KiB"},
        description="The chunk of the RAID 0 that disks of an instance store are striped into; "
        "512 KiB by default.",
    )

    is_node_local: ClassVar[bool] = True

    @property
    def node_disks(self) -> Disks | None:
        """The disks that the spec describes."""
        return self.disks
