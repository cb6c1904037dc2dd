"""The health and the counters of an NFS mount: whether its server answers, and whether its options do harm.

Counters are those of /proc/self/mountstats, read without touching a mount: the format of nfs_show_stats
(fs/nfs/super.c) and of rpc_clnt_show_stats and xs_tcp_print_stats (net/sunrpc) of Linux 3.x to 6.x, of which
later ones have more fields at the end of a line. `WATCHER` answers a monitor.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.errors import Finding
from gridwright.filesystems.counters import Counts, FigureSource, ReadCounts, TrafficCount
from gridwright.filesystems.health import (
    Condition,
    Health,
    Run,
    Server,
    gravest_first,
    read_free_space,
    space_findings,
)
from gridwright.filesystems.mounts import LIMIT_S, Mount, mount_of, read_mounts, unescaped
from gridwright.filesystems.nfs_client import MOUNT_TYPE, NFS_TRANSFER_BYTES
from gridwright.units import format_bytes, format_rate

SENT_AGAIN = 0.001
"""Part of all calls sent again from which a network or a server is in trouble: over TCP there are none but
after a broken connection (nfs(5), timeo)."""
FEWEST_CALLS = 1000
"""Below this many calls a part of them means nothing."""
ONE_CONNECTION_BYTES_PER_S = 625e6
"""One flow of AWS passes 5 Gbit/s outside a placement group (EC2 user guide, network bandwidth)."""


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
            findings=gravest_first(findings),
            servers=[Server(name=server, up=False, state="does not answer")],
        )
    findings += space_findings(space)
    levels = {finding.level for finding in findings}
    condition = Condition.DEGRADED if levels & {"error", "warning"} else Condition.HEALTHY
    return Health(
        condition=condition,
        findings=gravest_first(findings),
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


_BYTES = (
    "normal_read",
    "normal_write",
    "direct_read",
    "direct_write",
    "server_read",
    "server_write",
    "read_pages",
    "write_pages",
)
"""Of the line `bytes:` (struct nfs_iostats, enum nfs_stat_bytecounters)."""
_EVENTS = (
    "inode_revalidate",
    "dentry_revalidate",
    "data_invalidate",
    "attribute_invalidate",
    "vfs_open",
    "vfs_lookup",
    "vfs_access",
    "vfs_update_page",
    "vfs_read_page",
    "vfs_read_pages",
    "vfs_write_page",
    "vfs_write_pages",
    "vfs_getdents",
    "vfs_setattr",
    "vfs_flush",
    "vfs_fsync",
    "vfs_lock",
    "vfs_release",
    "congestion_wait",
    "truncation",
    "extended_write",
    "silly_rename",
    "short_read",
    "short_write",
    "jukebox_delay",
    "pnfs_read",
    "pnfs_write",
)
"""Of the line `events:` (enum nfs_stat_eventcounters)."""
_MOST_DIGITS = 20
_AGES_DIFFER_S = 2.0
"""More than the age's whole seconds can make: the mount was made anew."""


@dataclass(frozen=True, slots=True)
class Calls:
    """What became of one kind of call, since the mount was made; times are sums over all calls."""

    operations: int
    sent: int
    """Transmissions: more than operations where some were sent again."""
    timeouts: int
    bytes_sent: int
    bytes_received: int
    queue_s: float
    round_trip_s: float
    execute_s: float
    """From the call to its answer, with waiting in the queue."""
    errors: int | None
    """Since Linux 5.3."""

    @property
    def sent_again(self) -> int:
        """Transmissions that were no first ones."""
        return max(0, self.sent - self.operations)


@dataclass(frozen=True, slots=True)
class Transport:
    """One connection of a mount."""

    protocol: str
    sends: int | None
    receives: int | None
    connects: int | None
    idle_s: int | None


@dataclass(frozen=True, slots=True)
class MountStats:
    """What one NFS mount has counted since it was made."""

    source: str
    point: str
    options: Mapping[str, str]
    age_s: int | None
    bytes: Mapping[str, int] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    transports: tuple[Transport, ...] = ()
    calls: Mapping[str, Calls] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """The version spoken, such as 4.2; empty where it is not told."""
        return self.options.get("vers", "")


def read_mountstats(run: Run) -> list[MountStats]:
    """All NFS mounts of the node. Raises GridwrightError (status ENVIRONMENT) where it does not answer."""
    answer = run(["cat", "/proc/self/mountstats"], timeout_s=LIMIT_S)
    return parse_mountstats(answer.stdout.decode(errors="replace"))


def parse_mountstats(text: str) -> list[MountStats]:
    """The NFS mounts of /proc/self/mountstats; lines that cannot be understood are passed over."""
    return [_mount(head, lines) for head, lines in _sections(text)]


def stats_of(point: str, mounts: list[MountStats]) -> MountStats | None:
    """The mount at `point`; of several the last, which is on top."""
    return next((mount for mount in reversed(mounts) if mount.point == point), None)


class MountCounter:
    """Reads what the client moved to and from the server of one mount: bytes and calls on the wire."""

    def __init__(self, run: Run, path: str) -> None:
        """`path` is below the mount point."""
        self._run = run
        self._path = path
        self._since_s: float | None = None

    def read(self) -> Counts:
        """The counts by the mount point; none where no NFS is mounted there.

        The clock is that of this process. Raises GridwrightError (status ENVIRONMENT) where the node does not
        answer.
        """
        mount = mount_of(self._path, read_mounts(self._run))
        stats = stats_of(mount.point, read_mountstats(self._run)) if mount else None
        return {} if stats is None else {stats.point: self.count(stats, time.monotonic())}

    def count(self, stats: MountStats, at_s: float) -> TrafficCount:
        """What a mount has counted, read at `at_s`."""
        reads, writes = stats.calls.get("READ"), stats.calls.get("WRITE")
        return TrafficCount(
            at_s=at_s,
            since_s=self._since(at_s, stats.age_s),
            read_bytes=stats.bytes.get("server_read", 0),
            written_bytes=stats.bytes.get("server_write", 0),
            reads=reads.operations if reads else 0,
            writes=writes.operations if writes else 0,
            waited_s=sum(each.execute_s for each in (reads, writes) if each),
            server=stats.source.rpartition(":/")[0].strip("[]"),
            target=stats.point,
        )

    def _since(self, at_s: float, age_s: int | None) -> float | None:
        """When the mount was made: the first value that was seen of it, as its age is in whole seconds."""
        if age_s is None:
            return None
        since = at_s - age_s
        if self._since_s is None or abs(since - self._since_s) > _AGES_DIFFER_S:
            self._since_s = since
        return self._since_s


def _sections(text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    head: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(("device ", "no device ")):
            if head is not None:
                yield head, lines
            head = re.match(r"device (.+) mounted on (.+) with fstype (nfs4?)(?: statvers=\S+)?\s*$", line)
            lines = []
        elif head is not None:
            lines.append(line.strip())
    if head is not None:
        yield head, lines


def _mount(head: re.Match[str], lines: list[str]) -> MountStats:
    options: dict[str, str] = {}
    age: int | None = None
    counters: dict[str, int] = {}
    events: dict[str, int] = {}
    transports: list[Transport] = []
    calls: dict[str, Calls] = {}
    for line in lines:
        name, colon, rest = line.partition(":")
        if not colon:
            continue
        match name:
            case "opts":
                options = {
                    key: value for key, _, value in (o.partition("=") for o in rest.strip().split(","))
                }
            case "age":
                age = _whole(rest)
            case "bytes":
                counters = _named(_BYTES, rest)
            case "events":
                events = _named(_EVENTS, rest)
            case "xprt":
                transports += _transport(rest.split())
            case _ if name.isupper() and (found := _calls(rest.split())) is not None:
                calls[name] = found
    return MountStats(
        unescaped(head[1]), unescaped(head[2]), options, age, counters, events, tuple(transports), calls
    )


def _calls(words: list[str]) -> Calls | None:
    numbers = [_whole(word) for word in words]
    if len(numbers) < 8 or any(number is None for number in numbers[:8]):
        return None
    n = [number or 0 for number in numbers]
    errors = n[8] if len(n) > 8 else None
    return Calls(n[0], n[1], n[2], n[3], n[4], n[5] / 1000, n[6] / 1000, n[7] / 1000, errors)


def _transport(words: list[str]) -> list[Transport]:
    """A connection: `tcp port binds connects connect-time idle sends receives`, `udp port binds sends`."""
    if not words:
        return []
    numbers = [_whole(word) for word in words[1:]]
    places = {"tcp": (5, 6, 2, 4), "rdma": (5, 6, 2, 4), "udp": (2, 3, None, None)}.get(words[0])
    if places is None:
        return [Transport(words[0], None, None, None, None)]
    types = [numbers[place] if place is not None and place < len(numbers) else None for place in places]
    return [Transport(words[0], *types)]


def _named(names: tuple[str, ...], rest: str) -> dict[str, int]:
    numbers = (_whole(word) for word in rest.split())
    return {name: number for name, number in zip(names, numbers, strict=False) if number is not None}


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(rf"\s*[0-9]{{1,{_MOST_DIGITS}}}\s*", text, re.ASCII) else None


class NfsWatcher:
    """Answers for clients; see `FileSystemKind`."""

    def mount_counters(self, run: Run, mount_point: str, root: Path | None = None) -> ReadCounts:
        """Of the mount, on the wire."""
        return MountCounter(run, mount_point).read

    def server_figures(self, run: Run, root: Path) -> Mapping[str, FigureSource]:
        """Nothing: servers of NFS are no business of a grid."""
        return {}


WATCHER = NfsWatcher()
