"""Directories that are caches of buckets, made by Scale's AFM to cloud object storage.

A gateway first, then the keys, then the fileset, which is linked as it is made (IBM Storage Scale, commands
mmchnode, mmafmcoskeys and mmafmcosconfig). Nodes run this with Python 3.9.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gridwright.filesystems.scale.administration.desired import DesiredBucket, ScaleCluster
from gridwright.filesystems.scale.administration.order import ScaleCommand, mm
from gridwright.filesystems.scale.administration.y_format import records

GATEWAYS = 2
"""Servers that talk with object stores: with two, one may die."""


def filesets_of(printed: str) -> frozenset[str]:
    """Out of `mmlsfileset DEVICE -Y`."""
    return frozenset(
        row["filesetName"] for rows in records(printed).values() for row in rows if row.get("filesetName")
    )


def bucket_commands(cluster: ScaleCluster, there: Collection[str]) -> Iterator[ScaleCommand]:
    """What makes those whose fileset is not there; a fileset of that name is left as it is."""
    new = [each for each in cluster.buckets if each.fileset not in there]
    if not new:
        return
    gateways = ",".join(cluster.servers[:GATEWAYS])
    yield mm("mmchnode", "--gateway", "-N", gateways, why=f"{gateways} talk with object stores")
    for name in dict.fromkeys((each.bucket, _server(each), each.keys) for each in new):
        bucket, server, keys = name
        yield mm(
            *("mmafmcoskeys", f"{bucket}:{server}", "set", "--keyfile", keys),
            why=f"the keys of bucket {bucket}",
        )
    for each in new:
        yield mm(
            *("mmafmcosconfig", each.filesystem, each.fileset, "--endpoint", _endpoint(each), "--object-fs"),
            *("--bucket", each.bucket, *(("--prefix", each.prefix) if each.prefix else ())),
            *("--mode", each.mode),
            why=f"directory {each.fileset} shows bucket {each.bucket}",
        )


def _endpoint(bucket: DesiredBucket) -> str:
    """`https://REGION@HOST:PORT`, as mmafmcosconfig takes it."""
    scheme, _, host = bucket.endpoint.partition("://")
    return f"{scheme}://{bucket.region}@{host}" if bucket.region else bucket.endpoint


def _server(bucket: DesiredBucket) -> str:
    """`REGION@HOST`, as mmafmcoskeys takes it: a port is no part of it."""
    host = bucket.endpoint.partition("://")[2].partition(":")[0]
    return f"{bucket.region}@{host}" if bucket.region else host
