"""The health of an NFS mount: whether its server answers, and whether its options risk data or cost speed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gridwright.errors import Finding
from gridwright.filesystems.health import Condition, Health, Run, Server, read_free_space, space_findings
from gridwright.filesystems.mounts import Mount, mount_of, read_mounts
from gridwright.filesystems.nfs_client import MOUNT_TYPE, NFS_TRANSFER_BYTES
from gridwright.filesystems.nfs_client.mountstats import MountStats, read_mountstats, stats_of
from gridwright.units import format_bytes, format_rate

SENT_AGAIN = 0.001
"""Part of all calls sent again from which a network or a server is in trouble: over TCP there are none but
after a broken connection (nfs(5), timeo)."""
FEWEST_CALLS = 1000
"""Below this many calls a part of them means nothing."""
ONE_CONNECTION_BYTES_PER_S = 625e6
"""One flow of AWS passes 5 Gbit/s outside a placement group (EC2 user guide, network bandwidth)."""
_ORDER = ("error", "warning", "info")


def health(
    run: Run,
    mount_point: str,
    version: str = "",
    *,
    nic_bytes_per_s: float | None = None,
) -> Health:
    """How the NFS mount that holds `mount_point` is; `version` is the one that the spec says, if it says any.

    Nothing but the free space is asked of the server, in a child that is given up after some seconds. Raises
    GridwrightError (status ENVIRONMENT) where the node itself does not answer.
    """
    mount = mount_of(mount_point, read_mounts(run))
    if mount is None or mount.type not in (MOUNT_TYPE, "nfs4"):
        there = f"there is {mount.type} of {mount.source}" if mount else "nothing is mounted there"
        return Health(condition=Condition.BROKEN, findings=[_not_mounted(mount_point, there)])
    stats = stats_of(mount.point, read_mountstats(run))
    findings = [*option_findings(mount, version)]
    if stats is not None:
        findings += count_findings(stats)
        findings += connection_findings(stats, nic_bytes_per_s)
    space = read_free_space(run, mount.point)
    server = _server(mount.source)
    if isinstance(space, str):
        findings.append(_silent(mount.point, space))
        return Health(
            condition=Condition.SILENT,
            findings=_sorted(findings),
            servers=[Server(name=server, up=False, state="does not answer")],
        )
    findings += space_findings(space)
    levels = {finding.level for finding in findings}
    condition = Condition.DEGRADED if levels & {"error", "warning"} else Condition.HEALTHY
    return Health(
        condition=condition,
        findings=_sorted(findings),
        servers=[Server(name=server, up=True, state="answers", capacity_bytes=space.total_bytes)],
        capacity_bytes=space.total_bytes,
        available_bytes=space.available_bytes,
    )


def option_findings(mount: Mount, version: str) -> Iterator[Finding]:
    """What the options of a mount, as the kernel shows them, put at risk or cost."""
    if mount.option("soft") is not None or mount.option("softerr") is not None:
        yield Finding(
            "error",
            "nfs-soft",
            f"{mount.point} is mounted soft: when the server is slow, writes are given up and data are lost "
            "without the job being told in every case (nfs(5))",
            "Mount it hard",
        )
    if (protocol := mount.option("proto")) and protocol.startswith("udp"):
        yield Finding(
            "error",
            "nfs-udp",
            f"{mount.point} is mounted over UDP: above 1 Gbit/s its fragments are mixed up and data are "
            "corrupted silently (nfs(5), Using NFS over UDP)",
            "Mount it with proto=tcp",
        )
    local = mount.option("local_lock")
    if mount.option("nolock") is not None or local not in (None, "none"):
        yield Finding(
            "error",
            "nfs-local-locks",
            f"{mount.point} keeps locks on the node ({f'local_lock={local}' if local else 'nolock'}): "
            "two nodes get the same lock, and data that both write are lost",
            "Mount it without nolock and local_lock",
        )
    for name in ("rsize", "wsize"):
        size = mount.option(name)
        if size and re.fullmatch("[0-9]{1,12}", size) and int(size) < NFS_TRANSFER_BYTES:
            yield Finding(
                "warning",
                f"nfs-{name}-small",
                f"{mount.point} has {name} {format_bytes(int(size))}, and the client can do "
                f"{format_bytes(NFS_TRANSFER_BYTES)}: each call moves less than it could",
                f"Mount it with {name}={NFS_TRANSFER_BYTES}; where it stays, raise the server's limit "
                "(/proc/fs/nfsd/max_block_size)",
            )
    if mount.option("noac") is not None or mount.option("sync") is not None:
        yield Finding(
            "warning",
            "nfs-uncached",
            f"{mount.point} is mounted {'noac' if mount.option('noac') is not None else 'sync'}: each write "
            "waits for the server, several times slower",
            "Mount it without; files that several nodes write at once need locks in any case",
        )
    yield from _version(mount, version)


def _version(mount: Mount, wanted: str) -> Iterator[Finding]:
    spoken = mount.option("vers") or ""
    if wanted and spoken and spoken != wanted:
        yield Finding(
            "warning",
            "nfs-version-differs",
            f"{mount.point} speaks NFS {spoken}, and the spec says {wanted}: locks, copies within the server "
            "and recovery work differently",
            f"Mount it with vers={wanted}; where the server refuses that, correct version: in the spec",
        )


def count_findings(stats: MountStats) -> Iterator[Finding]:
    """What the counters of a mount tell of its network and server."""
    operations = sum(call.operations for call in stats.calls.values())
    again = sum(call.sent_again for call in stats.calls.values())
    timeouts = sum(call.timeouts for call in stats.calls.values())
    if operations >= FEWEST_CALLS and again > SENT_AGAIN * operations:
        yield Finding(
            "warning",
            "nfs-sent-again",
            f"{stats.point}: {again} of {operations} calls ({100 * again / operations:.1f} %) were sent "
            f"again, {timeouts} timed out: its network or its server drops connections",
            "See dmesg for `not responding`, and the server's load and threads (/proc/fs/nfsd/threads)",
        )


def connection_findings(stats: MountStats, nic_bytes_per_s: float | None) -> Iterator[Finding]:
    """One connection on a card that could carry several."""
    tcp = [transport for transport in stats.transports if transport.protocol == "tcp"]
    if nic_bytes_per_s and len(tcp) == 1 and nic_bytes_per_s > ONE_CONNECTION_BYTES_PER_S:
        yield Finding(
            "info",
            "nfs-one-connection",
            f"{stats.point} has one connection on a network of {format_rate(nic_bytes_per_s)}: one flow of a "
            f"cloud passes {format_rate(ONE_CONNECTION_BYTES_PER_S)}, and one core works for it",
            "Write connections: 4 in the spec, and mount it anew (nconnect; it holds for the first mount "
            "of a server)",
        )


def _silent(point: str, reason: str) -> Finding:
    return Finding(
        "error",
        "filesystem-silent",
        f"{point} does not answer: {reason}. What touches it waits until the server is back",
        "See whether the server is up and its export is there (showmount -e, rpcinfo -t SERVER nfs)",
    )


def _server(source: str) -> str:
    """`nfs1` out of `nfs1:/export`, `fe80::1` out of `[fe80::1]:/export`."""
    return source.rpartition(":/")[0].strip("[]") or source


def _not_mounted(mount_point: str, there: str) -> Finding:
    return Finding(
        "error",
        "filesystem-not-mounted",
        f"no NFS is mounted at {mount_point}: {there}",
        f"mount {mount_point}",
    )


def _sorted(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda each: _ORDER.index(each.level))
