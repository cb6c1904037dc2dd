"""What a lab consists of, written down before it is made: what `down` and the next `up` work from."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from gridwright.atomic import naming
from gridwright.commands import run_bounded
from gridwright.errors import GridwrightError, environment_error
from gridwright.kernel_files import boot_id, names_in
from gridwright.providers.lab.layout import Lab, LabLayout, LabRole, PlannedNode
from gridwright.providers.lab.namespaces import Cgroups, Hierarchy, MemberGroups, ProcessId
from gridwright.schedulers.state_directory import state_directory
from gridwright.spec.load import load_spec, parse_spec
from gridwright.spec.model import GridSpec

# Where a lab keeps its files on this machine.

LABS = Path("/var/lib/gridwright/labs")
"""Each lab has a directory here: only root can have one."""


@dataclass(frozen=True, slots=True)
class Places:
    """The files and directories of one lab; only root can enter its directory."""

    lab: str

    @property
    def home(self) -> Path:
        """The directory with everything of the lab."""
        return LABS / self.lab

    @property
    def lock(self) -> Path:
        """Held while a command changes the lab."""
        return LABS / f"{self.lab}.lock"

    @property
    def record(self) -> Path:
        """What the lab consists of: processes, addresses, control groups."""
        return self.home / "lab.json"

    @property
    def state(self) -> Path:
        """Its queue, the logs of its jobs, and its records, unless the spec names another place."""
        return self.home / "state"

    @property
    def secrets(self) -> Path:
        """Keys of its services; mode 0700."""
        return self.home / "secrets"

    @property
    def nodes(self) -> Path:
        """What each node has changed in its root file system, and what it stores."""
        return self.home / "nodes"

    def node(self, name: str) -> Path:
        """What a node has changed in its root file system, and what it stores."""
        return self.nodes / name

    @property
    def power_log(self) -> Path:
        """What was done to power nodes on and off for the scheduler."""
        return self.home / "power.log"

    @property
    def disks(self) -> Path:
        """Where storage nodes have their disks, as images."""
        return self.home / "disks"

    def disk(self, name: str) -> Path:
        """The disk of a storage node."""
        return self.disks / f"{name}.img"

    @property
    def filesystems(self) -> Path:
        """File systems of type local."""
        return self.home / "filesystems"

    def filesystem(self, name: str) -> Path:
        """The directory of this machine that all nodes share as a file system of type local."""
        return self.filesystems / name


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


# The spec that a lab was made from, kept with it: what later commands work from, and compare with.

_SHAPES = ("nodes", "filesystems", "libraries", "scheduler", "state", "lab")
"""Sections of a spec that a lab is made from; the rest may change while it is up."""
_ONLY_JUDGED = ("requires", "capacity")
"""Fields of a library that only planning and proofs read."""
_SHOWN = 5


def _copy(lab: str) -> Path:
    return Places(lab).home / "grid.yaml"


def keep_copy(spec: GridSpec) -> None:
    """Keep the text of a spec with its lab. Raises OSError."""
    # One that was made from values has no text; JSON is YAML.
    text = spec.source_text or json.dumps(spec.model_dump(mode="json", exclude_unset=True))
    write_durably(_copy(spec.name), text)


def deployed_spec(record: LabRecord) -> GridSpec:
    """The spec that a lab was made from. Raises GridwrightError."""
    path = _copy(record.lab)
    base = Path(record.spec_file).parent if record.spec_file else None
    try:
        return parse_spec(path.read_bytes(), str(path), base=base)
    except (OSError, GridwrightError) as error:
        raise environment_error(
            f"the spec that lab {record.lab} was made from cannot be read: {error}",
            where=str(path),
            remedy="write it there again, as you have it; gridwright down deletes the lab with its data",
        ) from error


def digest(spec: GridSpec) -> str:
    """Tells whether two specs make the same lab."""
    return hashlib.sha256(json.dumps(_shape(spec), sort_keys=True).encode()).hexdigest()


def differences(record: LabRecord, spec: GridSpec) -> list[str]:
    """What a spec has otherwise than the one that a lab was made from, in words; empty where nothing."""
    if digest(spec) == record.digest:
        return []
    found = list(_differences("", _shape(deployed_spec(record)), _shape(spec)))
    more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
    return found[:_SHOWN] + more


def _shape(spec: GridSpec) -> dict[str, Any]:
    shape: dict[str, Any] = spec.model_dump(mode="json", include=set(_SHAPES))
    for library in shape["libraries"].values():
        for name in _ONLY_JUDGED:
            library.pop(name, None)
    return shape


def _differences(path: str, old: object, new: object) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from _differences(f"{path}.{key}" if path else key, old.get(key), new.get(key))
    elif old != new:
        yield f"{path} is {json.dumps(old)} in the lab and {json.dumps(new)} in the spec"


# Whose lab it is: labs are known by their names alone, and specs in two directories may say the same one.


def record_for(spec: GridSpec) -> LabRecord | None:
    """The record of the lab of a spec; None where there is none.

    Raises GridwrightError where the lab of that name was made from a spec in another directory, which still
    is there and still names it: jobs, logs and data in it are somebody else's. A copy beside the spec is the
    same grid's.
    """
    record = read(spec.name)
    if record is None or spec.file is None or not record.spec_file:
        return record
    maker = Path(record.spec_file)
    if _directory(maker) == _directory(spec.file) or not _names(maker, record.lab):
        return record
    raise environment_error(
        f"lab {spec.name} is another grid's of the same name: it was made from {maker}",
        where=str(spec.file),
        remedy=f"give this grid another name, or take that one down first: gridwright down {maker}",
    )


def _directory(file: Path) -> Path:
    return file.parent.resolve()


def _names(file: Path, lab: str) -> bool:
    """Whether a spec is there and names the lab; one that cannot be read may."""
    if not file.is_file():
        return False
    try:
        return load_spec(file).name == lab
    except GridwrightError:
        return True


# Disks of storage nodes: each is an image file, which is a block device while its node is up.

MOUNT_POINT = "/srv/mfs"
"""Where a storage node has its disk."""
FILE_SYSTEM = "ext4"


def size_of(spec: GridSpec, node: PlannedNode) -> int | None:
    """The size of a node's disk in bytes; None where it has none of its own."""
    lab = spec.section(Lab)
    return lab.disk if lab is not None and node.role == LabRole.STORAGE else None


def attach(image: Path, size_bytes: int) -> str:
    """Make the disk where there is none yet, and attach it; the path of its block device.

    To be called when no node has it mounted: a device that a killed command left of it is given up.
    Raises GridwrightError (status ENVIRONMENT).
    """
    if not image.exists():
        image.parent.mkdir(parents=True, exist_ok=True)
        part = image.with_suffix(".part")
        part.unlink(missing_ok=True)
        with part.open("wb") as empty:
            empty.truncate(size_bytes)
        _call("mkfs.ext4", "-q", "-F", "-m", "0", str(part))
        part.rename(image)
    detach_all(image)
    return _call("losetup", "--find", "--show", str(image)).strip()


def detach(device: str) -> None:
    """Give a block device up: at once, or when nobody has it mounted any more. Raises GridwrightError."""
    _call("losetup", "--detach", device)


def detach_all(*images: Path) -> None:
    """Give up all block devices of disks, such as a killed command left them. Raises GridwrightError."""
    for image in images:
        for line in _call("losetup", "--associated", str(image)).splitlines():
            detach(line.partition(":")[0])


def _call(*command: str) -> str:
    answer = run_bounded(command, timeout_s=60.0)
    if answer.status:
        why = answer.stderr.decode(errors="replace").strip()
        raise environment_error(
            f"{command[0]} failed: {why}",
            remedy="leave out disk: in the spec of the lab, if this machine has no loop devices",
        )
    return answer.stdout.decode()


# What the directory of a lab holds: what `down` deletes, and what a lab cannot be booted without.

_SHOWN_NAMES = 6
_DISK = ".img"


def contents(lab: str) -> tuple[str, ...]:
    """What there is of a lab, such as `disks of controller and compute1`; empty where nothing is."""
    places = Places(lab)
    disks = (name for name in names_in(places.disks) if name.endswith(_DISK))
    found = (
        ("what is on nodes", names_in(places.nodes)),
        ("disks of", [name.removesuffix(_DISK) for name in disks]),
        ("local file systems", names_in(places.filesystems)),
    )
    words = [f"{what} {_listed(names)}" for what, names in found if names]
    return (*words, *(["queue, logs and records of jobs"] if places.state.is_dir() else []))


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - _SHOWN_NAMES} more"] if len(names) > _SHOWN_NAMES else []
    words = [*names[:_SHOWN_NAMES], *more]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def missing(record: LabRecord, spec: GridSpec) -> list[Path]:
    """What a lab that was up had in files, and has not any more: a boot would begin with empty ones."""
    return [path for path in _needed(record, spec) if not path.exists()] if record.has_data else []


def _needed(record: LabRecord, spec: GridSpec) -> Iterator[Path]:
    places = Places(record.lab)
    powered = spec.powered_nodes()
    yield state_directory(spec)
    for node in record.nodes:
        # One that its scheduler powers may never have been on.
        if node.plan.name not in powered:
            yield places.node(node.plan.name)
        if size_of(spec, node.plan) is not None:
            yield places.disk(node.plan.name)
    for name, filesystem in spec.filesystems.items():
        if filesystem.is_node_local:
            yield places.filesystem(name)
