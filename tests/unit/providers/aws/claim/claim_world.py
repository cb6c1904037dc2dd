"""A cloud and machines in memory, with a place to stop at before and after each change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gridwright.node_programs.lustre_targets import (
    BLANK,
    TARGET,
    UNCLEAR,
    DesiredTarget,
    Device,
    ManagementSilentError,
)
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.command import Claimant
from gridwright.providers.aws.claim.configuration import Configuration, Slot
from gridwright.providers.aws.claim.deciding import UNKNOWN, Identity, Interface, LostError, Record, Volume

FASTER = 100.0
"""By how much waiting is shorter here."""


class Killed(BaseException):
    """The process, or the machine, is gone at this point."""


def target(index: int, kind: str = "ost", with_mgt: bool = False) -> DesiredTarget:
    name = f"shared-{kind.upper()}{index:04x}"
    return DesiredTarget(name, kind, index, "shared", with_mgt, Path("/srv/gridwright") / name)


def slots(count: int, targets: int = 2) -> tuple[Slot, ...]:
    return tuple(
        Slot(
            f"shared-oss{number + 1}",
            f"10.20.64.{11 + number}",
            tuple(target(number * targets + each) for each in range(targets)),
        )
        for number in range(count)
    )


def configuration_of(given: tuple[Slot, ...], role: str = "oss") -> Configuration:
    return Configuration("demo", "us-east-1", "gridwright-demo-claims", role, given, "10.20.64.10@tcp")


@dataclass
class Disk:
    """What is on a volume."""

    holds: str = BLANK
    what: str = ""
    label: str = ""
    registered: bool = False
    whole: bool = False
    formats: int = 0


@dataclass
class World:
    """Everything outside of the machines, and each machine's own state."""

    configuration: Configuration
    point: Callable[[str, str], None] = lambda instance, what: None
    """Called with instance and what is about to be done, or was just done."""
    table: dict[str, Record] = field(default_factory=dict)
    history: list[Record] = field(default_factory=list)
    states: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    interfaces: dict[str, Interface] = field(default_factory=dict)
    disks: dict[str, Disk] = field(default_factory=dict)
    attached: list[tuple[str, str]] = field(default_factory=list)
    """Volume, or interface, and instance, for each time that one was attached."""
    wanted: set[str] = field(default_factory=set)
    """Powered slots that the scheduler wants on."""
    mgs_answers: bool = True
    mgs_runs: bool = True
    """Its machine may answer while it does not run."""
    stock_tools: bool = False
    held: set[str] = field(default_factory=set)
    """Instances that made sure of their slot for the one thing that they do next."""

    @classmethod
    def new(cls, configuration: Configuration, **more: object) -> World:
        """Nothing was ever claimed."""
        world = cls(configuration, **more)  # type: ignore[arg-type]
        for slot in configuration.slots:
            number = slot.address.rsplit(".", 1)[-1]
            mac = f"02:00:00:00:00:{int(number):02x}"
            world.interfaces[slot.name] = Interface(f"eni-{number}", mac, slot.address)
            for each in slot.targets:
                world.volumes[each.name] = Volume(f"vol-{each.name}", each.name, "available")
                world.disks[f"vol-{each.name}"] = Disk()
        return world

    def claimant(self, instance: str, *, name_only: bool = False) -> Claimant:
        """An instance that just started."""
        self.states.setdefault(instance, "running")
        return self.again(Machine(self, instance), name_only=name_only)

    def again(self, machine: Machine, *, name_only: bool = False) -> Claimant:
        """The program, started once more."""
        return Claimant(self.configuration, Cloud(self, machine.id), machine, name_only)

    def end(self, instance: str) -> None:
        """The instance is terminated, and EC2 has let go of what it had."""
        self.states[instance] = "terminated"
        for name, volume in self.volumes.items():
            if volume.instance == instance:
                self.volumes[name] = replace(volume, state="available", instance="", attachment="", device="")
        for name, each in self.interfaces.items():
            if each.instance == instance:
                self.interfaces[name] = replace(each, instance="", attachment="")

    def use_hold(self, instance: str) -> None:
        """What others see, or what cannot be undone, is done only after a look at the table."""
        assert instance in self.held, "acts without having made sure that the slot is its own"
        self.held.remove(instance)

    def disk_of(self, name: str) -> Disk:
        return self.disks[self.volumes[name].id]


class Cloud:
    """See gridwright.providers.aws.claim.deciding.Cloud; as one instance reaches it."""

    def __init__(self, world: World, instance: str) -> None:
        self._world, self._me = world, instance

    def is_desired(self, slot: str) -> bool:
        self._world.point(self._me, f"wanted {slot}")
        return slot in self._world.wanted

    def record(self, slot: str) -> Record | None:
        self._world.point(self._me, f"read {slot}")
        return self._world.table.get(slot)

    def take(self, slot: str, over: Record | None, instance: str) -> Record | None:
        self._world.point(self._me, f"before take {slot}")
        there = self._world.table.get(slot)
        if (there.owner, there.token) != (over.owner, over.token) if there and over else there is not over:
            return None
        taken = replace(there or Record(slot, "", 0), owner=instance, token=over.token + 1 if over else 1)
        self._put(taken)
        self._world.point(self._me, f"after take {slot}")
        return taken

    def write(self, record: Record) -> None:
        self._world.point(self._me, f"before write {record.slot}")
        self.check(record)
        self._put(record)
        self._world.point(self._me, f"after write {record.slot}")

    def hold(self, record: Record) -> None:
        self._world.point(self._me, f"before hold {record.slot}")
        self.check(record)
        self._world.held.add(self._me)
        self._world.point(self._me, f"after hold {record.slot}")

    def check(self, record: Record) -> None:
        there = self._world.table.get(record.slot)
        if there is None or (there.owner, there.token) != (record.owner, record.token):
            raise LostError(record.slot, record.owner)

    def _put(self, record: Record) -> None:
        self._world.table[record.slot] = record
        self._world.history.append(record)

    def instances(self, names: Iterable[str]) -> Mapping[str, str]:
        self._world.point(self._me, "read instances")
        return {name: self._world.states.get(name, UNKNOWN) for name in names}

    def volumes(self, slot: str) -> tuple[Volume, ...]:
        self._world.point(self._me, f"read volumes {slot}")
        wanted = {
            each.name for one in self._world.configuration.slots if one.name == slot for each in one.targets
        }
        found = {name: each for name, each in self._world.volumes.items() if each.target in wanted}
        for name, each in found.items():
            if each.attachment == "attaching":
                self._world.volumes[name] = replace(each, state="in-use", attachment="attached")
        return tuple(found.values())

    def interfaces(self, slot: str) -> tuple[Interface, ...]:
        self._world.point(self._me, f"read interfaces {slot}")
        found = self._world.interfaces.get(slot)
        if found is not None and found.attachment == "attaching":
            self._world.interfaces[slot] = replace(found, attachment="attached")
        return (found,) if found is not None else ()

    def attach_volume(self, volume: str, instance: str, device: str) -> None:
        self._world.use_hold(self._me)
        self._world.point(self._me, f"before attach {volume}")
        ((name, there),) = [each for each in self._world.volumes.items() if each[1].id == volume]
        if not there.instance:  # EC2 refuses what is attached to another one
            self._world.volumes[name] = replace(
                there, state="in-use", instance=instance, attachment="attaching", device=device
            )
            self._world.attached.append((volume, instance))
        self._world.point(self._me, f"after attach {volume}")

    def attach_interface(self, interface: str, instance: str) -> None:
        self._world.use_hold(self._me)
        self._world.point(self._me, f"before attach {interface}")
        ((name, there),) = [each for each in self._world.interfaces.items() if each[1].id == interface]
        if not there.instance:
            self._world.interfaces[name] = replace(there, instance=instance, attachment="attaching")
            self._world.attached.append((interface, instance))
        self._world.point(self._me, f"after attach {interface}")


class Machine:
    """See gridwright.providers.aws.claim.deciding.Machine."""

    def __init__(self, world: World, instance: str) -> None:
        self.id = instance
        self._world = world
        self._clock = 0.0
        self.named: Identity | None = None
        self.configured = False
        self.network: tuple[str, ...] = ()
        self.mounts: dict[str, str] = {}
        self.lacks: tuple[str, ...] = ()

    def start_again(self) -> None:
        """Switched off and on: what is attached stays attached."""
        self.named, self.configured, self.network, self.mounts = None, False, (), {}

    def instance(self) -> str:
        return self.id

    def identity(self) -> Identity | None:
        return self.named

    def name(self, identity: Identity) -> None:
        self._world.point(self.id, "before name")
        self.named = identity
        self._world.point(self.id, "after name")

    def _here(self, instance: str, attachment: str) -> bool:
        return instance == self.id and attachment == "attached"

    def link(self, mac: str) -> str | None:
        found = [each for each in self._world.interfaces.values() if each.mac == mac]
        return "ens6" if self._here(found[0].instance, found[0].attachment) else None

    def is_configured(self, link: str, address: str) -> bool:
        return self.configured

    def configure(self, link: str, mac: str, address: str) -> None:
        self._world.point(self.id, "before configure")
        self.configured = True
        self._world.point(self.id, "after configure")

    def missing(self) -> tuple[str, ...]:
        return self.lacks

    def cannot_make(self, kind: str) -> str | None:
        return "mkfs.lustre FATAL: mkfs failed 256" if self._world.stock_tools else None

    def nids(self) -> tuple[str, ...]:
        return self.network

    def start_network(self, link: str) -> None:
        self._world.point(self.id, "before network")
        assert self.named is not None
        self.network = (f"{self.named.address}@tcp",)
        self._world.point(self.id, "after network")

    def reaches(self, nid: str) -> bool:
        return self._world.mgs_answers

    def path(self, volume: str, name: str) -> str | None:
        ((_, there),) = [each for each in self._world.volumes.items() if each[1].id == volume]
        if not self._here(there.instance, there.attachment):
            return None
        return f"/dev/{volume}"

    def device(self, path: str) -> Device:
        disk = self._world.disks[path.removeprefix("/dev/")]
        return Device(path, disk.holds, disk.what, disk.label, disk.registered)

    def unreadable(self, path: str) -> str | None:
        whole = self._world.disks[path.removeprefix("/dev/")].whole
        return None if whole else f"Device {path} has not been formatted with mkfs.lustre"

    def format(self, path: str, target: DesiredTarget, mgs: str | None) -> None:
        volume = path.removeprefix("/dev/")
        disk = self._world.disks[volume]
        self._world.use_hold(self.id)
        self._world.point(self.id, f"before format {target.name}")
        there = self._world.volumes[target.name]
        assert there.instance == self.id, "formats what is not attached to it"
        assert disk.holds in (BLANK, UNCLEAR), f"formats what holds {disk.holds} {disk.label}{disk.what}"
        assert not disk.whole
        disk.holds = UNCLEAR
        self._world.point(self.id, f"while formatting {target.name}")
        disk.holds, disk.label, disk.formats = TARGET, target.name, disk.formats + 1
        self._world.point(self.id, f"labelled {target.name}")
        disk.whole = True
        self._world.point(self.id, f"after format {target.name}")

    def mounted(self, target: DesiredTarget) -> str | None:
        return self.mounts.get(target.name)

    def mount(self, path: str, target: DesiredTarget) -> None:
        self._world.use_hold(self.id)
        self._world.point(self.id, f"before mount {target.name}")
        disk = self._world.disks[path.removeprefix("/dev/")]
        assert disk.whole, "mounts what is not whole"
        if not (self._world.mgs_runs or disk.registered or target.has_mgs):
            self._clock += 60.0
            raise ManagementSilentError(Trouble("mount ended with status 110 (60.0 s)", "see dmesg"))
        assert disk.label == target.name
        self.mounts[target.name], disk.registered = path, True
        self._world.point(self.id, f"after mount {target.name}")

    def wait(self, seconds: float) -> None:
        self._clock += seconds * FASTER
        self._world.point(self.id, "wait")

    def now(self) -> float:
        return self._clock
