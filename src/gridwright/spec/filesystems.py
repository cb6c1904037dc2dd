"""File systems in a grid spec: one model for each kind, entered in FILESYSTEMS under its `type`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import CoreSchema, InitErrorDetails

from gridwright.spec.fields import (
    Change,
    ChunkSize,
    Directory,
    ExportPath,
    FsxCapacity,
    HostName,
    LustreSource,
    MaintenanceWindow,
    NfsVersion,
    RootSquash,
    SpecModel,
    TebibyteRate,
    Update,
)
from gridwright.spec.fsx_metadata import MetadataOperations
from gridwright.spec.registry import Registry
from gridwright.spec.repository import Repository
from gridwright.spec.storage import MOST_SERVERS, Delivery, Disks, Servers
from gridwright.units import Bytes
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.structure import Model


class FileSystem(SpecModel):
    """What every kind of file system has; a kind narrows `type` and adds its own fields."""

    type: Annotated[
        str, Update(Change.REBUILD, "another kind of file system is a new one; its data are copied")
    ] = Field(description="The kind of file system, such as local.")
    path: Annotated[
        Directory,
        Update(Change.REBUILD, "libraries are looked for at the new place; data stay at the old one"),
    ] = Field(
        description="The directory under which nodes see it. "
        "A relative path starts at the directory of the grid spec."
    )

    @classmethod
    def variants(cls) -> Sequence[Model]:
        """Every registered kind."""
        return FILESYSTEMS.kinds() if cls is FileSystem else [cls]

    @classmethod
    def variant(cls, data: Mapping[str, Any]) -> Model:
        """The kind that `type` names."""
        kind = data.get("type")
        known = cls is FileSystem and isinstance(kind, str) and kind in FILESYSTEMS.names()
        return FILESYSTEMS.get(kind) if known else cls


FILESYSTEMS: Registry[type[FileSystem]] = Registry("file system type")
"""Every kind of file system that a spec can name."""


_NEW = Update(Change.REBUILD, "another kind of file system is a new one; its data are copied")
_StripeCount = Annotated[int, Update(Change.LIVE, "new files have it; old ones keep theirs")]


def _stripe_count() -> Any:  # noqa: ANN401 - what pydantic takes for a field
    return Field(
        default=1,
        ge=-1,
        le=2_000,
        description="Over how many OSTs a file is striped, as `lfs setstripe -c` has it; -1 is all.",
    )


@FILESYSTEMS.register("local")
class LocalFileSystem(FileSystem):
    """A directory on disks of the node itself."""

    type: Annotated[Literal["local"], _NEW] = Field(
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


@FILESYSTEMS.register("lustre")
class LustreFileSystem(FileSystem):
    """Lustre on servers of one's own."""

    type: Annotated[Literal["lustre"], _NEW] = Field(
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
    stripe_count: _StripeCount = _stripe_count()


@FILESYSTEMS.register("fsx-lustre")
class FsxLustreFileSystem(FileSystem):
    """Amazon FSx for Lustre."""

    type: Annotated[Literal["fsx-lustre"], _NEW] = Field(
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
    stripe_count: _StripeCount = _stripe_count()
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
    ] = Field(default=None, description="A bucket whose objects are files, and whose files become objects.")
    root_squash: Annotated[RootSquash | None, Update(Change.LIVE, "clients have it at once")] = Field(
        default=None, description="The UID and GID that root of a client becomes, such as 65534:65534."
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


@FILESYSTEMS.register("scale")
class ScaleFileSystem(FileSystem):
    """IBM Spectrum Scale on servers of one's own."""

    type: Annotated[Literal["scale"], _NEW] = Field(
        description="The kind of file system: scale is IBM Spectrum Scale on servers of one's own."
    )
    nsd: Annotated[Servers, Update(Change.REBUILD, "disks are added or emptied by hand")] = Field(
        description="The NSD servers: instance or shape, count, and the disks of each. A server with "
        "two NICs has one for clients and one for block volumes."
    )


@FILESYSTEMS.register("nfs")
class NfsFileSystem(FileSystem):
    """A directory that an NFS server exports."""

    type: Annotated[Literal["nfs"], _NEW] = Field(
        description="The kind of file system: nfs is a directory that an NFS server exports."
    )
    server: Annotated[HostName, Update(Change.REMOUNT, "nodes mount it anew")] = Field(
        description="Host name or address of the server."
    )
    export: Annotated[ExportPath, Update(Change.REMOUNT, "nodes mount it anew")] = Field(
        description="The directory that it exports, such as /export/grid."
    )
    version: Annotated[NfsVersion, Update(Change.REMOUNT, "nodes mount it anew")] = Field(
        default="4.2", description="The version of NFS: 4.2, 4.1, 4.0 or 3."
    )
    connections: Annotated[int, Update(Change.REMOUNT, "nodes mount it anew")] = Field(
        default=1,
        ge=1,
        le=16,
        description="TCP connections of a node to the server, as nconnect of nfs(5); one flow of a cloud's "
        "network is slower than its NIC.",
    )
    delivers: Annotated[Delivery | None, Update(Change.LIVE, "only predictions read it")] = Field(
        default=None, description="What the server is known to deliver to all nodes together."
    )


@FILESYSTEMS.register("moosefs")
class MooseFileSystem(FileSystem):
    """MooseFS: a master and chunk servers of one's own, mounted through FUSE."""

    type: Annotated[Literal["moosefs"], _NEW] = Field(
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


def _of_its_kind(value: object, info: ValidationInfo) -> object:
    """Hand a mapping to the model that its `type` names."""
    if not isinstance(value, Mapping) or "type" not in value:
        return value
    try:
        kind = FILESYSTEMS.get(value["type"])
    except FieldError as error:
        detail = InitErrorDetails(
            type="value_error", loc=("type",), input=value["type"], ctx={"error": error}
        )
        raise ValidationError.from_exception_data("type", [detail]) from None
    return kind.model_validate(value, context=info.context)


class _AnyKind:
    """JSON Schema of a file system: one of the registered kinds."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"oneOf": [handler(kind.__pydantic_core_schema__) for kind in FILESYSTEMS.kinds()]}


AnyFileSystem = Annotated[SerializeAsAny[FileSystem], BeforeValidator(_of_its_kind), _AnyKind()]
"""A file system of any registered kind."""
