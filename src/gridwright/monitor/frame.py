"""One picture of a grid: all that `top` shows of two snapshots of each node (pure)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from gridwright.monitor.job_rows import JobLoad, job_rows
from gridwright.monitor.libraries import LibraryRow, WatchedLibrary, library_rows
from gridwright.monitor.other_rows import OtherLoad, other_rows
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
)
from gridwright.monitor.user_rows import UserLoad, user_rows


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
        """Whether every node answered, and all targets of libraries are reached."""
        return not any(row.absent for row in self.nodes) and not any(row.away for row in self.libraries)

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
    servers = {*named, *(each.name for each in nodes if serves_only(each))}
    return (
        [each for each in nodes if each.name not in servers],
        [each for each in rows if each.node not in servers],
    )


def frame_of(
    samples: Sequence[NodeSamples],
    libraries: Sequence[WatchedLibrary] = (),
    servers: Collection[str] = (),
) -> Frame:
    """The picture that these samples give; `libraries` are those of the spec, `servers` no nodes of it."""
    return frame_of_seen(samples, seen(samples), libraries, servers)


def frame_of_seen(
    asked: Sequence[NodeSamples],
    nodes: Sequence[SeenNode],
    libraries: Sequence[WatchedLibrary] = (),
    servers: Collection[str] = (),
) -> Frame:
    """The picture that these nodes give; `asked` names all in their order, and why some are away."""
    rows, disks = node_rows(asked, nodes), disk_rows(nodes)
    targets, gone = target_rows(nodes), gone_servers(asked)
    return Frame(
        time=max((each.last.time for each in nodes), default=0.0),
        seconds=max((each.seconds for each in nodes), default=0.0),
        libraries=tuple(library_rows(libraries, *_without_servers(nodes, rows, servers), disks)),
        nodes=tuple(rows),
        disks=tuple(disks),
        mounts=tuple(mount_rows(nodes)),
        targets=tuple(targets),
        jobs=tuple(job_rows(nodes)),
        users=tuple(user_rows(nodes)),
        others=tuple(other_rows(nodes)),
        osts=tuple(ost_rows([*nodes, *gone], rows, targets)),
        mdts=tuple(mdt_rows([*nodes, *gone], rows)),
        recovery=tuple(recovery_rows(nodes)),
        served_jobs=tuple(served_job_rows(nodes)),
        library_names={each.directory: each.name for each in libraries},
        places={each.name: each.last.places for each in nodes if each.last.places},
    )
