"""The commands that make a cluster out of nothing, in the order that Scale takes them. Pure.

Each names a file of stanzas by what it has; who carries it out writes the file first. Of the policy of a file
system, rules that others wrote are never removed: where there are any, it is left as it is, and what lacks is
told. Nodes run this with Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from gridwright.filesystems.scale.administration.desired import (
    CALLBACK,
    SYSTEM_POOL,
    DesiredBucket,
    DesiredFileSystem,
    DesiredNode,
    DesiredNsd,
    DesiredSetting,
    ScaleCluster,
)
from gridwright.filesystems.scale.administration.observed import records

BIN = "/usr/lpp/mmfs/bin"
STANZAS = "{stanzas}"
"""Stands in a command for the path of its file of stanzas."""


@dataclass(frozen=True)
class ScaleCommand:
    """One command of the administration."""

    argv: tuple[str, ...]
    why: str
    stanzas: str = ""
    """The content of the file that the command reads; empty where it reads none."""
    limit_s: float = 600.0
    """After so many seconds it hangs."""

    @property
    def name(self) -> str:
        """The command's own name."""
        return self.argv[0].rpartition("/")[2]


def commands(cluster: ScaleCluster) -> tuple[ScaleCommand, ...]:
    """All of it, from the first node to the mount on all nodes."""
    return (*_cluster(cluster), *_licences(cluster), *_nsds(cluster), *_configured(cluster), *_files(cluster))


def mm(name: str, *words: str, why: str, stanzas: str = "", limit_s: float = 600.0) -> ScaleCommand:
    """A command by its name and words."""
    return ScaleCommand(argv=(f"{BIN}/{name}", *words), why=why, stanzas=stanzas, limit_s=limit_s)


def _cluster(cluster: ScaleCluster) -> Iterator[ScaleCommand]:
    yield mm(
        "mmcrcluster",
        *("-N", STANZAS, "-r", "/usr/bin/ssh", "-R", "/usr/bin/scp", "-C", cluster.name, "-A"),
        why=f"make the cluster of {len(cluster.nodes)} nodes, {len(cluster.quorum)} of them with a vote",
        stanzas=node_lines(cluster.nodes),
    )
    for name, members in cluster.node_classes.items():
        yield mm("mmcrnodeclass", name, "-N", ",".join(members), why=f"name the class {name}")


def _licences(cluster: ScaleCluster) -> Iterator[ScaleCommand]:
    """Before NSDs and the daemon, which want them."""
    for kind in ("server", "client"):
        names = [node.name for node in cluster.nodes if node.licence == kind]
        if names:
            yield mm(
                "mmchlicense",
                *(kind, "--accept", "-N", ",".join(names)),
                why=f"give {len(names)} nodes the licence of a {kind}",
            )


def _nsds(cluster: ScaleCluster) -> Iterator[ScaleCommand]:
    if cluster.nsds:
        yield nsds_command(cluster.nsds)


def nsds_command(nsds: Sequence[DesiredNsd]) -> ScaleCommand:
    """Make NSDs. A disk that has an NSD's ID is refused (-v yes, the default), and never written over."""
    return mm(
        *("mmcrnsd", "-F", STANZAS, "-v", "yes"),
        why=f"write the IDs of {len(nsds)} disks",
        stanzas=nsd_stanzas(nsds),
        limit_s=1800.0,
    )


def add_nodes(nodes: Sequence[DesiredNode]) -> ScaleCommand:
    """Take nodes into a cluster that is there."""
    return mm(
        *("mmaddnode", "-N", STANZAS),
        why=f"add {len(nodes)} nodes to the cluster",
        stanzas=node_lines(nodes),
    )


def _configured(cluster: ScaleCluster) -> Iterator[ScaleCommand]:
    for node_class, settings in groupby(cluster.settings, key=lambda each: each.node_class):
        yield change_settings(tuple(settings), node_class)
    if cluster.tiebreakers:
        yield mm(
            "mmchconfig",
            f"tiebreakerDisks={';'.join(cluster.tiebreakers)}",
            why="two nodes have a vote: with disks that both see, one of them may die",
        )
    if cluster.servers:
        yield mm("mmstartup", "-N", ",".join(cluster.servers), why="start the servers")
    clients = [node.name for node in cluster.nodes if not node.is_server]
    if clients:
        yield mm("mmstartup", "-N", ",".join(clients), why="start the clients")


def change_settings(settings: tuple[DesiredSetting, ...], node_class: str | None) -> ScaleCommand:
    """Set attributes of one class, or of all nodes."""
    assigned = ",".join(f"{setting.parameter}={setting.value}" for setting in settings)
    where = ("-N", node_class) if node_class else ()
    return mm("mmchconfig", assigned, *where, why=f"configure {node_class or 'all nodes'}")


def _files(cluster: ScaleCluster) -> Iterator[ScaleCommand]:
    for filesystem in cluster.filesystems:
        yield make_filesystem(cluster, filesystem)
        # Before the first file is made.
        if filesystem.rules:
            yield install_policy(filesystem)
    if any(each.migrates for each in cluster.filesystems):
        yield full_pool_callback()
    if cluster.filesystems:
        yield mm("mmmount", "all", "-a", why="mount everywhere", limit_s=900.0)
    if cluster.callhome:
        yield mm(
            "mmcallhome",
            *("info", "change", "--customer-name", cluster.callhome["company"]),
            *("--customer-id", cluster.callhome["id"], "--country-code", cluster.callhome["country"]),
            *("--email", cluster.callhome["email"]),
            why="tell IBM's support who calls",
        )


def make_filesystem(cluster: ScaleCluster, desired: DesiredFileSystem) -> ScaleCommand:
    """Make one file system on its NSDs; the most copies are two, so that copies can be added later."""
    disks = disks_of(cluster, desired.name)
    metadata = desired.metadata_block_size
    return mm(
        "mmcrfs",
        *(desired.name, "-F", STANZAS, "-B", str(desired.block_size)),
        *("-m", str(desired.metadata_replicas), "-M", "2", "-r", str(desired.data_replicas), "-R", "2"),
        *(("--metadata-block-size", str(metadata)) if metadata else ()),
        *(("-k", desired.acls) if desired.acls else ()),
        *("-T", desired.mount_point, "-A", "yes", "-v", "yes"),
        why=f"make {desired.name} on {len(desired.nsds)} disks",
        stanzas=pool_stanzas(disks) + nsd_stanzas(disks),
        limit_s=3600.0,
    )


def add_disks(filesystem: str, new: Sequence[DesiredNsd], pools: Collection[str]) -> ScaleCommand:
    """Add NSDs to a file system; those of a pool that is none of `pools` make it."""
    made = pool_stanzas(nsd for nsd in new if nsd.pool not in pools)
    return mm(
        *("mmadddisk", filesystem, "-F", STANZAS, "-v", "yes"),
        why=f"add {len(new)} disks to {filesystem}",
        stanzas=made + nsd_stanzas(new),
        limit_s=3600.0,
    )


def install_policy(desired: DesiredFileSystem) -> ScaleCommand:
    """Say where files go in its pools; mmchpolicy reads the rules before it takes them."""
    return mm(
        *("mmchpolicy", desired.name, STANZAS, "-I", "yes"),
        why=f"say where files of {desired.name} go",
        stanzas=policy_text(desired.rules),
    )


def full_pool_callback() -> ScaleCommand:
    """Have a full pool run the rules of migration, one run at a time (mmstartpolicy command)."""
    return mm(
        *("mmaddcallback", CALLBACK, "--command", f"{BIN}/mmstartpolicy"),
        *("--event", "lowDiskSpace,noDiskSpace", "--parms", "%eventName %fsName --single-instance"),
        why="have files leave pools that fill",
    )


def node_lines(nodes: Iterable[DesiredNode]) -> str:
    """Node descriptors, `NodeName:NodeDesignations`, one on a line."""
    return "".join(f"{node.name}:{designations(node)}\n" for node in nodes)


def designations(node: DesiredNode) -> str:
    """Whether it has a vote, and is a manager: `quorum-manager`."""
    quorum = "quorum" if node.is_quorum else "nonquorum"
    return f"{quorum}-{'manager' if node.is_manager else 'client'}"


def nsd_stanzas(nsds: Iterable[DesiredNsd]) -> str:
    """NSD stanzas: device, name, servers with the first one first, usage, failure group and pool."""
    return "\n".join(_nsd(nsd) for nsd in nsds)


def pool_stanzas(nsds: Iterable[DesiredNsd]) -> str:
    """Pool stanzas of the pools of these disks, empty where all are of one pool.

    How blocks are laid out is said once for each pool and stays (mmcrfs command): scattered, as a grid grows.
    Scale itself clusters them where eight nodes or disks or fewer are there at first.
    """
    usages = {nsd.pool: nsd.usage for nsd in nsds if nsd.usage != "descOnly"}
    if set(usages) <= {SYSTEM_POOL}:
        return ""
    return "".join(
        f"%pool: pool={pool}\n  usage={usage}\n  layoutMap=scatter\n\n" for pool, usage in usages.items()
    )


def _nsd(nsd: DesiredNsd) -> str:
    lines = [
        f"%nsd: device={nsd.device}",
        f"  nsd={nsd.name}",
        f"  servers={','.join(nsd.servers)}",
        f"  usage={nsd.usage}",
        f"  failureGroup={nsd.failure_group}",
    ]
    # A disk without data is in no pool but the first.
    lines += [f"  pool={nsd.pool}"] if nsd.usage != "descOnly" else []
    return "\n".join(lines) + "\n"


def disks_of(cluster: ScaleCluster, filesystem: str) -> tuple[DesiredNsd, ...]:
    """The NSDs of a file system, in the order that it has them."""
    by_name = {nsd.name: nsd for nsd in cluster.nsds}
    (desired,) = (each for each in cluster.filesystems if each.name == filesystem)
    return tuple(by_name[name] for name in desired.nsds)


OWN = "gridwright-"
"""Begins the names of rules that are the grid's."""
_HEAD = "/* By Gridwright, from the grid spec. It changes rules whose names begin with gridwright-. */\n"
_TOKEN = re.compile(r"/\*.*?\*/|'(?:[^']|'')*'|\s+|\w+|.", re.DOTALL)
"""A comment, a text, space, a word or anything else (IBM Storage Scale, policy rules: syntax)."""


def policy_text(rules: Sequence[str]) -> str:
    """The file that mmchpolicy reads."""
    return _HEAD + "".join(f"{rule}\n" for rule in rules)


def statements(text: str) -> tuple[str, ...]:
    """Rules of a policy, without comments and with single spaces.

    What stands before the first one, such as macros, is a statement, too, where there is a rule at all: of a
    file system without a policy a sentence is printed that says so.
    """
    found: list[str] = []
    current: list[str] = []
    has_rule = False
    for token in _TOKEN.findall(text):
        if token.startswith("/*"):
            continue
        if token.upper() == "RULE":
            has_rule = True
            found.append("".join(current).strip())
            current = []
        current.append(" " if token.isspace() else token)
    found.append("".join(current).strip())
    if not has_rule:
        return ()
    # Comments leave two spaces behind; those of a text between quotes are its own.
    return tuple(_single_spaced(each) for each in found if each)


def _single_spaced(statement: str) -> str:
    parts = re.split(r"('(?:[^']|'')*')", statement)
    return "".join(part if part.startswith("'") else re.sub(r"\s+", " ", part) for part in parts).strip()


def is_own(statement: str) -> bool:
    """Whether a rule is the grid's."""
    return re.match(rf"RULE '{OWN}", statement, re.IGNORECASE) is not None


def pools_named(rules: Sequence[str]) -> frozenset[str]:
    """Pools that rules put files in, or take them from."""
    return frozenset(name for rule in rules for name in re.findall(r"POOL '([^']+)'", rule))


class PolicyDifference:
    """What an installed policy has otherwise than it should."""

    def __init__(self, desired: Sequence[str], installed: str) -> None:
        """`installed` is what `mmlspolicy DEVICE -L` printed."""
        there, should = statements(installed), statements(policy_text(desired))
        own = tuple(each for each in there if is_own(each))
        self.others = tuple(each for each in there if not is_own(each))
        self.lacking = tuple(each for each in should if each not in own)
        self.outdated = tuple(each for each in own if each not in should)

    @property
    def differs(self) -> bool:
        """Whether anything is to be changed, by the grid or by hand."""
        return bool(self.lacking or self.outdated)


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
