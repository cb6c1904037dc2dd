"""Decides the next step of a claim from an observation. Nothing here changes anything."""

from __future__ import annotations

import zlib
from dataclasses import replace

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.scratch.problems import Trouble
from gridwright.providers.aws.claim.cloud import GONE, Interface
from gridwright.providers.aws.claim.configuration import WITHOUT_TARGETS, Configuration, Slot
from gridwright.providers.aws.claim.machine import Identity
from gridwright.providers.aws.claim.observation import Observation
from gridwright.providers.aws.claim.problems import LostError
from gridwright.providers.aws.claim.records import Record
from gridwright.providers.aws.claim.steps import (
    AttachInterface,
    Configure,
    Done,
    Name,
    StartNetwork,
    Step,
    Take,
    Wait,
    Write,
)
from gridwright.providers.aws.claim.targets import next_of_targets

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
) -> Step:
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
        return Take(slot, None)
    link = _interface(observation, slot, record)
    if not isinstance(link, str):
        return link
    identity = Identity(slot.name, slot.address, record.token)
    if named != identity:
        return Name(identity)
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


def _choice(configuration: Configuration, observation: Observation) -> Step:
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
            return Take(slot, None)
    states = observation.owners(record.owner for record in records.values() if record is not None)
    for slot in order:
        record = records[slot.name]
        if record is not None and states[record.owner] in GONE:
            return Take(slot, record)
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


def _interface(observation: Observation, slot: Slot, record: Record) -> Step | str:
    """The name of the interface that has the slot's address, or the step towards it."""
    found = observation.interfaces(slot.name)
    if len(found) != 1 or found[0].address != slot.address:
        raise ClaimError(_wrong_interfaces(slot, found))
    (interface,) = found
    if record.interface != interface.id:
        record = replace(record, interface=interface.id)
        return Write(record, f"{slot.name} has network interface {interface.id}")
    if interface.instance != observation.instance:
        return _attachable(observation, slot, record, interface)
    link = observation.link(interface.mac) if interface.attachment == "attached" else None
    if link is None:
        what = f"network interface {interface.id} ({interface.mac}) has not come up on this machine"
        return Wait("link", Trouble(what, "look at the kernel's log: dmesg; then start again"), LINK_S)
    if not observation.is_configured(link, slot.address):
        return Configure(link, interface.mac, slot.address)
    return link


def _attachable(observation: Observation, slot: Slot, record: Record, interface: Interface) -> Step:
    if not interface.instance:
        return AttachInterface(record, interface.id)
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


def _network(observation: Observation, slot: Slot, link: str) -> Step | None:
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
    return StartNetwork(link)
