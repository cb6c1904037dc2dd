"""Targets of file systems as their servers tell them, with what clients and MDTs say of them (pure).

Where no server answers, rows have the sums over clients, and nothing of what only servers know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from gridwright.monitor.readings import NodeSamples, figures
from gridwright.monitor.rows import NodeRow, SeenNode, TargetLoad, whole

OST, MDT = "ost", "mdt"
MDT_OPERATIONS = ("open", "close", "getattr", "setattr", "unlink", "mkdir", "rmdir", "rename")
SOURCE = "targets of Lustre"
"""What a server's counters are called where they do not answer."""
_LETTERS: Mapping[str, str] = {"FULL": "F", "EVICTED": "E", "IDLE": "I"}
_REPLAYING = ("REPLAY", "RECOVER")
RECOVERY_WORDS = ("complete", "inactive", "waiting", "waiting for clients", "recovering", "unknown")
"""By the figure of `recovery_status`."""
_OVER = frozenset({0.0, 1.0})


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedOst:
    """An OST, or all OSTs of a server. Rates per second; parts from 0 to 1; None is what cannot be told."""

    target: str
    filesystem: str
    server: str = ""
    """Empty where no server tells of it, and rates are sums over clients."""
    state: str = ""
    """How a metadata server is connected to it: F full, D disconnected, r replays, E evicted, I idle."""
    exports: float | None = None
    """Connections of clients and metadata servers."""
    connects_per_s: float | None = None
    read_bytes_per_s: float | None = None
    written_bytes_per_s: float | None = None
    bulk_per_s: float | None = None
    """Requests with data."""
    locks: float | None = None
    grants_per_s: float | None = None
    cancels_per_s: float | None = None
    cpu: float | None = None
    """Of the server."""
    memory: float | None = None
    space: float | None = None
    stale: str = ""
    """Why rates are missing; empty where the server answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedMdt:
    """An MDT, or all MDTs of a server; operations per second."""

    target: str
    filesystem: str
    server: str
    operations: dict[str, float | None] = field(default_factory=dict)
    cpu: float | None = None
    memory: float | None = None
    space: float | None = None
    stale: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecovery:
    """A target whose clients are not all back after it started."""

    target: str
    filesystem: str
    server: str
    state: str
    connected: int | None
    expected: int | None
    left_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedJob:
    """A job on all targets of one kind of a file system, as servers count it; its name is as they have it."""

    job: str
    filesystem: str
    component: str
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    reads_per_s: float | None
    writes_per_s: float | None
    operations_per_s: float | None
    """Without reads and writes."""


def serves_only(node: SeenNode) -> bool:
    """Whether a node is a server of targets, and has none mounted as a client."""
    told = node.figures
    serves = told.labels("lustre_read_bytes_total") or told.labels("lustre_stats_total")
    return bool(serves) and not told.labels("gridwright_mount_read_bytes_total")


def gone_servers(samples: Sequence[NodeSamples]) -> list[SeenNode]:
    """Servers that are away, as they were last: without rates, and with the reason."""
    found = []
    for sample in samples:
        if sample.absent and sample.last_known is not None:
            last = replace(sample.last_known, silent={SOURCE: sample.absent})
            found.append(SeenNode(sample.node, last, 0.0, figures(last, last)))
    return [each for each in found if serves_only(each)]


def filesystem_of(target: str) -> str:
    """`scratch` out of `scratch-OST0000`."""
    return target.rpartition("-")[0]


def ost_rows(
    nodes: Sequence[SeenNode], rows: Sequence[NodeRow], clients: Sequence[TargetLoad]
) -> list[ServedOst]:
    """One row for each OST that a server, a metadata server or a client tells of."""
    states = _states(nodes)
    by_client = {client.target: client for client in clients if "-OST" in client.target}
    servers = _servers(nodes, OST, "lustre_read_bytes_total", "read")
    by_name = {row.node: row for row in rows}
    names = sorted({*states, *by_client, *servers})
    return [
        _served_ost(name, servers[name], by_name[servers[name].name], states.get(name, ""))
        if name in servers
        else _unserved_ost(name, by_client.get(name), states.get(name, ""))
        for name in names
    ]


def _servers(nodes: Sequence[SeenNode], component: str, metric: str, operation: str) -> dict[str, SeenNode]:
    """The server that tells of each target; of two, as after a fail-over, one whose figures move."""
    servers: dict[str, SeenNode] = {}
    for node in nodes:
        for labels in node.figures.labels(metric):
            if labels[0] != component or operation not in ("", labels[1]):
                continue
            known = servers.get(labels[2])
            if known is None or SOURCE in known.last.silent:
                servers[labels[2]] = node
    return servers


def _served_ost(target: str, node: SeenNode, row: NodeRow, state: str) -> ServedOst:
    told, of = node.figures, (OST, target)
    reads = told.rate("lustre_read_samples_total", OST, "read", target)
    writes = told.rate("lustre_write_samples_total", OST, "write", target)
    connects = [
        told.rate("lustre_stats_total", OST, name, target)
        for name in ("connect", "reconnect")
        if ("lustre_stats_total", OST, name, target) in told.known
    ]
    return ServedOst(
        target=target,
        filesystem=filesystem_of(target),
        server=node.name,
        state=state,
        exports=told.gauge("lustre_exports", *of),
        connects_per_s=whole(connects),
        read_bytes_per_s=told.rate("lustre_read_bytes_total", OST, "read", target),
        written_bytes_per_s=told.rate("lustre_write_bytes_total", OST, "write", target),
        bulk_per_s=whole([reads, writes]),
        locks=told.gauge("lustre_lock_count", *of),
        grants_per_s=told.rate("gridwright_lock_grants_total", *of),
        cancels_per_s=told.rate("gridwright_lock_cancels_total", *of),
        cpu=_cpu(row),
        memory=_memory(row),
        space=_space(node, OST, target),
        stale=node.last.silent.get(SOURCE, ""),
    )


def _unserved_ost(target: str, load: TargetLoad | None, state: str) -> ServedOst:
    if load is None:
        return ServedOst(target=target, filesystem=filesystem_of(target), state=state)
    return ServedOst(
        target=target,
        filesystem=filesystem_of(target),
        state=state,
        read_bytes_per_s=load.read_bytes_per_s,
        written_bytes_per_s=load.written_bytes_per_s,
        bulk_per_s=whole([load.reads_per_s, load.writes_per_s]),
    )


def _states(nodes: Sequence[SeenNode]) -> dict[str, str]:
    """A letter for each OST: by the connections of metadata servers, else by most of the clients'."""
    found: dict[str, dict[bool, list[str]]] = {}
    for node in nodes:
        for connection, target, state in node.figures.labels("gridwright_connection_state"):
            if "-OST" not in target:
                continue
            own = found.setdefault(target, {True: [], False: []})
            own[connection.startswith("MDT")].append(_letter(state))
    return {
        target: min(told[True], key="EDrFI".index)
        if told[True]
        else Counter(told[False]).most_common(1)[0][0]
        for target, told in found.items()
    }


def unreached(node: SeenNode, targets: Collection[str]) -> dict[str, str]:
    """Targets of the file systems of these that a client does not reach, or waits for, and why."""
    names, found = {filesystem_of(each) for each in targets}, {}
    for connection, target, state in node.figures.labels("gridwright_connection_state"):
        if filesystem_of(target) not in names or connection.startswith("MDT"):
            continue
        if _letter(state) not in "FI":
            found[target] = f"not connected ({state})"
        elif (waiting := node.figures.gauge("gridwright_connection_requests", connection, target)) and all(
            node.figures.rate(f"gridwright_mount_{way}_total", *labels) == 0
            for way in ("reads", "writes")
            for labels in node.figures.labels(f"gridwright_mount_{way}_total")
            if labels[1] == target
        ):
            found.setdefault(target, f"{waiting:.0f} requests wait, and none was answered meanwhile")
    return found


def _letter(state: str) -> str:
    return "r" if state.startswith(_REPLAYING) else _LETTERS.get(state, "D")


def mdt_rows(nodes: Sequence[SeenNode], rows: Sequence[NodeRow]) -> list[ServedMdt]:
    """One row for each MDT that a server tells of."""
    by_name = {row.node: row for row in rows}
    servers = _servers(nodes, MDT, "lustre_stats_total", "")
    return [
        ServedMdt(
            target=target,
            filesystem=filesystem_of(target),
            server=node.name,
            operations={name: _operation(node, name, target) for name in MDT_OPERATIONS},
            cpu=_cpu(by_name[node.name]),
            memory=_memory(by_name[node.name]),
            space=_space(node, MDT, target),
            stale=node.last.silent.get(SOURCE, ""),
        )
        for target, node in sorted(servers.items())
    ]


def _operation(node: SeenNode, name: str, target: str) -> float | None:
    key = ("lustre_stats_total", MDT, name, target)
    if key not in node.figures.known and SOURCE not in node.last.silent:
        # What never happened has no row.
        return 0.0
    return node.figures.rates.get(key)


def by_server(rows: Sequence[ServedOst]) -> list[ServedOst]:
    """One row for each server, with the sums of its OSTs; those that no server tells of are one row."""
    return [
        ServedOst(
            target=f"({len(those)})",
            filesystem=those[0].filesystem if len({each.filesystem for each in those}) == 1 else "",
            server=server,
            state="".join(sorted({each.state for each in those if each.state}, key="EDrFI".index)),
            exports=whole([each.exports for each in those]),
            connects_per_s=whole([each.connects_per_s for each in those]),
            read_bytes_per_s=whole([each.read_bytes_per_s for each in those]),
            written_bytes_per_s=whole([each.written_bytes_per_s for each in those]),
            bulk_per_s=whole([each.bulk_per_s for each in those]),
            locks=whole([each.locks for each in those]),
            grants_per_s=whole([each.grants_per_s for each in those]),
            cancels_per_s=whole([each.cancels_per_s for each in those]),
            cpu=those[0].cpu,
            memory=those[0].memory,
            space=max((each.space for each in those if each.space is not None), default=None),
            stale=those[0].stale,
        )
        for server, those in _grouped(rows)
    ]


def mdts_by_server(rows: Sequence[ServedMdt]) -> list[ServedMdt]:
    """One row for each server, with the sums of its MDTs."""
    return [
        ServedMdt(
            target=f"({len(those)})",
            filesystem=those[0].filesystem if len({each.filesystem for each in those}) == 1 else "",
            server=server,
            operations={name: whole([each.operations[name] for each in those]) for name in MDT_OPERATIONS},
            cpu=those[0].cpu,
            memory=those[0].memory,
            space=max((each.space for each in those if each.space is not None), default=None),
            stale=those[0].stale,
        )
        for server, those in _grouped(rows)
    ]


T = TypeVar("T", ServedOst, ServedMdt)


def _grouped(rows: Sequence[T]) -> list[tuple[str, list[T]]]:
    found: dict[str, list[T]] = {}
    for row in rows:
        found.setdefault(row.server, []).append(row)
    return sorted(found.items())


def recovery_rows(nodes: Sequence[SeenNode]) -> list[TargetRecovery]:
    """The targets that wait for clients; those of which nothing is known but that they do not, are none."""
    found = []
    for node in nodes:
        told = node.figures
        for labels in told.labels("recovery_status"):
            value = told.gauge("recovery_status", *labels)
            if value is None or value in _OVER:
                continue
            connected = told.gauge("recovery_status_connected_clients", *labels)
            expected = told.gauge("gridwright_recovery_expected_clients", *labels)
            found.append(
                TargetRecovery(
                    target=labels[1],
                    filesystem=filesystem_of(labels[1]),
                    server=node.name,
                    state=RECOVERY_WORDS[min(int(value), len(RECOVERY_WORDS) - 1)],
                    connected=None if connected is None else int(connected),
                    expected=None if expected is None else int(expected),
                    left_s=told.gauge("gridwright_recovery_seconds_left", *labels),
                )
            )
    return found


def served_job_rows(nodes: Sequence[SeenNode]) -> list[ServedJob]:
    """Jobs as servers count them, those that move most first."""
    held: dict[tuple[str, ...], list[SeenNode]] = {}
    for node in nodes:
        for labels in node.figures.labels("gridwright_served_job_operations_total"):
            held.setdefault(labels, []).append(node)
    rows = [_served_job(labels, those) for labels, those in held.items()]
    return sorted(
        rows,
        key=lambda row: (
            -(row.read_bytes_per_s or 0) - (row.written_bytes_per_s or 0),
            -(row.operations_per_s or 0),
            row.job,
        ),
    )


def _served_job(labels: tuple[str, ...], nodes: Sequence[SeenNode]) -> ServedJob:
    def total(name: str) -> float | None:
        # A job that one server has just begun to tell of has a rate there in the next picture.
        told = (node.figures.rate(f"gridwright_served_job_{name}_total", *labels) for node in nodes)
        known = [each for each in told if each is not None]
        return sum(known) if known else None

    component, filesystem, job = labels
    return ServedJob(
        job=job,
        filesystem=filesystem,
        component=component,
        read_bytes_per_s=total("read_bytes"),
        written_bytes_per_s=total("written_bytes"),
        reads_per_s=total("reads"),
        writes_per_s=total("writes"),
        operations_per_s=total("operations"),
    )


def _cpu(row: NodeRow) -> float | None:
    if row.user is None or row.system is None or not row.cpus:
        return None
    return min(1.0, (row.user + row.system) / row.cpus)


def _memory(row: NodeRow) -> float | None:
    used, total = row.memory_used_bytes, row.memory_bytes
    return used / total if used is not None and total else None


def _space(node: SeenNode, component: str, target: str) -> float | None:
    total = node.figures.gauge("lustre_capacity_kilobytes", component, target)
    free = node.figures.gauge("lustre_free_kilobytes", component, target)
    return 1 - free / total if total and free is not None else None


def waiting_words(row: TargetRecovery) -> Iterator[str]:
    """How far a recovery is."""
    yield row.state
    if row.connected is not None and row.expected is not None:
        yield f"{row.connected} of {row.expected} clients are back"
    if row.left_s is not None:
        yield f"{row.left_s:.0f} s left"
