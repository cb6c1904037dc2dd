"""What a lab consists of, written down before it is made: what `down` and the next `up` work from."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from gridwright.atomic import naming
from gridwright.errors import environment_error
from gridwright.kernel_files import boot_id
from gridwright.providers.lab.cgroups import Cgroups, Hierarchy, MemberGroups
from gridwright.providers.lab.layout import LabLayout, LabRole, PlannedNode
from gridwright.providers.lab.places import LABS, Places
from gridwright.providers.lab.processes import ProcessId

SCHEMA = 2
Phase = Literal["starting", "up", "stopping", "removing"]
"""stopping: processes are ended, and all files are there; removing: files are deleted."""
Standing = Literal["up", "stopped", "half-made", "half-removed"]
"""stopped: nothing or not all of it runs, and its data is there; half-made: it never was up; half-removed: a
`down` that deletes it did not finish."""
LOCK_PATIENCE_S = 120.0
"""How long a command waits for another one that changes the same lab."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node as it was made."""

    plan: PlannedNode
    process: ProcessId | None = None
    """Its first process; None before it is made, and when it was powered off."""
    groups: MemberGroups = field(default_factory=MemberGroups)
    partitioned: bool = False

    @property
    def up(self) -> bool:
        """Whether its first process runs."""
        return self.process is not None and self.process.alive


@dataclass(frozen=True, slots=True)
class LabRecord:
    """A lab as it was made."""

    lab: str
    phase: Phase
    boot: str
    """Which boot of this machine made it: after another none of its processes are left."""
    spec_file: str
    """The file that it was made from, as it was named; a copy of its text is in the lab's directory."""
    digest: str
    """Of the spec, without what no lab is made from."""
    network: str
    image: str
    """The root file system of the nodes."""
    started: float
    """When, in seconds since 1970."""
    nodes: tuple[NodeRecord, ...]
    anchor: ProcessId | None = None
    anchor_groups: MemberGroups = field(default_factory=MemberGroups)
    group_tops: tuple[str, ...] = ()
    """Directories of control groups that hold all others of the lab."""
    cgroups: tuple[str, tuple[str, ...]] = ("none", ())
    """Kind and controllers that its nodes have."""
    power: ProcessId | None = None
    """What powers nodes on and off for the scheduler; None where all are always on."""
    was_up: bool = False
    """Whether it ever was up before this phase: then only `down` deletes anything of it."""

    @property
    def layout(self) -> LabLayout:
        """Names and addresses of its nodes."""
        return LabLayout(self.lab, self.network, tuple(node.plan for node in self.nodes))

    @property
    def trees(self) -> Cgroups:
        """The trees of control groups that it has its own in, as they were when it was made."""
        groups = self.anchor_groups
        hierarchies = (
            Hierarchy(Path(top).parent, tuple(names.split(",")) if names else ())
            for top, names in zip(self.group_tops, groups.controllers, strict=True)
        )
        return Cgroups(groups.kind, tuple(hierarchies))

    @property
    def is_up(self) -> bool:
        """Whether `up` finished, and what holds it together still runs."""
        return self.phase == "up" and self.boot == boot_id() and self.anchor is not None and self.anchor.alive

    @property
    def has_data(self) -> bool:
        """Whether somebody may have put data into it."""
        return self.was_up or self.phase == "up"

    @property
    def standing(self) -> Standing:
        """What can be done with it."""
        if self.is_up:
            return "up"
        if not self.has_data:
            return "half-made"
        return "half-removed" if self.phase == "removing" else "stopped"

    def without_processes(self) -> LabRecord:
        """The same, with nothing of it running."""
        nodes = tuple(NodeRecord(node.plan) for node in self.nodes)
        return replace(self, nodes=nodes, anchor=None, anchor_groups=MemberGroups(), power=None)

    def node(self, name: str) -> NodeRecord:
        """The node of that name. Raises GridwrightError (status INPUT) where there is none."""
        planned = self.layout.node(name)
        return next(node for node in self.nodes if node.plan == planned)

    def with_node(self, changed: NodeRecord) -> LabRecord:
        """The same, with a node changed."""
        nodes = (changed if node.plan == changed.plan else node for node in self.nodes)
        return replace(self, nodes=tuple(nodes))

    def processes(self) -> list[ProcessId]:
        """The first processes of everything, anchor first."""
        return [each for each in (self.anchor, *(node.process for node in self.nodes)) if each is not None]


def write(record: LabRecord) -> None:
    """Write the record so that any reader sees the old one or the whole new one. Raises OSError."""
    path = Places(record.lab).record
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_durably(path, json.dumps({"schema": SCHEMA, **asdict(record)}, indent=1))


def part_of(path: Path) -> Path:
    """The file that `path` is before it is whole."""
    return path.with_name(f".{path.name}.part")


def write_durably(path: Path, text: str) -> None:
    """Write a file for root alone that outlives a crash, whole or as it was before. Raises OSError."""
    part = part_of(path)
    with naming(path), os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read(lab: str) -> LabRecord | None:
    """The record of a lab; None where there is none. Raises GridwrightError where it cannot be read.

    One of an earlier boot of this machine has no processes: their numbers are others' by now.
    """
    path = Places(lab).record
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except PermissionError:
        raise environment_error(
            "only root can see labs", where=str(path), remedy="run the command as root, such as with sudo"
        ) from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from error
    schema = data.pop("schema", None) if isinstance(data, dict) else None
    if schema not in (1, SCHEMA):
        raise _unreadable(path, "another release of Gridwright wrote it, or none")
    try:
        record = _record(_from_first(data) if schema == 1 else data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(path, repr(error)) from error
    return record if record.boot == boot_id() else record.without_processes()


def _unreadable(path: Path, why: str) -> Exception:
    return environment_error(
        f"the record of the lab cannot be read: {why}",
        where=str(path),
        remedy="put it back from a backup, or use the release that wrote it; else restart the machine "
        f"and move {path.parent} away: all files of the lab are in it",
    )


def _from_first(data: dict[str, Any]) -> dict[str, Any]:
    """What schema 1 says: there a lab that began to stop may have lost files, and a new one began empty."""
    phase = data["phase"]
    return data | {"was_up": phase != "starting", "phase": "removing" if phase == "stopping" else phase}


def _record(data: dict[str, Any]) -> LabRecord:
    kind, controllers = data.pop("cgroups")
    return LabRecord(
        **data
        | {
            "nodes": tuple(_node(node) for node in data["nodes"]),
            "anchor": _process(data["anchor"]),
            "power": _process(data.get("power")),
            "anchor_groups": _groups(data["anchor_groups"]),
            "group_tops": tuple(data["group_tops"]),
            "cgroups": (kind, tuple(controllers)),
        }
    )


def _node(data: dict[str, Any]) -> NodeRecord:
    plan = data["plan"]
    return NodeRecord(
        plan=PlannedNode(**plan | {"role": LabRole(plan["role"])}),
        process=_process(data["process"]),
        groups=_groups(data["groups"]),
        partitioned=bool(data["partitioned"]),
    )


def _process(data: list[int] | None) -> ProcessId | None:
    return None if data is None else ProcessId(*map(int, data))


def _groups(data: dict[str, Any]) -> MemberGroups:
    lists = {name: tuple(value) for name, value in data.items() if name != "kind"}
    return MemberGroups(kind=data["kind"], **lists)


def labs() -> list[str]:
    """Names of all labs that have a record here."""
    try:
        return sorted(path.parent.name for path in LABS.glob("*/lab.json"))
    except PermissionError:
        return []


@contextmanager
def locked(lab: str) -> Iterator[None]:
    """Hold the lock of a lab. Raises GridwrightError where another command holds it for long."""
    path = Places(lab).lock
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while True:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # another down has just removed the directory
            continue
        if _lock(fd, path):
            break
        os.close(fd)
        if time.monotonic() > deadline:
            raise environment_error(
                f"another command has been changing lab {lab} for {LOCK_PATIENCE_S:.0f} s",
                where=str(path),
                remedy="wait for it, or end it",
            )
        time.sleep(0.05)
    try:
        yield
    finally:
        if not Places(lab).home.exists():
            path.unlink(missing_ok=True)
        os.close(fd)


def _lock(fd: int, path: Path) -> bool:
    """Whether the lock is ours, and its file still the one that others will look for."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fstat(fd).st_ino == path.stat().st_ino
    except (BlockingIOError, FileNotFoundError):
        return False
