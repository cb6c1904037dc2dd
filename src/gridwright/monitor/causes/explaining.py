"""Puts together why a grid, a library or a job is slow: one value, which says what it cannot tell (pure).

Whether a file system is slow at all, and who uses it: jobs and users by share, processes of no job, and what
nobody accounts for. What is foreign is told as a proof tells it (`gridwright.interference`): what a file
system moved beyond what jobs say that they moved, but no more than other processes say, where all of them can
be asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gridwright.interference.judge import limits
from gridwright.monitor.causes.changes import Beginning, MarkedEvent
from gridwright.monitor.causes.measured import STORAGE, ResourceSort, ResourceUse
from gridwright.monitor.frame import Frame
from gridwright.monitor.job_rows import JobLoad, OtherLoad
from gridwright.monitor.libraries import LibraryRow, Standing
from gridwright.monitor.rows import WAITING

IDLE_CORES = 0.1
"""With fewer cores busy nobody works."""


def is_slow(row: LibraryRow) -> bool | None:
    """Whether somebody waits for what it should give; None where that cannot be told.

    Where nothing is required, or what it moves is not counted, only a resource at its limit makes it slow.
    """
    if row.standing is Standing.BELOW:
        return True
    if row.standing in {Standing.MET, Standing.NOT_ASKED, Standing.IDLE}:
        return False
    if row.wanted and any(use.binds and use.sort in STORAGE for use in row.uses):
        return True
    if row.standing is Standing.NOT_REQUIRED:
        return None if row.wanted else False
    return False if row.busy_cores is not None and row.busy_cores < IDLE_CORES and not row.wanted else None


def was_slow(frame: Frame, filesystem: str) -> bool | None:
    """The same in any picture; None where nothing is known of the file system there."""
    row = next((library for library in frame.libraries if library.filesystem == filesystem), None)
    return None if row is None else is_slow(row)


def why_unknown(row: LibraryRow) -> str:
    """Why it cannot be told whether it is slow."""
    if row.standing is Standing.NOT_REQUIRED:
        return (
            "whether it is slow: somebody waits for it, nothing that was measured is at its limit, and "
            "nothing is required of it (requires: in the grid spec says what it should give)"
        )
    return f"whether it is slow: {row.note or 'a figure is missing'}"


COMPUTES = 0.9
"""From this part of its cores on a job computes, and storage holds nothing of it up."""
MUCH = 0.5
"""From this part of its time on, waiting for I/O is most of what a job does."""
RESTS = 0.05
"""Below this part of its cores it neither computes nor, by itself, waits for a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One figure with where it was read, and at what time (seconds since 1970)."""

    text: str
    source: str
    node: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowFileSystem:
    """Why a file system is slow, or that it is not. `slow` is None where that cannot be told."""

    row: LibraryRow
    slow: bool | None
    binds: tuple[ResourceUse, ...]
    """What is at its limit, storage first; of one that is not slow, what is at its limit all the same."""
    others: tuple[ResourceUse, ...]
    """What has room, the fullest first."""
    sharing: Sharing
    since: Beginning | None
    untold: tuple[str, ...]

    @property
    def required_bytes_per_s(self) -> float | None:
        """What is required for all busy cores together."""
        if self.row.required_per_core is None or self.row.busy_cores is None:
            return None
        return self.row.required_per_core * self.row.busy_cores

    @property
    def delivered_bytes_per_s(self) -> float | None:
        """What was read and written."""
        if self.row.read_bytes_per_s is None or self.row.written_bytes_per_s is None:
            return None
        return self.row.read_bytes_per_s + self.row.written_bytes_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowJob:
    """What holds a job up. `held_up` is None where that cannot be told."""

    job: str
    load: JobLoad
    cores: int | None
    """What it asked for; None where the scheduler does not say."""
    held_up: bool | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowExplanation:
    """The whole answer. Times in seconds since 1970."""

    at_s: float
    seconds: float
    filesystems: tuple[SlowFileSystem, ...]
    job: SlowJob | None
    cpus: tuple[ResourceUse, ...]
    """CPUs that run all the time, steal, and limits of CPU time that were reached."""
    foreign_cpus: tuple[_ForeignCpu, ...]
    changes: tuple[MarkedEvent, ...]
    away: dict[str, str]
    untold: tuple[str, ...]
    evidence: tuple[Evidence, ...] = field(default=())

    @property
    def slow(self) -> bool:
        """Whether anything is, as far as can be told."""
        return any(filesystem.slow for filesystem in self.filesystems) or bool(self.job and self.job.held_up)

    @property
    def is_complete(self) -> bool:
        """Whether it could be told of all that was asked about, and every node answered."""
        whole = all(filesystem.slow is not None for filesystem in self.filesystems)
        return whole and not self.away and not (self.job and self.job.held_up is None)

    def document(self) -> dict[str, Any]:
        """It in plain values: bytes, seconds, and parts of 1."""
        return {
            "time": self.at_s,
            "seconds": self.seconds,
            "slow": self.slow,
            "told": self.is_complete,
            "filesystems": [_filesystem_document(filesystem) for filesystem in self.filesystems],
            "job": None if self.job is None else asdict(self.job),
            "cpus": [asdict(each) for each in self.cpus],
            "foreign_cpus": [asdict(cpu) for cpu in self.foreign_cpus],
            "changes": [asdict(change) for change in self.changes],
            "away": self.away,
            "untold": list(self.untold),
            "evidence": [asdict(evidence) for evidence in self.evidence],
        }


def _filesystem_document(filesystem: SlowFileSystem) -> dict[str, Any]:
    row = filesystem.row
    return {
        "filesystem": row.filesystem,
        "libraries": list(row.libraries),
        "slow": filesystem.slow,
        "standing": row.standing,
        "asked": {
            "required_bytes_per_s_per_core": row.required_per_core,
            "busy_cores": row.busy_cores,
            "required_bytes_per_s": filesystem.required_bytes_per_s,
            "waiting_cores": row.waiting_cores,
            "waiting_part": row.waiting,
        },
        "delivered": {
            "read_bytes_per_s": row.read_bytes_per_s,
            "written_bytes_per_s": row.written_bytes_per_s,
            "bytes_per_s_per_core": row.per_core,
        },
        "binds": [asdict(use) for use in filesystem.binds],
        "resources": [asdict(use) for use in filesystem.others],
        "sharing": asdict(filesystem.sharing),
        "since": None if filesystem.since is None else asdict(filesystem.since),
        "untold": list(filesystem.untold),
    }


def explain(
    frame: Frame,
    *,
    filesystems: Sequence[str] | None = None,
    since: dict[str, Beginning] | None = None,
    changes: Sequence[MarkedEvent] = (),
    job: SlowJob | None = None,
    untold: Sequence[str] = (),
    whole: Frame | None = None,
) -> SlowExplanation:
    """What a picture tells of these file systems, of all of them by default.

    `whole` is the picture of all nodes where `frame` has those of a job: it tells who uses a file system.
    """
    rows = [row for row in frame.libraries if filesystems is None or row.filesystem in filesystems]
    users = {row.filesystem: sharing_of(row, whole or frame) for row in (whole or frame).libraries}
    reasons = tuple(_reason(row, (since or {}).get(row.filesystem), users[row.filesystem]) for row in rows)
    cpus: dict[str, ResourceUse] = {
        use.name: use for row in frame.libraries for use in row.uses if use.binds and use.sort not in STORAGE
    }
    return SlowExplanation(
        at_s=frame.time,
        seconds=frame.seconds,
        filesystems=reasons,
        job=job,
        cpus=tuple(cpus.values()),
        foreign_cpus=tuple(foreign_cpus(frame)),
        changes=tuple(changes),
        away={row.node: row.absent for row in frame.nodes if row.absent},
        untold=tuple(untold),
        evidence=tuple(_evidence(reasons, frame)),
    )


def _reason(row: LibraryRow, since: Beginning | None, sharing: Sharing) -> SlowFileSystem:
    slow = is_slow(row)
    binds = tuple(use for use in row.uses if use.binds and use.sort in STORAGE)
    untold = [why_unknown(row)] if slow is None else []
    if slow and not binds:
        untold.append(
            "what binds: nothing that was measured on the nodes is at its limit, so it is what was not "
            "measured, such as servers, the network in between, or a limit outside the nodes"
        )
    if sharing.untold:
        untold.append(f"what others than jobs have of it: {sharing.untold}")
    if not row.disks and slow is not False and sharing.elsewhere_bytes_per_s is None:
        untold.append(
            "what clients outside the grid have of its servers: not all of these were asked (--servers)"
        )
    room = tuple(use for use in row.uses if not use.binds and use.part is not None)
    if slow is not False:
        untold += [
            f"how full it is: {use.text}"
            for use in row.uses
            if not use.binds and use.sort is ResourceSort.DISK and "may have room" in use.text
        ]
    return SlowFileSystem(
        row=row, slow=slow, binds=binds, others=room, sharing=sharing, since=since, untold=tuple(untold)
    )


def explain_job(load: JobLoad, cores: int | None, frame: Frame, slow: Sequence[str]) -> SlowJob:
    """What holds a job up, as far as its CPU time, its waits and its file systems tell.

    `slow` are those file systems that are slow, of the ones that it uses.
    """
    held_up: bool | None = None
    used, of = load.cpus, f"of {cores} cores" if cores else "cores"
    stopped = [
        use
        for row in frame.libraries[:1]
        for use in row.uses
        if use.binds and use.name.startswith("CPU limit") and _is_of_job(use.name, load.job)
    ]
    waits = "" if load.waiting is None else f", waits for I/O in {load.waiting:.0%} of the time"
    if used is None:
        text = f"its CPU time cannot be told: it began, or a process of it ended, meanwhile{waits}"
    elif stopped:
        held_up, text = True, stopped[0].text
    elif cores and used >= COMPUTES * cores:
        held_up, text = False, f"it computes: {used:.1f} {of} run all the time, and no storage holds it up"
    elif slow and not _shows_in(load, frame, slow):
        text = (
            f"it uses {used:.1f} {of}; {' and '.join(slow)} {'is' if len(slow) == 1 else 'are'} slow, but "
            "the job moves nothing, does not wait for I/O as far as that is counted, and has no file there "
            "open: it sleeps, or waits for something that is not storage"
        )
    elif slow and (load.waiting is None or load.waiting_by == "state" or load.waiting >= WAITING):
        # Of looks at its processes, one that found them at work says nothing.
        held_up = True
        named = f"{' and '.join(slow)} {'is' if len(slow) == 1 else 'are'} slow"
        text = f"it uses {used:.1f} {of}{waits}, and {named}"
    elif load.waiting is not None and load.waiting >= MUCH:
        text = (
            f"it uses {used:.1f} {of}{waits}, and no file system that it uses is slow by what is required: "
            "it asks for more than that, or for one thing after the other"
        )
    else:
        held_up, text = _not_held_up(used, cores, of, waits)
    return SlowJob(job=load.job, load=load, cores=cores, held_up=held_up, text=text)


def _not_held_up(used: float, cores: int | None, of: str, waits: str) -> tuple[bool | None, str]:
    """Of a job that no file system holds up, as far as can be told."""
    if not cores and used >= COMPUTES:
        return False, f"it computes: {used:.1f} cores run, and no file system that it uses is slow"
    if used < RESTS * (cores or 1):
        return None, (
            f"it uses {used:.2f} {of}{waits}, and no file system holds it up: it sleeps, or waits for "
            "something that is not storage, such as a lock, a licence or another machine"
        )
    return None, (
        f"it uses {used:.1f} {of}{waits}, and no file system holds it up: the rest of its time may be "
        "programs with fewer threads than cores, or what is not storage"
    )


def used_by(load: JobLoad, frame: Frame) -> list[str] | None:
    """The file systems in whose libraries a job has files open; None where that is not known."""
    names = {
        frame.library_names[directory] for directory in load.directories if directory in frame.library_names
    }
    found = [row.filesystem for row in frame.libraries if names & set(row.libraries)]
    return found or None


def _shows_in(load: JobLoad, frame: Frame, filesystems: Sequence[str]) -> bool:
    """Whether anything says that a job works with one of these; what is not known says so, too."""
    moved = (load.read_bytes_per_s, load.written_bytes_per_s)
    if None in moved or any(moved) or load.waiting is None or load.waiting >= WAITING:
        return True
    there = {name for row in frame.libraries if row.filesystem in filesystems for name in row.libraries}
    return any(frame.library_names.get(directory) in there for directory in load.directories)


def _is_of_job(name: str, job: str) -> bool:
    """Whether a control group is named after a job, as Slurm's `job_17` is: 1 is not meant by it."""
    group = name.partition("control group ")[2].rpartition(" of ")[0]
    return re.search(rf"(?<![0-9A-Za-z]){re.escape(job)}(?![0-9A-Za-z])", group) is not None


def _evidence(reasons: Sequence[SlowFileSystem], frame: Frame) -> list[Evidence]:
    """The figures that the answer rests on; nothing where all is well."""
    at = frame.time
    found: dict[str, Evidence] = {}
    for reason in reasons:
        if reason.slow is False:
            continue
        for use in reason.row.uses:
            if use.part is not None or use.binds:
                source = use.source + (f"; limit: {use.capacity_source}" if use.capacity_source else "")
                found[use.name] = Evidence(text=use.text, source=source, node=use.node, at_s=at)
    if not found:
        return []
    for row in frame.nodes:
        if not row.absent and (row.iowait is not None or row.io_pressure is not None):
            waits = f"{0.0 if row.iowait is None else row.iowait:.1f} CPUs wait for I/O"
            part = "-" if row.io_pressure is None else f"{row.io_pressure:.0%}"
            found[row.node] = Evidence(
                text=f"on {row.node} {waits}, and tasks in {part} of the time",
                source="/proc/stat, /proc/pressure/io",
                node=row.node,
                at_s=at,
            )
    return list(found.values())


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
class _ForeignCpu:
    """Processes of no job that take more CPU time of a node than a proof can bear."""

    node: str
    share: float
    """Of the node's CPU time."""
    process: str
    user: str


def foreign_cpus(frame: Frame) -> list[_ForeignCpu]:
    """One for each machine whose CPUs others use, with the processes that use most."""
    found: dict[str, _ForeignCpu] = {}
    cpus = {row.node: row.cpus for row in frame.nodes}
    for load in frame.others:
        share = (load.cpus or 0.0) / max(1, cpus.get(load.node, 1))
        most = _busiest(load)
        if share > limits().cpu and most is not None and load.machine not in found:
            found[load.machine] = _ForeignCpu(node=load.node, share=share, process=most[0], user=most[1])
    return list(found.values())


def _busiest(load: OtherLoad) -> tuple[str, str] | None:
    most = max(load.processes, key=lambda each: each.cpus or 0.0, default=None)
    return None if most is None else (most.process, most.user)
