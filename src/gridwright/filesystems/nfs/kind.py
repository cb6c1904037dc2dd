"""Directories that an NFS server exports: their section of the grid spec, and what the kind answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from gridwright.filesystems.kind import ClientSettings, Degradation, FileSystemKind, MountEntry, ServerPorts
from gridwright.filesystems.nfs_client import NFS_TRANSFER_BYTES
from gridwright.filesystems.service_model import ServiceFileSystem, service_problems
from gridwright.services.playbook_role import PlaybookRole
from gridwright.services.ports import Ports
from gridwright.spec.fields import Change, HostName, Update
from gridwright.spec.filesystem import NEW_KIND, Delivery
from gridwright.yamltext.fields import FieldError, matching

if TYPE_CHECKING:
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.resources import (
        Contribution,
        DeadPart,
        DegradedRates,
        PartGroup,
    )
    from gridwright.filesystems.site import Site


EXPORT_PATTERN = r"^/[A-Za-z0-9._/@+-]{0,1023}$"


def _version_text(value: object) -> object:
    """4.2 and 3 of YAML as text. What is no version is refused by the type."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


NfsVersion = Annotated[
    Literal["4.2", "4.1", "4.0", "3"],
    BeforeValidator(_version_text),
    WithJsonSchema({"enum": ["4.2", "4.1", "4.0", "3", 4.2, 4.1, 4.0, 3]}),
]
"""A version of NFS as nfs(5) has it; unquoted it is a number in YAML."""
ExportPath = Annotated[
    str, matching(EXPORT_PATTERN, "an absolute directory of a server", "one, such as /export/grid")
]
"""A directory that an NFS server exports."""


class NfsFileSystem(ServiceFileSystem):
    """A directory that an NFS server exports."""

    type: Annotated[Literal["nfs"], NEW_KIND] = Field(
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
        default=None,
        description="What the server is known to deliver to all nodes together. Not beside offer and limits, "
        "which say more.",
    )


def _check_version(name: str, filesystem: NfsFileSystem, site: Site) -> None:
    """Note a version that the offer does not speak: the mount would be refused."""
    offer = site.catalog.offers.get(filesystem.offer or "")
    newest = offer.figure("version_max") if offer else None
    if offer is not None and newest is not None and float(filesystem.version) > newest:
        site.report(
            ("filesystems", name, "version"),
            f"{offer.name} speaks NFS up to {newest:g}, and this is {filesystem.version}: mounts would fail",
            f"write version: {newest:g}",
        )


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
        """What the server is said to deliver, shared by all nodes, behind the network of each.

        No catalogue lists NFS servers: without `delivers`, an offer or limits nothing is known of its rates.
        """
        from gridwright.filesystems.resources import OPERATIONS, Contribution
        from gridwright.filesystems.service_rates import service_contribution, stated_costs
        from gridwright.filesystems.site import stated_routes

        if filesystem.has_service_figures:
            _check_version(name, filesystem, site)
            connections = filesystem.connections
            return service_contribution(
                name, filesystem, site, "NFS", protocol="nfs", connections=connections
            )
        what = f"NFS server {filesystem.server}"
        routes = stated_routes(f"{name}.server", what, filesystem.delivers, site.nodes)
        missing = [operation for operation in OPERATIONS if operation not in routes]
        return Contribution(
            routes,
            stated_costs(what, filesystem),
            capacity_bytes=None if filesystem.capacity is None else int(filesystem.capacity),
            # It is one server: what is behind it may outlive it, and nobody can say so from here.
            outlives_server=False,
            unknown=f"nobody says what its server delivers ({' and '.join(missing)}; limits: says it)"
            if missing
            else "",
        )

    def parts(self, filesystem: NfsFileSystem, contribution: Contribution) -> Sequence[PartGroup]:
        """The one server; a service with an offer replaces its own."""
        from gridwright.filesystems.resources import PartGroup

        return () if filesystem.offer is not None else (PartGroup("server", "server", 1),)

    def without(
        self, filesystem: NfsFileSystem, contribution: Contribution, dead: Sequence[DeadPart]
    ) -> DegradedRates:
        """Nothing: mounts are hard, so whoever touches a file waits."""
        from gridwright.filesystems.resources import DegradedRates

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
