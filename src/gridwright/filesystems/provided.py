"""What a provider has to make for a file system, in terms that a provider understands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar, cast

from gridwright.filesystems import kind_of
from gridwright.services.ports import Ports
from gridwright.spec.filesystem import Disks, Servers

if TYPE_CHECKING:
    from gridwright.spec.model import GridSpec

R = TypeVar("R")


def request(sort: type[R], what: R) -> Mapping[type, object]:
    """A request of one sort, as `FileSystemKind.requests` has it."""
    return {sort: what}


def requested(spec: GridSpec, sort: type[R]) -> dict[str, R]:
    """What file systems of a spec ask of their provider, of one sort, by the name of the file system."""
    return {
        name: cast("R", request)
        for name, filesystem in spec.filesystems.items()
        if (request := kind_of(filesystem).requests(filesystem).get(sort)) is not None
    }


class ManagedLustre(Protocol):
    """A Lustre that a cloud sells as a service."""

    @property
    def deployment(self) -> str:
        """Its deployment type, as the catalogue of managed file systems has it."""

    @property
    def capacity(self) -> int:
        """Bytes."""

    @property
    def throughput(self) -> int | None:
        """Bytes per second for each TiB; None is the lowest on sale."""

    @property
    def compression(self) -> str:
        """lz4 or none."""

    @property
    def metadata(self) -> Literal["automatic", "none"] | int:
        """Metadata operations per second."""

    @property
    def root_squash(self) -> str | None:
        """UID:GID that root of a client becomes."""

    @property
    def maintenance(self) -> str | None:
        """Day and time in UTC, such as sun:03:00; None leaves it to the cloud."""

    @property
    def backup_days(self) -> int:
        """For how many days backups are kept; 0 makes none."""


class BucketLink(Protocol):
    """A directory that a service links with a bucket, and copies to and from when it is told to."""

    @property
    def object_storage_prefix(self) -> str:
        """Namespace, bucket and prefix, as the service takes them."""

    @property
    def file_system_path(self) -> str:
        """The directory, absolute within the file system."""

    @property
    def overwrite(self) -> bool:
        """Whether a job replaces what is there already."""

    @property
    def imports(self) -> int:
        """How many times objects were to become files: a larger number starts a job."""

    @property
    def exports(self) -> int:
        """How many times files were to become objects."""


class TieredLustre(Protocol):
    """A Lustre that a cloud sells as a service, whose throughput goes by its capacity and a tier."""

    @property
    def name(self) -> str:
        """What nodes mount it by."""

    @property
    def capacity_gb(self) -> int:
        """GB (10^9 bytes)."""

    @property
    def tier(self) -> str:
        """As the service names it."""

    @property
    def root_squash(self) -> str | None:
        """UID:GID that root of a client becomes."""

    @property
    def maintenance(self) -> str | None:
        """Day and time in UTC, such as sun:03:00; None leaves it to the cloud."""

    @property
    def links(self) -> Sequence[BucketLink]:
        """Directories that it links with buckets."""


class FileStorage(Protocol):
    """A directory that a service of a cloud exports by NFS."""

    @property
    def export_path(self) -> str:
        """What nodes mount, after the address of the mount target."""

    @property
    def availability_domain(self) -> int | None:
        """By its number from 1; None is where the nodes are."""

    @property
    def root_squash(self) -> str | None:
        """UID:GID that root of a client becomes; None leaves it root."""


class LustreServers(Protocol):
    """Servers that a provider makes of its machines; one target on each of their disks."""

    @property
    def oss(self) -> Servers | None:
        """Object storage servers."""

    @property
    def mds(self) -> Servers | None:
        """Metadata servers."""

    @property
    def mgs(self) -> Servers | None:
        """The management server; None where the first metadata server is."""

    @property
    def root_squash(self) -> str:
        """UID:GID that root of a node becomes, or none."""


class SharedDiskServers(Protocol):
    """Servers in pairs, each pair with disks that both of it reach; the provider makes and joins them."""

    @property
    def nsd(self) -> Servers | None:
        """The servers, whose `disks` are those that each is the first server of; None for clients alone."""

    @property
    def pool_disks(self) -> Mapping[str, Disks]:
        """Further disks that each server is the first one of, by the name of their pool."""

    @property
    def file_disks(self) -> Disks | None:
        """Those of each server's disks that new files go to; None where none are described."""

    @property
    def ports(self) -> Sequence[Ports]:
        """Those that all nodes of the cluster, clients too, reach each other on."""
