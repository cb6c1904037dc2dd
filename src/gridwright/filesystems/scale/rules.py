"""Rules between fields of a Scale file system, each with its reason and the nearest value that is right.

They are those of facts oci-scale (2026-11-22), "Rules a generator must hold", by their numbers. What no spec
can break (6 and 7: maxMBpS and names of NSDs) `cluster` holds by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.filesystems.scale.buckets import bucket_problems
from gridwright.filesystems.scale.model import BLOCK_SIZE
from gridwright.filesystems.scale.nfs_rules import nfs_problems
from gridwright.filesystems.scale.packages import package_problems
from gridwright.filesystems.scale.pool_rules import MOST_ATTACHED, pool_problems
from gridwright.filesystems.scale.site_rules import owner_problems, pair_problems
from gridwright.spec.filesystem import INSTANCE_STORE
from gridwright.units import Bytes, UnitError
from gridwright.yamltext.fields import FieldError

KIB = 2**10
BLOCK_SIZES = tuple(Bytes(each * KIB) for each in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384))
"""Those that a file system can have (IBM Storage Scale, mmcrfs command)."""
LARGEST_SHARE = 0.5
"""Of a node's memory: the rest is for the kernel, min_free_kbytes and what runs beside the daemon."""

_Problem = tuple[tuple[str, ...], FieldError]


def scale_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """What is wrong between fields, as plain data; whatever has the wrong type is passed over."""
    yield from owner_problems(fields)
    yield from pair_problems(fields)
    yield from package_problems(fields)
    yield from bucket_problems(fields)
    yield from nfs_problems(fields)
    yield from pool_problems(fields)
    servers = fields.get("nsd")
    if isinstance(servers, Mapping):
        yield from _pairs(fields, servers)
        yield from _disks(servers)
    yield from _block_size("block_size", fields.get("block_size", str(BLOCK_SIZE)))
    yield from _block_size("metadata_block_size", fields.get("metadata_block_size"))
    yield from _page_pool(fields)


def _pairs(fields: Mapping[str, Any], servers: Mapping[str, Any]) -> Iterator[_Problem]:
    """Rules 1, 2 and 3: servers are pairs, and copies of data are at different pairs."""
    count = servers.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        return
    if count % 2:
        yield (
            ("nsd", "count"),
            FieldError(
                f"{count} NSD server{'s are' if count > 1 else ' is'} no pairs: a disk has a first server, "
                "and a second one that goes on with it when the first dies",
                f"write {count + 1}",
            ),
        )
    if fields.get("replicas") == 2 and count < 4:
        yield (
            ("replicas",),
            FieldError(
                f"two copies need two pairs of servers, each a failure group of its own, and there are "
                f"{count} servers",
                "write replicas: 1, or nsd: {count: 4}",
            ),
        )


def _disks(servers: Mapping[str, Any]) -> Iterator[_Problem]:
    """Rules 8 and 9: both of a pair attach all its volumes, which outlive them."""
    disks = servers.get("disks")
    if not isinstance(disks, Mapping):
        return
    if disks.get("type") == INSTANCE_STORE:
        yield (
            ("nsd", "disks", "type"),
            FieldError(
                "disks of the machine itself are lost with it, and its pair does not reach them",
                "write a type of block volume, such as balanced on OCI and io2 on AWS",
            ),
        )
    count = disks.get("count")
    if isinstance(count, int) and 2 * count > MOST_ATTACHED:
        yield (
            ("nsd", "disks", "count"),
            FieldError(
                f"a server attaches the disks of its pair, 2 x {count}, and {MOST_ATTACHED} are the most",
                f"write {MOST_ATTACHED // 2}, or more servers",
            ),
        )


def _block_size(field: str, given: Any) -> Iterator[_Problem]:  # noqa: ANN401
    """Rule 4: a block size that maxblocksize, 16 MiB, lets in; it never changes later."""
    if given is None:
        return
    try:
        size = Bytes.parse(given)
    except UnitError:
        return
    if size not in BLOCK_SIZES:
        near = min(BLOCK_SIZES, key=lambda each: (abs(each - size), -each))
        yield (
            (field,),
            FieldError(
                f"{size} is no block size of Scale, whose are powers of two from {BLOCK_SIZES[0]} to "
                f"{BLOCK_SIZES[-1]}; a file system keeps its own for good",
                f"write {near}",
            ),
        )


def _page_pool(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """Rule 5: pinned memory that the node has beside what its kernel keeps free."""
    given = fields.get("pagepool")
    if not isinstance(given, Mapping):
        return
    for name in ("servers", "clients"):
        share = given.get(name)
        if isinstance(share, int | float) and not isinstance(share, bool) and share > LARGEST_SHARE:
            yield (
                ("pagepool", name),
                FieldError(
                    f"a page pool of {share:g} of the memory is pinned, and leaves too little for the "
                    "kernel and for jobs",
                    f"write {LARGEST_SHARE:g}, which is the most",
                ),
            )
