"""Directories on disks of the node itself: their section of the grid spec, and what the kind answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from gridwright.errors import Finding
from gridwright.filesystems.kind import FileSystemKind, LabServices, NodeDisks, ScratchArray
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import INSTANCE_STORE, NEW_KIND, Delivery, Disks, FileSystem
from gridwright.units import SIZE_PATTERN, Bytes
from gridwright.yamltext.fields import FieldError, Written
from gridwright.yamltext.source import show

if TYPE_CHECKING:
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.site import Site
    from gridwright.spec.model import GridSpec


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


_MEMORY = ("/dev/shm", "/run")  # noqa: S108 - named to warn of them
_EMPTIED = ("/tmp", "/var/tmp")  # noqa: S108 - named to warn of them


class LocalKind(FileSystemKind[LocalFileSystem], LabServices[LocalFileSystem], NodeDisks[LocalFileSystem]):
    """Disks of the node itself; any file system of the kernel may be on them."""

    spec_model = LocalFileSystem
    title = "disks of each node"

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """What disks of nodes never have."""
        if fields.get("suid") is True:
            yield (
                ("suid",),
                FieldError("set-up mounts disks of nodes with nosuid and nodev", "remove suid"),
            )

    def findings(self, name: str, filesystem: LocalFileSystem, spec: GridSpec) -> Iterator[Finding]:
        """A directory that is in memory, or that the system empties."""
        path = PurePosixPath(filesystem.path)
        in_memory = any(path.is_relative_to(place) for place in _MEMORY)
        if in_memory or any(path.is_relative_to(place) for place in _EMPTIED):
            reason = (
                "it is in memory: figures say nothing about disks, and data are lost at a restart"
                if in_memory
                else "the system may empty it, and it may be in memory"
            )
            yield Finding(
                "warning",
                "volatile-directory",
                f"file system {name} is at {path}: {reason}",
                f"Move {name} to a directory on disks",
            )

    def contribute(self, name: str, filesystem: LocalFileSystem, site: Site) -> Contribution:
        """What each node's disks deliver."""
        from gridwright.filesystems.local.rates import contribute

        return contribute(name, filesystem.disks, filesystem.delivers, site)

    def describe(self, filesystem: LocalFileSystem) -> str:
        """The disks, where the spec has them."""
        from gridwright.filesystems.servers import disks_words

        return f"{disks_words(filesystem.disks)} of each node" if filesystem.disks else self.title

    def on_node_disks(self, disks: Mapping[str, Any]) -> Mapping[str, Any]:
        """On any disks."""
        return {"type": "local", "disks": disks}

    def scratch_array(self, filesystem: LocalFileSystem) -> ScratchArray | None:
        """Of disks of an instance store; volumes are attached as they are."""
        disks = filesystem.disks
        if disks is None or disks.type != INSTANCE_STORE:
            return None
        return ScratchArray(disks=disks.count, chunk_bytes=int(filesystem.chunk), format=filesystem.format)

    def health(
        self,
        filesystem: LocalFileSystem,
        run: Run,
        mount_point: str,
        *,
        nic_bytes_per_s: float | None = None,
    ) -> Health:
        """Looked at on this machine, so `run` has to run commands here."""
        from gridwright.filesystems.local.health import health

        return health(run, mount_point)


KIND = LocalKind()
