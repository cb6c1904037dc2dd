"""A model of disks, md and mounts, which carries out steps of scratch storage, wholly or cut off half way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from gridwright.node_programs.scratch.configuration import Configuration, DesiredArray
from gridwright.node_programs.scratch.disks import (
    Content,
    Disk,
    FileSystemSuperblock,
    MdArray,
    MdMember,
    Mount,
)
from gridwright.node_programs.scratch.machine import Machine
from gridwright.node_programs.scratch.planning import plan_arrays
from gridwright.node_programs.scratch.plans import Plan, Step
from gridwright.node_programs.scratch.state import NOTHING, Build, State

MIB = 1 << 20
DISK_BYTES = 512 * MIB
DATA_OFFSET = 2 * MIB
BLANK = Content(zero_ends=True)
RAID = ((4096, "linux_raid_member"),)
DESIRED = DesiredArray("scratch", Path("/scratch"))


def disk(name: str, content: Content = BLANK, serial: str | None = None, size: int = DISK_BYTES) -> Disk:
    """A disk of an instance store."""
    return Disk(
        name,
        f"/dev/{name}",
        size,
        "nvme",
        "Amazon EC2 NVMe Instance Storage",
        serial or f"S-{name}",
        content=content,
    )


def member(
    uuid: str, role: int, of: int, name: str = "gridwright:scratch", chunk: int = 512 * 1024
) -> Content:
    """A disk with a superblock of md."""
    return Content(RAID, md=MdMember(uuid, name, 0, chunk, of, role, DATA_OFFSET, intact=True))


def filesystem(uuid: str, disks: int = 1, type: str = "xfs", chunk: int = 512 * 1024) -> FileSystemSuperblock:
    """A whole file system, aligned where it is striped."""
    unit = chunk if disks > 1 else 0
    return FileSystemSuperblock(type, uuid, "scratch", unit, unit * disks)


def array_of(uuid: str, fs_uuid: str, disks: int, names: str = "abcdefgh") -> list[Disk]:
    """The disks of a whole array with a file system, as they lie there after a start of the machine."""
    made = []
    for role in range(disks):
        content = member(uuid, role, disks)
        found = filesystem(fs_uuid, disks) if role == 0 else None
        made.append(disk(f"nvme{names[role]}", replace(content, filesystem=found)))
    return made


def built(disks: list[Disk], md_uuid: str | None, fs_uuid: str, name: str = "scratch") -> State:
    """What is written down of an array of these disks."""
    serials = tuple(each.serial for each in disks)
    return State({name: Build(name, serials, md_uuid, fs_uuid, "xfs", 512 * 1024)}, {})


@dataclass
class World:
    """Everything that steps change."""

    disks: dict[str, Disk]
    state: State = NOTHING
    desired_arrays: tuple[DesiredArray, ...] = (DESIRED,)
    matched: frozenset[str] | None = None
    arrays: dict[str, MdArray] = field(default_factory=dict)
    mounted: dict[str, str] = field(default_factory=dict)
    """Mount point by name of device."""
    numbers: count[int] = field(default_factory=lambda: count(1))

    @classmethod
    def of(cls, disks: list[Disk], state: State = NOTHING, **more: object) -> World:
        return cls({each.name: each for each in disks}, state, **more)  # type: ignore[arg-type]

    def configuration(self) -> Configuration:
        return Configuration(self.desired_arrays)

    def machine(self) -> Machine:
        matched = frozenset(self.disks) if self.matched is None else self.matched
        held = {name: array.name for array in self.arrays.values() for name in array.members}
        disks = []
        for each in self.disks.values():
            used = each.used or (
                f"mounted on {self.mounted[each.name]}" if each.name in self.mounted else None
            )
            busy = each.content.busy or each.name in held or bool(used)
            holders = (held[each.name],) if each.name in held else each.holders
            disks.append(replace(each, used=used, holders=holders, content=replace(each.content, busy=busy)))
        arrays = []
        for array in self.arrays.values():
            first = self.disks[array.members[0]].content
            used = f"mounted on {self.mounted[array.name]}" if array.name in self.mounted else None
            found = None if array.state == "inactive" else first.filesystem
            arrays.append(replace(array, used=used, filesystem=found))
        mounts = tuple(
            Mount("9:1", point, "xfs", f"/dev/{name}", "rw") for name, point in self.mounted.items()
        )
        return Machine(
            tuple(disks),
            {desired.name: matched for desired in self.desired_arrays},
            tuple(arrays),
            mounts,
            full_points=frozenset(),
        )

    def plan(self, wipe: tuple[str, ...] = ()) -> Plan:
        return plan_arrays(
            self.configuration(),
            self.state,
            self.machine(),
            wipe,
            lambda: f"uuid-{next(self.numbers)}",
            "now",
        )

    def carry_out(self, step: Step) -> None:
        """The whole step."""
        self.cut_off(step, 1.0)

    def cut_off(self, step: Step, part: float) -> None:
        """As much of a step as was done when it was killed: 0 nothing, 1 all of it."""
        getattr(self, f"_{step.action.replace('-', '_')}")(step, part)

    def restart(self) -> None:
        """The machine is switched off and on: nothing is assembled, nothing mounted."""
        self.arrays, self.mounted = {}, {}

    def _set(self, name: str, content: Content) -> None:
        self.disks[name] = replace(self.disks[name], content=content)

    def _wipe(self, step: Step, part: float) -> None:
        name = step.destroys[0].name
        if part >= 1:
            self._set(name, BLANK)
            self.disks[name] = replace(self.disks[name], partitions=())
        elif part > 0.5:
            self._set(name, Content(zero_ends=False))

    def _stop(self, step: Step, part: float) -> None:
        if part >= 1:
            name = step.device.rsplit("/", 1)[-1]
            assert name not in self.mounted, "stopped while it is mounted"
            del self.arrays[name]

    def _intend(self, step: Step, part: float) -> None:
        if part >= 1 and step.build is not None:
            self.state = self.state.with_intent(step.build)

    def _record(self, step: Step, part: float) -> None:
        if part >= 1 and step.build is not None:
            self.state = self.state.with_made(step.build)

    def _create(self, step: Step, part: float) -> None:
        build = step.build
        assert build is not None
        assert build.md_uuid is not None
        disks = step.destroys
        for role, each in enumerate(disks[: round(part * len(disks))]):
            before = self.disks[each.name].content
            content = member(build.md_uuid, role, len(disks), f"gridwright:{build.name}", build.chunk_bytes)
            # What lies behind the superblock is what was there before.
            self._set(
                each.name, replace(content, filesystem=before.filesystem if before.md and role == 0 else None)
            )
        if part >= 1:
            self._run(step.device, tuple(each.name for each in disks))

    def _run(self, device: str, names: tuple[str, ...]) -> None:
        for array in self.arrays.values():
            assert not set(array.members) & set(names), "a disk is held by another array"
        name = device.rsplit("/", 1)[-1]
        self.arrays[name] = MdArray(name, device, "clean", "raid0", len(names), names, "9:1")

    def _assemble(self, step: Step, part: float) -> None:
        if part < 1:
            return
        names = tuple(path.rsplit("/", 1)[-1] for path in step.argv if path.startswith("/dev/nvme"))
        found = [self.disks[name].content.md for name in names]
        assert [each.role for each in found if each] == list(range(len(names))), "mdadm would not start this"
        self._run(step.device, names)

    def _format(self, step: Step, part: float) -> None:
        build = step.build
        assert build is not None
        first, disks = step.destroys[0].name, len(step.destroys)
        found = filesystem(build.filesystem_uuid, disks, build.format, build.chunk_bytes)
        before = self.disks[first].content
        if disks > 1:
            assert set(self.arrays[step.device.rsplit("/", 1)[-1]].members) == {
                each.name for each in step.destroys
            }
            new = replace(found, finished=part >= 1) if part > 0.5 else None
            if part > 0:
                self._set(first, replace(before, filesystem=new))
        elif part >= 1:
            self._set(first, Content(((0, build.format),), filesystem=found))
        elif part > 0.7:
            self._set(first, Content(((0, build.format),), filesystem=replace(found, finished=False)))
        elif part > 0:
            self._set(first, Content(zero_ends=part < 0.3))

    def _tune(self, step: Step, part: float) -> None:
        pass

    def _mount_point(self, step: Step, part: float) -> None:
        pass

    def _mount(self, step: Step, part: float) -> None:
        if part >= 1:
            name = step.device.rsplit("/", 1)[-1]
            held = self.arrays[name].members[0] if name in self.arrays else name
            found = self.disks[held].content.filesystem
            assert found is not None, "there is no file system to be mounted"
            assert found.finished, "a half made file system is mounted"
            self.mounted[name] = step.argv[-1]

    def _directories(self, step: Step, part: float) -> None:
        pass


def contents(world: World) -> Mapping[str, Content]:
    """What is on each disk."""
    return {name: each.content for name, each in world.disks.items()}
