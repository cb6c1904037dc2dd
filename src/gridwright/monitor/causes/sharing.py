"""Who uses a file system: jobs and users by share, processes of no job, and what nobody accounts for (pure).

What is foreign is told as a proof tells it (`gridwright.interference`): what a file system moved beyond what
jobs say that they moved, but no more than other processes say, where all of them can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gridwright.interference.judge import limits
from gridwright.monitor.frame import Frame
from gridwright.monitor.job_rows import JobLoad
from gridwright.monitor.libraries import LibraryRow
from gridwright.monitor.other_rows import OtherLoad

_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharer:
    """A job, or processes of no job. Rates are of all storage, as nobody counts them by file system."""

    name: str
    user: str
    is_job: bool
    bytes_per_s: float
    share: float | None
    """Of all that jobs and other processes moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Who moved bytes, and what of that no job accounts for. None is what cannot be told."""

    jobs_bytes_per_s: float | None
    foreign_bytes_per_s: float | None
    """At least so much of what the file system moved was no job's."""
    foreign_share: float | None
    disturbs: bool
    """Whether that is more than a proof can bear (`data/limits.csv` of disturbances)."""
    unseen_bytes_per_s: float
    """Of it, what no process that can be seen moved."""
    sharers: tuple[Sharer, ...]
    """Most first, jobs and others together."""
    users: tuple[tuple[str, float], ...]
    """Users with their share, most first."""
    untold: str = ""
    """Why what is foreign cannot be told."""
    elsewhere_bytes_per_s: float | None = None
    """What servers moved for clients that were not asked; None where not all servers of it were."""
    elsewhere_share: float | None = None
    """Of all that its servers moved."""

    @property
    def is_used_elsewhere(self) -> bool:
        """Whether clients that were not asked have more of it than a proof can bear."""
        rate, share = self.elsewhere_bytes_per_s, self.elsewhere_share
        return rate is not None and share is not None and _is_much(rate, share)


def sharing_of(row: LibraryRow, frame: Frame) -> Sharing:
    """Who used a file system, the nodes that have it, and its servers where they were asked."""
    elsewhere, share = _elsewhere(row, frame)
    return replace(_of_clients(row, frame), elsewhere_bytes_per_s=elsewhere, elsewhere_share=share)


def _elsewhere(row: LibraryRow, frame: Frame) -> tuple[float | None, float | None]:
    """What servers moved beyond what clients that were asked did, and its share."""
    served = {each.target: each for each in frame.osts if each.server}
    clients = {each.target: each for each in frame.targets}
    beyond = total = 0.0
    for target in row.targets:
        ost, own = served.get(target), clients.get(target)
        if ost is None or own is None:
            return None, None
        for moved, ours in (
            (ost.read_bytes_per_s, own.read_bytes_per_s),
            (ost.written_bytes_per_s, own.written_bytes_per_s),
        ):
            if moved is None or ours is None:
                return None, None
            beyond += max(0.0, moved - ours)
            total += moved
    return (beyond, beyond / total if total else 0.0) if row.targets else (None, None)


def _is_much(rate: float, share: float) -> bool:
    return rate >= limits().traffic_floor and share > limits().traffic


def _of_clients(row: LibraryRow, frame: Frame) -> Sharing:
    sharers, users = _sharers(frame), _users(frame)
    known = [(job.read_bytes_per_s, job.written_bytes_per_s) for job in frame.jobs]
    untold = _why_unknown(row, frame)
    moved = [
        None if any(each[way] is None for each in known) else sum(each[way] or 0.0 for each in known)
        for way in (0, 1)
    ]
    if untold or None in moved:
        untold = untold or "what some jobs moved cannot be told (root can see it)"
        return _sharing(None, 0.0, None, sharers, untold, users)
    read, written = (each or 0.0 for each in moved)
    machines = {other.machine: other for other in reversed(frame.others)}
    late = sum(machine.written_back_bytes_per_s for machine in machines.values())
    beyond = [
        max(0.0, (row.read_bytes_per_s or 0.0) - read * (1 + limits().overhead)),
        max(0.0, (row.written_bytes_per_s or 0.0) - written * (1 + limits().overhead) - late),
    ]
    said = [
        sum(other.read_bytes_per_s or 0.0 for other in frame.others),
        sum(other.written_bytes_per_s or 0.0 for other in frame.others),
    ]
    all_seen = all(other.sees_all for other in frame.others)
    total = (row.read_bytes_per_s or 0.0) + (row.written_bytes_per_s or 0.0)
    seen = sum(min(pair) for pair in zip(beyond, said, strict=True))
    # Counters are read moments apart: a small rest is nobody's.
    unseen = 0.0 if all_seen or sum(beyond) - seen <= limits().traffic * total else sum(beyond) - seen
    foreign = seen + unseen
    of_others = foreign, foreign / total if total else 0.0
    return _sharing(read + written, unseen, of_others, sharers, "", users)


def _sharing(
    jobs: float | None,
    unseen: float,
    foreign: tuple[float, float] | None,
    sharers: Sequence[Sharer],
    untold: str,
    users: Mapping[str, float],
) -> Sharing:
    rate, share = foreign or (None, None)
    return Sharing(
        jobs_bytes_per_s=jobs,
        foreign_bytes_per_s=rate,
        foreign_share=share,
        disturbs=rate is not None and share is not None and _is_much(rate, share),
        unseen_bytes_per_s=unseen,
        sharers=tuple(sharers[:_NAMED]),
        users=tuple(sorted(users.items(), key=lambda each: (-each[1], each[0]))[:_NAMED]),
        untold=untold,
    )


def _why_unknown(row: LibraryRow, frame: Frame) -> str:
    if row.read_bytes_per_s is None or row.written_bytes_per_s is None:
        return "what it moved cannot be told"
    if not frame.others:
        return "no node said what processes of no job moved"
    if any(other.read_bytes_per_s is None or other.written_bytes_per_s is None for other in frame.others):
        return "what processes of no job moved is not known of all nodes (root can see it)"
    return ""


def _sharers(frame: Frame) -> list[Sharer]:
    """All that moved anything, most first."""
    found = [(job.job, job.user, True, _moved(job)) for job in frame.jobs]
    others: dict[tuple[str, str], float] = {}
    for load in frame.others:
        for process in load.processes:
            key = process.process, process.user
            others[key] = others.get(key, 0.0) + (process.moved_bytes_per_s or 0.0)
    found += [(process, user, False, moved) for (process, user), moved in others.items()]
    total = sum(moved for *_, moved in found)
    ranked = sorted((each for each in found if each[3] > 0), key=lambda each: (-each[3], each[0]))
    return [
        Sharer(name=name, user=user, is_job=is_job, bytes_per_s=moved, share=moved / total if total else None)
        for name, user, is_job, moved in ranked
    ]


def _users(frame: Frame) -> dict[str, float]:
    """The share of each user: of all jobs, those without a row of their own included, and of processes."""
    moved = {user.user: user.moved_bytes_per_s for user in frame.users}
    for load in frame.others:
        for process in load.processes:
            moved[process.user] = moved.get(process.user, 0.0) + (process.moved_bytes_per_s or 0.0)
    total = sum(moved.values())
    return {user: rate / total for user, rate in moved.items() if rate > 0} if total else {}


def _moved(job: JobLoad) -> float:
    return (job.read_bytes_per_s or 0.0) + (job.written_bytes_per_s or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCpu:
    """Processes of no job that take more CPU time of a node than a proof can bear."""

    node: str
    share: float
    """Of the node's CPU time."""
    process: str
    user: str


def foreign_cpus(frame: Frame) -> list[ForeignCpu]:
    """One for each machine whose CPUs others use, with the processes that use most."""
    found: dict[str, ForeignCpu] = {}
    cpus = {row.node: row.cpus for row in frame.nodes}
    for load in frame.others:
        share = (load.cpus or 0.0) / max(1, cpus.get(load.node, 1))
        most = _busiest(load)
        if share > limits().cpu and most is not None and load.machine not in found:
            found[load.machine] = ForeignCpu(node=load.node, share=share, process=most[0], user=most[1])
    return list(found.values())


def _busiest(load: OtherLoad) -> tuple[str, str] | None:
    most = max(load.processes, key=lambda each: each.cpus or 0.0, default=None)
    return None if most is None else (most.process, most.user)
