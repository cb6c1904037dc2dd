"""OCI File Storage, which exports directories by NFS: its section of the grid spec, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from gridwright.errors import Finding
from gridwright.filesystems.kind import FileSystemKind, MountEntry
from gridwright.filesystems.lustre_client.fields import RootSquash
from gridwright.filesystems.nfs_client import MOUNT_TYPE
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import NEW_KIND, FileSystem
from gridwright.units import Bytes
from gridwright.yamltext.fields import FieldError, Size, matching

if TYPE_CHECKING:
    from gridwright.filesystems.health import Health, Run
    from gridwright.filesystems.resources import Contribution, Cost, Operation, Route
    from gridwright.filesystems.site import Site
    from gridwright.spec.model import GridSpec


EXPORT_PATTERN = r"^/[A-Za-z0-9._-]{1,255}(/[A-Za-z0-9._-]{1,255}){0,7}$"
ExportPath = Annotated[
    str, matching(EXPORT_PATTERN, "the path of an export", "one, such as /sashome", "/sashome")
]
"""What nodes mount after the address of the mount target; `/` alone would keep all others out."""


class OciFileStorageFileSystem(FileSystem):
    """OCI File Storage: NFS 3 for what is read often and written seldom."""

    is_for_libraries: ClassVar[bool] = False

    type: Annotated[Literal["oci-file-storage"], NEW_KIND] = Field(
        description="The kind of file system: oci-file-storage is OCI File Storage, NFS for homes and "
        "configuration."
    )
    export: Annotated[ExportPath | None, Update(Change.REMOUNT, "nodes mount it anew")] = Field(
        default=None,
        description="The path that it is exported as, such as /sashome. By default that of path.",
    )
    availability_domain: Annotated[
        int | None, Update(Change.REBUILD, "Oracle makes a new file system; data are copied")
    ] = Field(
        default=None,
        ge=1,
        le=3,
        description="The availability domain that holds it, by its number. By default that of the nodes.",
    )
    capacity: Annotated[Size | None, Update(Change.LIVE, "only the cost is computed from it")] = Field(
        default=None,
        description="What you expect to keep on it, such as 500 GB: it is billed by what it holds. Without "
        "it the cost is unknown.",
    )
    root_squash: Annotated[RootSquash | None, Update(Change.LIVE, "clients have it at once")] = Field(
        default=None,
        description="The UID and GID that root of a node becomes, such as 65534:65534. By default root stays "
        "root.",
    )

    @property
    def export_path(self) -> str:
        """What nodes mount after the address of the mount target."""
        return self.export or str(self.path)


OFFER = "oci-file-storage"


def _cost(name: str, filesystem: OciFileStorageFileSystem, site: Site) -> Cost:
    """By what is expected on it; unknown where nobody says how much."""
    from gridwright.catalog.managed import offer_price
    from gridwright.filesystems.resources import Cost

    stored = filesystem.capacity
    offer = site.catalog.offers[OFFER]
    price = offer_price(offer, site.catalog.offer_prices[OFFER], site.region)
    if stored is None or price is None:
        return Cost(f"OCI File Storage {name}, by what it holds", None)
    return Cost(f"OCI File Storage {name} with {Bytes(stored)}", price.usd_per_hour(stored, 0))


VERSION = "3"
OPTIONS = (f"vers={VERSION}", "proto=tcp", "hard", "nosuid", "_netdev")
"""NFS 3 is all that it speaks, and nosuid what Oracle's own mount commands have (OCI File Storage, mounting
file systems from UNIX-style instances). Without rsize and wsize the client takes the largest that the server
offers (nfs(5))."""


class OciFileStorageKind(FileSystemKind[OciFileStorageFileSystem]):
    """OCI File Storage: the service makes it, and tells then where its mount target is.

    Nodes mount it with the role of NFS, which works for every mount of that type.
    """

    spec_model = OciFileStorageFileSystem
    title = "OCI File Storage"
    kernel_types = (MOUNT_TYPE,)

    def problems(self, fields: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
        """A path that cannot be the path of an export, where none is written."""
        path = fields.get("path")
        if fields.get("export") is None and isinstance(path, str) and not re.match(EXPORT_PATTERN, path):
            yield (
                ("export",),
                FieldError(
                    f"{path} cannot be the path of an export, and no other is written",
                    "add one, such as export: /sashome",
                ),
            )

    def findings(self, name: str, filesystem: OciFileStorageFileSystem, spec: GridSpec) -> Iterator[Finding]:
        """Libraries on what is made for homes."""
        on_it = [each for each, library in spec.libraries.items() if library.filesystem == name]
        if on_it:
            yield Finding(
                "warning",
                "library-on-file-storage",
                f"{' and '.join(on_it)} {'lives' if len(on_it) == 1 else 'live'} on OCI File Storage {name}, "
                "whose mount target passes 1 Gbit/s to all nodes together",
                "Keep homes and configuration there, and libraries on a parallel file system",
            )

    def contribute(self, name: str, filesystem: OciFileStorageFileSystem, site: Site) -> Contribution:
        """What one mount target of the standard kind passes to all nodes."""
        from gridwright.filesystems.resources import OPERATIONS, Contribution, Resource, Route, Use

        offer = site.catalog.offers[OFFER]
        if site.spec.provider != offer.provider:
            site.report(
                ("filesystems", name, "type"),
                f"OCI File Storage is a service of Oracle, and the provider is {site.spec.provider}",
                f"choose another type of file system, such as nfs, or provider: {offer.provider}",
            )
            return Contribution({}, unknown="it is not on offer there")
        routes: dict[Operation, Route] = {}
        for operation in OPERATIONS:
            rate = offer.figure(operation)
            if rate is None:
                return Contribution({}, unknown="nobody says what its mount target passes")
            source = str(offer.facts[operation].source)
            target = Resource(
                f"{name}.mount-target-{operation}",
                "mount target of OCI File Storage, 1 Gbit/s",
                "grid",
                rate,
                source,
                nature="server",
            )
            routes[operation] = Route((*site.nodes.network(operation), Use(target)))
        return Contribution(routes, (_cost(name, filesystem, site),))

    def mount_entry(
        self, filesystem: OciFileStorageFileSystem, source: str | None = None
    ) -> MountEntry | None:
        """The export; none before it is known where its mount target is."""
        if source is None:
            return None
        return MountEntry(source=source, mount_point=str(filesystem.path), type=MOUNT_TYPE, options=OPTIONS)

    def describe(self, filesystem: OciFileStorageFileSystem) -> str:
        """What it is exported as."""
        return f"{self.title} {filesystem.export_path}"

    def health(
        self,
        filesystem: OciFileStorageFileSystem,
        run: Run,
        mount_point: str,
        *,
        nic_bytes_per_s: float | None = None,
    ) -> Health:
        """As this client of NFS sees it: options, counters and connections of its mount."""
        from gridwright.filesystems.nfs_client.health import health

        return health(run, mount_point, VERSION)

    def requests(self, filesystem: OciFileStorageFileSystem) -> Mapping[type, object]:
        """The file system as Oracle makes it."""
        from gridwright.filesystems.provided import FileStorage, request

        return request(FileStorage, filesystem)


KIND = OciFileStorageKind()
