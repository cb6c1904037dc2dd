"""A Spectrum Scale as the grid spec describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from gridwright.filesystems.scale.administration.desired import SYSTEM_POOL
from gridwright.filesystems.scale.fields import (
    CLUSTER_PORTS,
    NFS_PORTS,
    AfmBucket,
    CallHome,
    CesNfs,
    PagePool,
    PoolMigration,
    PoolName,
    RemoteCluster,
    ScalePackage,
    ServerPair,
    StoragePool,
    Witness,
)
from gridwright.services.ports import Ports
from gridwright.spec.fields import Change, Update
from gridwright.spec.filesystem import NEW_KIND, Disks, FileSystem, Servers
from gridwright.units import Bytes
from gridwright.yamltext.fields import Size, matching

BLOCK_SIZE = Bytes(2 * 2**20)
"""Of file systems that say none (facts 003)."""


class ScaleFileSystem(FileSystem):
    """IBM Spectrum Scale on servers of one's own."""

    type: Annotated[Literal["scale"], NEW_KIND] = Field(
        description="The kind of file system: scale is IBM Spectrum Scale on servers of one's own."
    )
    nsd: Annotated[Servers | None, Update(Change.REBUILD, "disks are added or emptied by hand")] = Field(
        default=None,
        description="The NSD servers: instance or shape, count, and the disks that each is the first server "
        "of. Servers are pairs, and both of a pair reach all its disks. A server with two NICs has one for "
        "clients and one for block volumes.",
    )
    pairs: Annotated[list[ServerPair] | None, Update(Change.ROLLING, "pairs join while others serve")] = (
        Field(
            default=None,
            min_length=1,
            description="NSD servers of a site's own, in place of nsd, such as [{servers: [nsd1, nsd2], "
            "disks: [/dev/disk/by-id/wwn-0x5000c500a1b2c3d4], memory: 768 GiB, site: 1}]. "
            "Both of a pair reach all its disks. With provider site.",
        )
    )
    witness: Annotated[Witness | None, Update(Change.LIVE, "the disk is added while the others serve")] = (
        Field(
            default=None,
            description="With pairs of two sites and replicas: 2, a machine of a third one: what is left of "
            "a site that lost the other then goes on.",
        )
    )
    remote: Annotated[RemoteCluster | None, Update(Change.REBUILD, "nodes mount another file system")] = (
        Field(
            default=None,
            description="The cluster that owns the file system, where the grid's nodes are clients alone; "
            "in place of nsd.",
        )
    )
    block_size: Annotated[
        Size, Update(Change.NEVER, "a file system keeps the block size it was made with")
    ] = Field(default=BLOCK_SIZE, description="Bytes that a file is cut into, such as 4 MiB; at most 16 MiB.")
    pools: Annotated[
        Mapping[PoolName, StoragePool] | None, Update(Change.REBUILD, "pools are added while others serve")
    ] = Field(
        default=None,
        min_length=1,
        description="Storage pools beside that of nsd.disks, which is called system, such as {capacity: "
        "{disks: {type: lower-cost, count: 4, size: 4 TiB}}}. A site names their disks under pairs.",
    )
    default_pool: Annotated[
        PoolName | None, Update(Change.LIVE, "new files go there from then on; others stay where they are")
    ] = Field(
        default=None,
        description="The pool that new files go to. By default system, or the only other one where system "
        "has metadata alone.",
    )
    migrations: Annotated[
        Mapping[PoolName, PoolMigration] | None,
        Update(Change.LIVE, "files move from then on; those that moved stay where they are"),
    ] = Field(
        default=None,
        min_length=1,
        description="What leaves a pool that fills, such as {system: {to: capacity, above: 85, until: 70}}.",
    )
    metadata_only: Annotated[
        bool,
        Update(Change.REBUILD, "data on disks of system are moved by hand, by mmchdisk and mmrestripefs"),
    ] = Field(
        default=False,
        description="Whether pool system has metadata alone, such as small and fast disks, and data are in "
        "other pools.",
    )
    metadata_block_size: Annotated[
        Size | None, Update(Change.NEVER, "a file system keeps the block size it was made with")
    ] = Field(
        default=None,
        description="Block size of pool system where it has metadata alone, such as 1 MiB. Those of data all "
        "have block_size.",
    )
    replicas: Annotated[
        Literal[1, 2], Update(Change.REBUILD, "every file is copied to the other servers")
    ] = Field(
        default=1,
        description="Copies of data and metadata: with 2, each in a failure group of its own, so that a "
        "pair of servers may be lost.",
    )
    pagepool: Annotated[PagePool, Update(Change.ROLLING, "the daemon of each node starts again")] = Field(
        default_factory=PagePool, description="Memory of the daemon's own cache."
    )
    release: Annotated[
        str | None,
        matching(r"^\d{1,2}\.\d{1,2}\.\d{1,2}\.\d{1,2}$", "a release of Scale", "one, such as 5.2.3.1"),
        Update(Change.ROLLING, "nodes are upgraded one after the other, by hand"),
    ] = Field(
        default=None,
        description="The release that nodes are to have, such as 5.2.3.1. Setup tells those that have "
        "another one, and upgrades none.",
    )
    packages: Annotated[
        list[ScalePackage] | None,
        Update(Change.LIVE, "nodes without Scale install them; those that have it keep what they have"),
    ] = Field(
        default=None,
        min_length=1,
        description="The site's licensed packages, such as [{path: scale/gpfs.base-5.2.3-1.x86_64.rpm}, "
        "{url: https://depot/gpfs.gpl-5.2.3-1.noarch.rpm, sha256: ...}], installed where no Scale is "
        "there yet. url_from: NAME is an environment variable that has a secret address.",
    )
    buckets: Annotated[
        list[AfmBucket] | None,
        Update(Change.LIVE, "directories are made beside the others; none is removed"),
    ] = Field(
        default=None,
        min_length=1,
        description="Directories that are caches of buckets by Scale's own AFM, such as [{directory: raw, "
        "bucket: lake-raw, endpoint: https://s3.eu-central-1.amazonaws.com, keys: /root/lake-raw.keys}].",
    )
    nfs: Annotated[
        CesNfs | None, Update(Change.LIVE, "servers, addresses and exports join; none is removed")
    ] = Field(
        default=None,
        description="NFS by Scale's own Cluster Export Services, such as {servers: "
        "[ces1, ces2], addresses: [10.1.0.51, 10.1.0.52], exports: [{path: /gpfs/lake/results, clients: "
        "[10.2.0.0/16]}]}. By default there is none. With pairs, on provider site.",
    )
    callhome: Annotated[CallHome | None, Update(Change.LIVE, "the cluster is told anew")] = Field(
        default=None, description="Whom IBM's support turns to. By default nothing is told to IBM."
    )

    @property
    def ports(self) -> Sequence[Ports]:
        """Those that the nodes of its cluster reach each other on, and those that clients of NFS reach."""
        return CLUSTER_PORTS if self.nfs is None else (*CLUSTER_PORTS, *NFS_PORTS)

    @property
    def server_groups(self) -> Mapping[str, Servers]:
        """The NSD servers."""
        return {} if self.nsd is None else {"nsd": self.nsd}

    @property
    def is_built(self) -> bool:
        """Whether the provider makes its servers; those of pairs are a site's own."""
        return self.nsd is not None

    @property
    def pool_names(self) -> tuple[str, ...]:
        """Pools beside system, in the order that the spec has them."""
        of_pairs = [name for pair in self.pairs or () for name in pair.pools or ()]
        return tuple(dict.fromkeys([*(self.pools or ()), *of_pairs]))

    @property
    def file_pool(self) -> str:
        """The pool that new files go to."""
        if self.default_pool is not None:
            return self.default_pool
        return self.pool_names[0] if self.metadata_only else SYSTEM_POOL

    @property
    def pool_disks(self) -> Mapping[str, Disks]:
        """Disks of each server in pools beside system, by pool."""
        return {name: pool.disks for name, pool in (self.pools or {}).items()}

    @property
    def file_disks(self) -> Disks | None:
        """Those disks of each server that new files go to; None where none are described."""
        if self.nsd is None:
            return None
        return self.pool_disks.get(self.file_pool, self.nsd.disks)
