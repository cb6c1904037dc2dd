"""The kind of file systems that an NFS server exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from gridwright.filesystems.capabilities import ClientSettings, Degradation
from gridwright.filesystems.kind import FileSystemKind
from gridwright.filesystems.mount_entry import MountEntry
from gridwright.filesystems.nfs.model import NfsFileSystem
from gridwright.filesystems.nfs_client.mount_facts import NFS_TRANSFER_BYTES
from gridwright.filesystems.ports import ServerPorts
from gridwright.filesystems.service_problems import service_problems
from gridwright.services.playbook_role import PlaybookRole
from gridwright.services.ports import Ports
from gridwright.yamltext.fields import FieldError

if TYPE_CHECKING:
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.loss import DeadPart, DegradedRates, PartGroup
    from gridwright.filesystems.resources import Contribution
    from gridwright.filesystems.site import Site


class NfsKind(FileSystemKind[NfsFileSystem], ClientSettings[NfsFileSystem], Degradation[NfsFileSystem]):
    """NFS of a server that is there already."""

    spec_model = NfsFileSystem
    title = "NFS"
    kernel_types = ("nfs4", "nfs")

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """Figures of its server beside those of a service, and what is wrong with the latter."""
        if fields.get("delivers") is not None and (fields.get("offer") or fields.get("limits")) is not None:
            yield (
                ("delivers",),
                FieldError(
                    "offer and limits say what it delivers, too",
                    "remove delivers, or write its figures as limits: {read: 2 GB/s, write: 1 GB/s}",
                ),
            )
        yield from service_problems(fields)

    def contribute(self, name: str, filesystem: NfsFileSystem, site: Site) -> Contribution:
        """What the spec says that the server delivers."""
        from gridwright.filesystems.nfs.rates import contribute

        return contribute(name, filesystem, site)

    def parts(self, filesystem: NfsFileSystem, contribution: Contribution) -> Sequence[PartGroup]:
        """The one server; a service with an offer replaces its own."""
        from gridwright.filesystems.loss import PartGroup

        return () if filesystem.offer is not None else (PartGroup("server", "server", 1),)

    def without(
        self, filesystem: NfsFileSystem, contribution: Contribution, dead: Sequence[DeadPart]
    ) -> DegradedRates:
        """Nothing: mounts are hard, so whoever touches a file waits."""
        from gridwright.filesystems.loss import DegradedRates

        words = f"{filesystem.server} is its only server: whoever touches a file waits until it is back"
        return DegradedRates(0.0, "unavailable", 1.0, words)

    def mount_entry(self, filesystem: NfsFileSystem, source: str | None = None) -> MountEntry:
        """The directory of the server, with options for large sequential files."""
        host = f"[{filesystem.server}]" if ":" in filesystem.server else filesystem.server
        return MountEntry(
            source=f"{host}:{filesystem.export}",
            mount_point=str(filesystem.path),
            type="nfs",
            options=_options(filesystem),
        )

    def tuning_table(self) -> str:
        """Mount options, read-ahead, and slots for requests."""
        return resources.files("gridwright.filesystems.nfs").joinpath("tuning.yaml").read_text("utf-8")

    def playbook_roles(self) -> Sequence[PlaybookRole]:
        """The client: its packages, parameters and mounts."""
        role = PlaybookRole(
            name="nfs_client",
            task="Mount NFS",
            when="gridwright_mounts | selectattr('type', 'equalto', 'nfs') | list | length > 0",
            package="gridwright.filesystems.nfs",
        )
        return (role,)

    def health(
        self,
        filesystem: NfsFileSystem,
        run: Run,
        mount_point: str,
        *,
        nic_bytes_per_s: float | None = None,
    ) -> Health:
        """As this client sees it: options, counters and connections of its mount."""
        from gridwright.filesystems.nfs_client.health import health

        return health(run, mount_point, filesystem.version, nic_bytes_per_s=nic_bytes_per_s)

    def servers_elsewhere(self, filesystem: NfsFileSystem) -> Iterator[ServerPorts]:
        """The server; NFS 3 has its mounting and the list of its ports beside it."""
        server = filesystem.server
        yield ServerPorts(Ports("Nfs", 2049, 2049), "NFS servers that are there already", server)
        if filesystem.version == "3":
            where = "NFS 3: where the server listens"
            yield ServerPorts(Ports("Portmapper", 111, 111), where, server)
            yield ServerPorts(Ports("Mountd", 20048, 20048), "NFS 3: mounting", server)


def _options(filesystem: NfsFileSystem) -> tuple[str, ...]:
    # noatime has no effect on NFS: the server keeps access times (nfs(5)). soft loses what was written.
    several = (f"nconnect={filesystem.connections}",) if filesystem.connections > 1 else ()
    return (
        f"vers={filesystem.version}",
        "proto=tcp",
        "hard",
        *several,
        f"rsize={NFS_TRANSFER_BYTES}",
        f"wsize={NFS_TRANSFER_BYTES}",
        "_netdev",
    )


KIND = NfsKind()
