"""The kind of MooseFS on servers of one's own, mounted through FUSE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from gridwright.filesystems.kind import FileSystemKind, LabServices, ServerHealth, StorageNodes
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import MOST_SERVERS, NEW_KIND, FileSystem

if TYPE_CHECKING:
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.site import Site
    from gridwright.services.service import Service, ServiceNodes


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


# Resident memory of daemons after their start, as measured in a lab: a master has hash tables.
MASTER_MEMORY, CHUNK_MEMORY, MOUNT_MEMORY = 450 << 20, 140 << 20, 60 << 20


class MooseFsKind(FileSystemKind[MooseFileSystem], LabServices[MooseFileSystem], ServerHealth):
    """MooseFS, whose master knows how all of it is."""

    spec_model = MooseFileSystem
    title = "MooseFS"
    kernel_types = ("fuse.mfs", "fuse.mfsmount", "fuse")
    lab_needs_fuse = True
    lab_memory_remedy = (
        f"a MooseFS master alone needs {MASTER_MEMORY / 1e6:.0f} MB, a file system of type local nothing"
    )

    def contribute(self, name: str, filesystem: MooseFileSystem, site: Site) -> Contribution:
        """What is known of its rates: nothing, as no catalogue and no paper lists figures of it."""
        from gridwright.filesystems.resources import Contribution

        return Contribution(
            {},
            outlives_server=filesystem.copies > 1,
            unknown="no figures of MooseFS are published that could be relied on",
        )

    def health(
        self,
        filesystem: MooseFileSystem,
        run: Run,
        mount_point: str,
        *,
        nic_bytes_per_s: float | None = None,
    ) -> Health:
        """As the master of the mount tells it."""
        from gridwright.filesystems.moosefs.health import MASTER, health, master_of_mount
        from gridwright.filesystems.mounts import mount_of, read_mounts

        mount = mount_of(mount_point, read_mounts(run))
        is_fuse = mount is not None and mount.type.startswith("fuse")
        master = master_of_mount(mount.source) if mount is not None and is_fuse else None
        return health(run, master or MASTER)

    def server_of_mount(self, source: str) -> str | None:
        """The master."""
        from gridwright.filesystems.moosefs.health import master_of_mount

        return master_of_mount(source)

    def server_health(self, run: Run, server: str | None) -> Health:
        """As the master tells it; without a name, the one that MooseFS itself takes then."""
        from gridwright.filesystems.moosefs.health import MASTER, health

        return health(run, server or MASTER)

    def lab_nodes(self, filesystem: MooseFileSystem) -> int:
        """One for each chunk server; the first one is the master, too."""
        return filesystem.servers

    def lab_services(
        self, name: str, filesystem: MooseFileSystem, storage: StorageNodes
    ) -> Sequence[Service[ServiceNodes]]:
        """What keeps their ports from users, the master, the chunk servers, and the mounts."""
        from gridwright.filesystems.moosefs.daemons import ChunkServers, Guard, Master, MountPoint

        first = storage.servers[0]
        return (
            Guard(name, storage.all_nodes),
            Master(name, first),
            ChunkServers(name, storage.servers, directory=storage.directory, keep_free=storage.keep_free),
            MountPoint(
                name,
                str(filesystem.path),
                first,
                storage.clients,
                copies=filesystem.copies,
                suid=filesystem.suid,
            ),
        )

    def lab_memory_bytes(self, filesystem: MooseFileSystem, clients: int) -> int:
        """Of a master, each chunk server and each mount."""
        return MASTER_MEMORY + filesystem.servers * CHUNK_MEMORY + clients * MOUNT_MEMORY


KIND = MooseFsKind()
