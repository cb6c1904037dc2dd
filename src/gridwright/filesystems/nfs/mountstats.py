"""What the NFS client counts for each mount: /proc/self/mountstats, read without touching a mount.

Format of nfs_show_stats (fs/nfs/super.c) and of rpc_clnt_show_stats and xs_tcp_print_stats (net/sunrpc) of
Linux 3.x to 6.x: later ones have more fields at the end of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gridwright.filesystems.health import Run, Traffic
from gridwright.filesystems.mount_table import LIMIT_S

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

    def option_bytes(self, name: str) -> int | None:
        """A size among the options: rsize, wsize."""
        return _whole(self.options.get(name, ""))


def read_mountstats(run: Run) -> list[MountStats]:
    """All NFS mounts of the node. Raises GridwrightError (status ENVIRONMENT) where it does not answer."""
    answer = run(["cat", "/proc/self/mountstats"], timeout_s=LIMIT_S)
    return parse_mountstats(answer.stdout.decode(errors="replace"))


def parse_mountstats(text: str) -> list[MountStats]:
    """The NFS mounts of /proc/self/mountstats; lines that cannot be understood are passed over."""
    return [_mount(head, lines) for head, lines in _sections(text)]


def stats_of(point: str, mounts: list[MountStats]) -> MountStats | None:
    """The mount at `point`; of several the last, which is on top."""
    return next((each for each in reversed(mounts) if each.point == point), None)


def traffic(before: MountStats, after: MountStats, *, seconds: float | None = None) -> Traffic | None:
    """What the client moved to and from the server between two readings of one mount.

    Bytes and calls are those on the wire. `seconds` is the time between the readings, by the caller's clock;
    without it their ages are taken, which are whole seconds. None where the mount was made anew meanwhile, or
    no time has passed.
    """
    if before.source != after.source or (before.age_s or 0) > (after.age_s or 0):
        return None
    span = float((after.age_s or 0) - (before.age_s or 0)) if seconds is None else seconds
    reads, writes = _difference(before, after, "READ"), _difference(before, after, "WRITE")
    read_bytes = after.bytes.get("server_read", 0) - before.bytes.get("server_read", 0)
    written = after.bytes.get("server_write", 0) - before.bytes.get("server_write", 0)
    if span <= 0 or min(reads, writes, read_bytes, written) < 0:
        return None
    return Traffic(
        server=after.source.rpartition(":/")[0].strip("[]"),
        seconds=span,
        read_bytes=read_bytes,
        written_bytes=written,
        reads=reads,
        writes=writes,
        target=after.point,
    )


def _difference(before: MountStats, after: MountStats, call: str) -> int:
    new, old = after.calls.get(call), before.calls.get(call)
    return (new.operations if new else 0) - (old.operations if old else 0)


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
        _unescaped(head[1]), _unescaped(head[2]), options, age, counters, events, tuple(transports), calls
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
    told = [numbers[place] if place is not None and place < len(numbers) else None for place in places]
    return [Transport(words[0], *told)]


def _named(names: tuple[str, ...], rest: str) -> dict[str, int]:
    numbers = (_whole(word) for word in rest.split())
    return {name: number for name, number in zip(names, numbers, strict=False) if number is not None}


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(rf"\s*[0-9]{{1,{_MOST_DIGITS}}}\s*", text, re.ASCII) else None


def _unescaped(field_text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field_text)
