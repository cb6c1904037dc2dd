"""One picture of a grid: all that `top` shows of two snapshots of each node (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from gridwright.monitor.job_rows import JobLoad, OtherLoad, UserLoad, job_rows, other_rows, user_rows
from gridwright.monitor.libraries import LibraryRow, WatchedLibrary, library_rows
from gridwright.monitor.readings import MountedPlace, NodeSamples
from gridwright.monitor.rows import (
    DiskRow,
    MountRow,
    NodeRow,
    SeenNode,
    TargetLoad,
    disk_rows,
    mount_rows,
    node_rows,
    seen,
    target_rows,
)
from gridwright.monitor.served_rows import (
    ServedJob,
    ServedMdt,
    ServedOst,
    TargetRecovery,
    gone_servers,
    mdt_rows,
    ost_rows,
    recovery_rows,
    served_job_rows,
    serves_only,
    unreached,
)


@dataclass(frozen=True, slots=True)
class Frame:
    """The tables of one picture; see the rows for units."""

    time: float
    """Of the last snapshot, in seconds since 1970 by its node's clock."""
    seconds: float
    """Over which rates are taken: the longest of all nodes."""
    libraries: tuple[LibraryRow, ...]
    nodes: tuple[NodeRow, ...]
    disks: tuple[DiskRow, ...]
    mounts: tuple[MountRow, ...]
    targets: tuple[TargetLoad, ...]
    jobs: tuple[JobLoad, ...]
    users: tuple[UserLoad, ...] = ()
    others: tuple[OtherLoad, ...] = ()
    osts: tuple[ServedOst, ...] = ()
    mdts: tuple[ServedMdt, ...] = ()
    recovery: tuple[TargetRecovery, ...] = ()
    served_jobs: tuple[ServedJob, ...] = ()
    library_names: dict[str, str] = field(default_factory=dict)
    """Of libraries, by directory."""
    places: dict[str, dict[str, MountedPlace]] = field(default_factory=dict)
    """What directories of libraries lie on: by node, and by directory."""

    @property
    def whole(self) -> bool:
        """Whether every node answered, and all of libraries is reached; without libraries, of all mounts."""
        away = any(row.away for row in self.libraries) if self.library_names else self._silent_mounts
        return not any(row.absent for row in self.nodes) and not away

    @property
    def _silent_mounts(self) -> bool:
        return any(row.silent for row in self.mounts)

    def document(self) -> dict[str, Any]:
        """The picture in plain values."""
        return {
            "time": self.time,
            "seconds": self.seconds,
            **{
                each.name: [asdict(row) for row in getattr(self, each.name)]
                for each in fields(self)
                if each.name not in {"time", "seconds", "library_names", "places"}
            },
        }


def _without_servers(
    nodes: Sequence[SeenNode], rows: Sequence[NodeRow], named: Collection[str]
) -> tuple[list[SeenNode], list[NodeRow]]:
    """Nodes that compute: a server that is no client has no cores that wait for libraries."""
    servers = {*named, *(node.name for node in nodes if serves_only(node))}
    return (
        [node for node in nodes if node.name not in servers],
        [row for row in rows if row.node not in servers],
    )


def _with_unreached(rows: Sequence[MountRow], nodes: Sequence[SeenNode]) -> Iterator[MountRow]:
    """Rows of mounts that tell of targets which are not reached."""
    by_name = {each.name: each for each in nodes}
    for row in rows:
        node = by_name[row.node]
        labels = node.figures.labels("gridwright_mount_read_bytes_total")
        away = unreached(node, [target for point, target, *_ in labels if point == row.mount_point])
        yield replace(row, silent=row.silent or "; ".join(f"{target}: {why}" for target, why in away.items()))


def frame_of(
    samples: Sequence[NodeSamples],
    libraries: Sequence[WatchedLibrary] = (),
    servers: Collection[str] = (),
) -> Frame:
    """The picture that these samples give; `libraries` are those of the spec, `servers` no nodes of it."""
    return frame_of_seen(samples, seen(samples), libraries, servers)


def frame_of_seen(
    samples: Sequence[NodeSamples],
    nodes: Sequence[SeenNode],
    libraries: Sequence[WatchedLibrary] = (),
    servers: Collection[str] = (),
) -> Frame:
    """The picture that these nodes give; `samples` names all in their order, and why some are away."""
    rows, disks = node_rows(samples, nodes), disk_rows(nodes)
    targets, gone = target_rows(nodes), gone_servers(samples)
    return Frame(
        time=max((node.last.time for node in nodes), default=0.0),
        seconds=max((node.seconds for node in nodes), default=0.0),
        libraries=tuple(library_rows(libraries, *_without_servers(nodes, rows, servers), disks)),
        nodes=tuple(rows),
        disks=tuple(disks),
        mounts=tuple(_with_unreached(mount_rows(nodes), nodes)),
        targets=tuple(targets),
        jobs=tuple(job_rows(nodes)),
        users=tuple(user_rows(nodes)),
        others=tuple(other_rows(nodes)),
        osts=tuple(ost_rows([*nodes, *gone], rows, targets)),
        mdts=tuple(mdt_rows([*nodes, *gone], rows)),
        recovery=tuple(recovery_rows(nodes)),
        served_jobs=tuple(served_job_rows(nodes)),
        library_names={library.directory: library.name for library in libraries},
        places={node.name: node.last.places for node in nodes if node.last.places},
    )
