"""Disks and servers of a grid spec in a few words."""

from __future__ import annotations

from gridwright.spec.filesystem import INSTANCE_STORE, Disks, Servers


def disks_words(disks: Disks) -> str:
    """`8 x 2 TiB gp3`, or `instance store (4 disks)`."""
    if disks.type == INSTANCE_STORE:
        return "instance store" if disks.count is None else f"instance store ({disks.count} disks)"
    words = [f"{disks.count or 1} x {disks.size} {disks.type}" if disks.size else disks.type]
    words += [f"{disks.iops} IOPS"] if disks.iops else []
    words += [str(disks.throughput)] if disks.throughput else []
    return " ".join(words)


def servers_words(role: str, servers: Servers) -> str:
    """`on 4 OSS c5n.9xlarge with 8 x 2 TiB gp3 each`."""
    text = f"on {servers.count} {role.upper()} {servers.instance}"
    return text if servers.disks is None else f"{text} with {disks_words(servers.disks)} each"
