"""What a claim knows, and the next step by it: records of the table, answers of EC2 and of the machine.

Nothing here changes anything.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Protocol, Union

from gridwright.node_programs.lustre_targets import (
    FORMATTED,
    FORMATTING,
    NEW,
    Act,
    ClaimError,
    DesiredTarget,
    Device,
    DiskVerdict,
    DiskWords,
    require_tools,
    verdict,
)
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.configuration import WITHOUT_TARGETS, Configuration, Slot

# What is wrong with a claim, in the words of `scratch.problems`.


class LostError(ClaimError):
    """The slot has another owner now: the one before must stop."""

    def __init__(self, slot: str, instance: str) -> None:
        super().__init__(
            Trouble(
                f"{slot} does not belong to {instance} any more: its slot was claimed anew, so nothing "
                "further is done here, and nothing is unmounted",
                "look who has it: gridwright status; then terminate this instance, so that one machine is "
                f"{slot}",
            )
        )


@dataclass(frozen=True)
class VolumeRecord:
    """The record of a volume: its target and its state."""

    target: str
    state: str = NEW


@dataclass(frozen=True)
class Record:
    """The item of a slot."""

    slot: str
    owner: str
    """Instance that the machine is."""
    token: int
    """Rises with every change of owner."""
    volumes: Mapping[str, VolumeRecord] = field(default_factory=dict)
    """By volume ID."""
    interface: str = ""

    def with_volume(self, volume: str, kept: VolumeRecord) -> Record:
        """The record in which a volume is known; what was known of another one for its target is dropped."""
        others = {name: each for name, each in self.volumes.items() if each.target != kept.target}
        return replace(self, volumes={**others, volume: kept})


# What a claim asks of the cloud: the table, instances, volumes and network interfaces.

UNKNOWN = "unknown"
"""State of an instance that EC2 does not know: it forgets those that ended an hour ago."""
GONE = ("terminated", UNKNOWN)
"""States from which no instance comes back. One that is shutting down may still write."""


@dataclass(frozen=True)
class Volume:
    """A volume that is tagged for a slot."""

    id: str
    target: str
    state: str
    """As EC2 has it: creating, available, in-use, error."""
    instance: str = ""
    """To which it is attached, being attached or being detached."""
    attachment: str = ""
    """attaching, attached, detaching, busy; empty where it is attached to nothing."""
    device: str = ""


@dataclass(frozen=True)
class Interface:
    """A network interface that is tagged for a slot."""

    id: str
    mac: str
    address: str
    instance: str = ""
    attachment: str = ""


class Cloud(Protocol):
    """Every call ends in bounded time, and raises ClaimError where it fails."""

    def record(self, slot: str) -> Record | None:
        """The item of a slot, as it is at this moment."""

    def is_desired(self, slot: str) -> bool:
        """Whether the scheduler wants a slot on, of one that is powered."""

    def take(self, slot: str, over: Record | None, instance: str) -> Record | None:
        """Become the owner, if the item is still as `over` has it; None where somebody was faster."""

    def write(self, record: Record) -> None:
        """Write volumes and interface, if slot and token are still ours. Raises LostError."""

    def hold(self, record: Record) -> None:
        """Make sure that slot and token are still ours. Raises LostError."""

    def instances(self, names: Iterable[str]) -> Mapping[str, str]:
        """State of each instance."""

    def volumes(self, slot: str) -> tuple[Volume, ...]:
        """Volumes that are tagged for a slot."""

    def interfaces(self, slot: str) -> tuple[Interface, ...]:
        """Network interfaces that are tagged for a slot."""

    def attach_volume(self, volume: str, instance: str, device: str) -> None:
        """Begin to attach a volume that is available."""

    def attach_interface(self, interface: str, instance: str) -> None:
        """Begin to attach an interface that is available, as the second one."""


# What a claim asks of the machine that it runs on.


@dataclass(frozen=True)
class Identity:
    """What this machine has been named since it started."""

    name: str
    address: str
    token: int


class Machine(Protocol):
    """Every call ends in bounded time, and raises ClaimError where it fails."""

    def instance(self) -> str:
        """The ID of this instance."""

    def identity(self) -> Identity | None:
        """What it has been named since it started; None before."""

    def name(self, identity: Identity) -> None:
        """Remember who it is until it is switched off."""

    def link(self, mac: str) -> str | None:
        """The name of a network interface; None while the kernel has not found it."""

    def is_configured(self, link: str, address: str) -> bool:
        """Whether the interface is up with its address, and answers go out where questions came in."""

    def configure(self, link: str, mac: str, address: str) -> None:
        """Bring it up with its address, and route by source."""

    def missing(self) -> tuple[str, ...]:
        """Programs that a server of Lustre needs and that are not there."""

    def cannot_make(self, kind: str) -> str | None:
        """Why the tools cannot make a target of that kind, in their own words; None where they can."""

    def nids(self) -> tuple[str, ...]:
        """The addresses of Lustre's network; none while it is not up."""

    def start_network(self, link: str) -> None:
        """Bring Lustre's network up on an interface."""

    def reaches(self, nid: str) -> bool:
        """Whether the machine of a management server answers; whether one runs there, a mount shows."""

    def path(self, volume: str, name: str) -> str | None:
        """The device that a volume is; None while the kernel has not found it."""

    def device(self, path: str) -> Device:
        """What it holds, looked at without writing to it."""

    def unreadable(self, path: str) -> str | None:
        """What its tool says of a target that it cannot read; None where it was formatted to the end."""

    def format(self, path: str, target: DesiredTarget, mgs: str | None) -> None:
        """Make a target of it. What it held is lost."""

    def mounted(self, target: DesiredTarget) -> str | None:
        """What is mounted where the target belongs; None where nothing is."""

    def mount(self, path: str, target: DesiredTarget) -> None:
        """Start the target. Raises ManagementSilentError where nobody registers it."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def now(self) -> float:
        """Seconds of a clock that never goes back."""


# An observation of cloud and machine for one step.

_ASK_AGAIN_S = 5.0
"""A new instance can be unknown for a moment (EC2's answers are eventually consistent)."""


class Observation:
    """Reads a Cloud and a Machine, each fact once, when it is asked for; changes neither."""

    def __init__(self, cloud: Cloud, machine: Machine, instance: str) -> None:
        self._cloud, self._machine = cloud, machine
        self.instance = instance
        self.record = cache(cloud.record)
        self.is_desired = cache(cloud.is_desired)
        self.volumes = cache(cloud.volumes)
        self.interfaces = cache(cloud.interfaces)
        self.identity = cache(machine.identity)
        self.link = cache(machine.link)
        self.is_configured = cache(machine.is_configured)
        self.missing = cache(machine.missing)
        self.cannot_make = cache(machine.cannot_make)
        self.nids = cache(machine.nids)
        self.reaches = cache(machine.reaches)
        self.path = cache(machine.path)
        self.device = cache(machine.device)
        self.unreadable = cache(machine.unreadable)
        self.mounted = cache(machine.mounted)
        self._states = cache(self._looked_up)

    def owners(self, names: Iterable[str]) -> Mapping[str, str]:
        """State of instances; one that EC2 does not know is asked for twice."""
        return self._states(tuple(sorted(set(names))))

    def _looked_up(self, names: tuple[str, ...]) -> Mapping[str, str]:
        states = dict(self._cloud.instances(names))
        strange = [name for name, state in states.items() if state == UNKNOWN]
        if strange:
            self._machine.wait(_ASK_AGAIN_S)
            states.update(self._cloud.instances(strange))
        return states


# The steps of a claim; each does one thing, and its text is said when it is done.


@dataclass(frozen=True)
class Wait:
    """Look again in a moment; `trouble` is what is wrong if the wait lasts longer than `limit_s`."""

    what: str
    trouble: Trouble
    limit_s: float

    def __str__(self) -> str:
        return f"wait for at most {self.limit_s:.0f} s: {self.trouble.what}"


@dataclass(frozen=True)
class Step:
    """One thing to do."""

    text: str
    do: Callable[[Cloud, Machine], object]
    holds: Record | None = None
    """What has to be ours still, for what is seen from outside of this machine or cannot be undone."""
    silence: Wait | None = None
    """What to wait for where no management server registers a target; None where it needs none."""

    def __str__(self) -> str:
        return self.text


class Take(Step):
    """Become the owner of a slot: the answer is its record, None where somebody was faster."""


@dataclass(frozen=True)
class Done:
    """Nothing is left to do."""

    name: str

    def __str__(self) -> str:
        return f"this machine is {self.name}, and has all that belongs to it"


NextStep = Union[Step, Wait, Done]  # noqa: UP007 - 3.9


def _take(slot: Slot, over: Record | None) -> Take:
    after = f", after {over.owner}, which is gone" if over else ""
    return Take(
        f"take slot {slot.name}{after}",
        lambda cloud, machine: cloud.take(slot.name, over, machine.instance()),
    )


def _write(record: Record, why: str) -> NextStep:
    """Write down what was found, or what is about to be done."""
    return Step(f"write down: {why}", lambda cloud, _: cloud.write(record))


# Decides the next step with volumes: find by tags, attach, examine, format only if blank, mount.

VOLUME_S = 300.0
DEVICE_S = 120.0
MGS_S = 900.0
"""The management server may be replaced at the same time."""
_ENDING = ("shutting-down", *GONE)
_AGAIN = "then start again: systemctl restart gridwright-claim"


def next_of_targets(
    configuration: Configuration,
    observation: Observation,
    slot: Slot,
    record: Record,
    before_mounts: Callable[[], NextStep | None],
) -> NextStep | None:
    """What is to be done next with the targets of a slot; None where all are mounted. Raises ClaimError."""
    require_tools(observation.missing(), "aws.images.storage")
    volumes = _volumes(observation, slot)
    step = _recorded(slot, record, volumes)
    if step is not None:
        return step
    for number, target in enumerate(slot.targets):
        step = _attached(observation, record, volumes[target.name], device_name(number))
        if step is not None:
            return step
    step = before_mounts()
    if step is not None:
        return step
    for number, target in enumerate(slot.targets):
        step = _started(configuration, observation, record, target, volumes[target.name], device_name(number))
        if step is not None:
            return step
    return None


def device_name(number: int) -> str:
    """Amazon EC2 User Guide, device names for volumes: /dev/sd[f-p], then /dev/xvd[b-c][a-z]."""
    letters = "fghijklmnop"
    if number < len(letters):
        return f"/dev/sd{letters[number]}"
    first, second = divmod(number - len(letters), 26)
    return f"/dev/xvd{'bc'[first]}{chr(ord('a') + second)}"


def _volumes(observation: Observation, slot: Slot) -> dict[str, Volume]:
    """The one volume of each target. Raises ClaimError with all that are missing, or there twice."""
    found = observation.volumes(slot.name)
    troubles = []
    for target in slot.targets:
        here = [each.id for each in found if each.target == target.name]
        tags = f"gridwright:slot={slot.name} and gridwright:target={target.name}"
        if not here:
            troubles.append(
                Trouble(
                    f"the volume of {target.name} is not there: none has the tags {tags}",
                    "if it was deleted, make one from its latest snapshot with these tags. "
                    "Nothing was formatted",
                )
            )
        elif len(here) > 1:
            troubles.append(
                Trouble(
                    f"more than one volume has the tags {tags}: {', '.join(sorted(here))}",
                    "take the tags from the one that is not in use any more",
                )
            )
    if troubles:
        raise ClaimError(*troubles)
    return {each.target: each for each in found if any(each.target == one.name for one in slot.targets)}


def _recorded(slot: Slot, record: Record, volumes: dict[str, Volume]) -> NextStep | None:
    """Volumes that the table does not know yet; refused where it knows another one with data."""
    desired = record
    for target in slot.targets:
        volume = volumes[target.name].id
        if volume in record.volumes and record.volumes[volume].target == target.name:
            continue
        other = [
            name
            for name, kept in record.volumes.items()
            if kept.target == target.name and kept.state == FORMATTED
        ]
        if other:
            raise ClaimError(
                Trouble(
                    f"{target.name} was on volume {other[0]}, and volume {volume} has its tags now",
                    f"give {other[0]} its tags back; or, if {volume} was made from its snapshot, take "
                    f"{other[0]} out of the item {slot.name} of the table of claims; {_AGAIN}",
                )
            )
        desired = desired.with_volume(volume, VolumeRecord(target.name, NEW))
    if desired is record:
        return None
    return _write(desired, f"{slot.name} has {', '.join(volumes[each.name].id for each in slot.targets)}")


def _attached(observation: Observation, record: Record, volume: Volume, device: str) -> NextStep | None:
    """The step towards a volume that is attached here; None where it is."""
    if volume.instance == observation.instance and volume.attachment == "attached":
        return None
    if volume.state == "error":
        what = f"volume {volume.id} of {volume.target} is in state error: its hardware is lost"
        raise ClaimError(Trouble(what, "make one from its latest snapshot, with the same tags"))
    if volume.state == "available":
        return Step(
            f"attach volume {volume.id} with {volume.target} as {device}",
            lambda cloud, machine: cloud.attach_volume(volume.id, machine.instance(), device),
            record,
        )
    held = f"volume {volume.id} of {volume.target} is {volume.attachment or volume.state}"
    if volume.instance and volume.instance != observation.instance:
        held = f"volume {volume.id} of {volume.target} is {volume.attachment} to {volume.instance}"
        state = observation.owners([volume.instance])[volume.instance]
        if state not in _ENDING and volume.attachment != "detaching":
            raise ClaimError(
                Trouble(
                    f"{held}, which is {state}; nothing is taken from it",
                    "terminate that instance if it is not needed; the claim then goes on by itself",
                )
            )
        held += f", which is {state}"
    remedy = f"look why EC2 does not finish: aws ec2 describe-volumes --volume-ids {volume.id}; {_AGAIN}"
    return Wait(f"volume {volume.id}", Trouble(held, remedy), VOLUME_S)


def _started(
    configuration: Configuration,
    observation: Observation,
    record: Record,
    target: DesiredTarget,
    volume: Volume,
    name: str,
) -> NextStep | None:
    """From an attached volume to a target that runs; None where it does."""
    path = observation.path(volume.id, volume.device or name)
    if path is None:
        what = f"volume {volume.id} of {target.name} is attached, and no device of this machine is it"
        return Wait(f"device {volume.id}", Trouble(what, f"look at dmesg; {_AGAIN}"), DEVICE_S)
    state = record.volumes[volume.id].state
    found = verdict(observation, target, path, state, configuration.mgs, _words(volume))
    return _step(found, configuration, record, target, volume, path)


def _words(volume: Volume) -> DiskWords:
    return DiskWords(
        volume=f"volume {volume.id}",
        meant="tagged",
        restore="if there is a snapshot of it, make a volume from that with the same tags",
        again=_AGAIN,
        silent="look at its own claim there: systemctl status gridwright-claim",
    )


def _step(
    found: DiskVerdict,
    configuration: Configuration,
    record: Record,
    target: DesiredTarget,
    volume: Volume,
    path: str,
) -> NextStep | None:
    """The step that a verdict asks for."""
    wait = Wait("management server", found.silence, MGS_S) if found.silence is not None else None
    if found.act is Act.NOTE_FORMATTED:
        made = record.with_volume(volume.id, VolumeRecord(target.name, FORMATTED))
        return _write(made, f"volume {volume.id} holds {target.name}")
    if found.act is Act.NOTE_FORMATTING:
        meant = record.with_volume(volume.id, VolumeRecord(target.name, FORMATTING))
        return _write(meant, f"volume {volume.id} is blank, and about to be formatted as {target.name}")
    device = found.device.path if found.device is not None else path
    if found.act is Act.FORMAT:
        mgs = None if target.has_mgs else _mgs(configuration, record)
        text = f"format {device} as {target.name}"
        return Step(text, lambda _, machine: machine.format(device, target, mgs), record)
    if found.act is Act.MOUNT:
        text = f"mount {device} with {target.name} on {target.mount}"
        return Step(text, lambda _, machine: machine.mount(device, target), record, wait)
    return wait if found.act is Act.AWAIT else None


def _mgs(configuration: Configuration, record: Record) -> str | None:
    """The NID that a target registers with; its own machine's where the MGS is on this one."""
    slot = configuration.slot(record.slot)
    return f"{slot.address}@tcp" if configuration.mgs is None and slot is not None else configuration.mgs


SLOT_S = 900.0
"""A successor may start before its predecessor's end is to be seen."""
SHUTTING_DOWN_S = 6 * 3600.0
"""An instance that is shutting down takes minutes to be terminated, hours where its host has failed. It may
write until then, and no other machine could take its place either."""
ATTACH_S = 300.0
LINK_S = 120.0
ENDING = ("shutting-down", *GONE)


def next_step(
    configuration: Configuration, observation: Observation, mine: str | None, *, name_only: bool
) -> NextStep:
    """What is to be done next. Raises ClaimError where nothing may be done.

    `mine` is the slot that was taken since the program started.
    """
    named = observation.identity()
    known = mine or (named.name if named else None)
    slot, record = (
        _own(configuration, observation, known) if known else _previous_claim(configuration, observation)
    )
    if slot is None:
        return _choice(configuration, observation)
    if record is None:
        # The table lost its item, as after a restore; nobody else has the slot.
        return _take(slot, None)
    link = _interface(observation, slot, record)
    if not isinstance(link, str):
        return link
    identity = Identity(slot.name, slot.address, record.token)
    if named != identity:
        text = f"this machine is {identity.name}, {identity.address} (token {identity.token})"
        return Step(text, lambda _, machine: machine.name(identity))
    if name_only or configuration.role in WITHOUT_TARGETS:
        return Done(slot.name)
    step = next_of_targets(
        configuration, observation, slot, record, before_mounts=lambda: _network(observation, slot, link)
    )
    return step or Done(slot.name)


def _own(configuration: Configuration, observation: Observation, name: str) -> tuple[Slot, Record | None]:
    """The slot that this machine is; a machine that has a name takes no other until it starts again."""
    slot = configuration.slot(name)
    if slot is None:
        raise ClaimError(
            Trouble(
                f"this machine is {name} since it started, and the claim file has no such slot",
                "terminate this instance; its successor gets the new file",
            )
        )
    record = observation.record(name)
    if record is not None and record.owner != observation.instance:
        raise LostError(name, observation.instance)
    return slot, record


def _previous_claim(
    configuration: Configuration, observation: Observation
) -> tuple[Slot | None, Record | None]:
    """The slot that was claimed before this start, or before a claim was cut off."""
    for slot in configuration.slots:
        record = observation.record(slot.name)
        if record is not None and record.owner == observation.instance:
            return slot, record
    return None, None


def _choice(configuration: Configuration, observation: Observation) -> NextStep:
    """A free slot, else one whose owner is gone. Each instance begins elsewhere, so that they seldom meet."""
    first = zlib.crc32(observation.instance.encode()) % len(configuration.slots)
    order = [
        slot
        for slot in (*configuration.slots[first:], *configuration.slots[:first])
        if not slot.powered or observation.is_desired(slot.name)
    ]
    records = {slot.name: observation.record(slot.name) for slot in order}
    for slot in order:
        if records[slot.name] is None:
            return _take(slot, None)
    states = observation.owners(record.owner for record in records.values() if record is not None)
    for slot in order:
        record = records[slot.name]
        if record is not None and states[record.owner] in GONE:
            return _take(slot, record)
    taken = ", ".join(
        f"{record.slot}: {record.owner} ({states[record.owner]})"
        for record in list(records.values())[:8]
        if record is not None
    )
    return Wait(
        "slot",
        Trouble(
            f"no slot of role {configuration.role} is free"
            + (" and wanted on" if len(order) < len(configuration.slots) else "")
            + f"; {taken or 'the others are off'}",
            "a machine that runs or is stopped keeps its name: terminate the one that is to be replaced, or "
            "this one if it is one too many",
        ),
        SHUTTING_DOWN_S if "shutting-down" in states.values() else SLOT_S,
    )


def _interface(observation: Observation, slot: Slot, record: Record) -> NextStep | str:
    """The name of the interface that has the slot's address, or the step towards it."""
    found = observation.interfaces(slot.name)
    if len(found) != 1 or found[0].address != slot.address:
        raise ClaimError(_wrong_interfaces(slot, found))
    (interface,) = found
    if record.interface != interface.id:
        record = replace(record, interface=interface.id)
        return _write(record, f"{slot.name} has network interface {interface.id}")
    if interface.instance != observation.instance:
        return _attachable(observation, slot, record, interface)
    link = observation.link(interface.mac) if interface.attachment == "attached" else None
    if link is None:
        what = f"network interface {interface.id} ({interface.mac}) has not come up on this machine"
        return Wait("link", Trouble(what, "look at the kernel's log: dmesg; then start again"), LINK_S)
    if not observation.is_configured(link, slot.address):
        return Step(
            f"give {link} the address {slot.address}, with routes of its own",
            lambda _, machine: machine.configure(link, interface.mac, slot.address),
        )
    return link


def _attachable(observation: Observation, slot: Slot, record: Record, interface: Interface) -> NextStep:
    if not interface.instance:
        return Step(
            f"attach network interface {interface.id}",
            lambda cloud, machine: cloud.attach_interface(interface.id, machine.instance()),
            record,
        )
    held = f"network interface {interface.id} of {slot.name} is attached to {interface.instance}"
    state = observation.owners([interface.instance])[interface.instance]
    if state not in ENDING and interface.attachment != "detaching":
        raise ClaimError(
            Trouble(
                f"{held}, which is {state}; nothing is taken from it",
                "terminate that instance if it is not needed; the claim then goes on by itself",
            )
        )
    return Wait("interface", Trouble(f"{held}, which is {state}", _LET_GO), ATTACH_S)


_LET_GO = (
    "EC2 lets go of what an instance had when it is terminated; if it does not, detach it by hand, then "
    "start again: systemctl restart gridwright-claim"
)


def _wrong_interfaces(slot: Slot, found: tuple[Interface, ...]) -> Trouble:
    remedy = "the grid's stacks make it: gridwright up"
    if not found:
        return Trouble(f"there is no network interface with the tag gridwright:slot={slot.name}", remedy)
    listed = ", ".join(f"{each.id} ({each.address})" for each in found)
    if len(found) > 1:
        what = f"more than one network interface has the tag gridwright:slot={slot.name}: {listed}"
        return Trouble(what, f"take the tag from those that are not {slot.address}")
    return Trouble(f"the network interface of {slot.name} is {listed}, not {slot.address}", remedy)


def _network(observation: Observation, slot: Slot, link: str) -> NextStep | None:
    """Lustre's network on the address that stays when instances are replaced."""
    nids = observation.nids()
    desired = f"{slot.address}@tcp"
    if desired in nids:
        return None
    if nids:
        raise ClaimError(
            Trouble(
                f"Lustre's network is up as {', '.join(nids)}, and {slot.name} is {desired}",
                "take it down (lustre_rmmod), or start the machine again; then start the claim again",
            )
        )
    text = f"bring Lustre's network up on {link}"
    return Step(text, lambda _, machine: machine.start_network(link))
