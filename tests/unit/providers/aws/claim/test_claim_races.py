"""Machines that claim at the same time: each slot has one owner, and no data are lost."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import event, given, settings
from hypothesis import strategies as st

from gridwright.node_programs.lustre_targets import FOREIGN, FORMATTED, FORMATTING, TARGET, ClaimError
from gridwright.providers.aws.claim.command import Claimant
from gridwright.providers.aws.claim.deciding import Done, LostError, Record, VolumeRecord
from tests.support.examples import examples
from tests.unit.providers.aws.claim.claim_world import Disk, Machine, World, configuration_of, slots

OLD = "i-old"


@dataclass
class Turns:
    """Runs each claimant in a thread of its own, one at a time, from one point to the next, as told."""

    order: Sequence[int]
    ends: dict[str, object] = field(default_factory=dict)
    _turn: dict[str, threading.Semaphore] = field(default_factory=dict)
    _paused: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def point(self, instance: str, _what: str) -> None:
        if instance in self._turn:
            self._paused.release()
            self._turn[instance].acquire()

    def run(self, claimants: dict[str, Claimant]) -> None:
        self._turn = {name: threading.Semaphore(0) for name in claimants}
        threads = [
            threading.Thread(target=self._body, args=(name, each), daemon=True)
            for name, each in claimants.items()
        ]
        for thread in threads:
            thread.start()
        turns = iter(self.order)
        number = 0
        while left := [name for name in claimants if name not in self.ends]:
            number = next(turns, number + 1)
            self._turn[left[number % len(left)]].release()
            assert self._paused.acquire(timeout=30), f"stuck; ended: {self.ends}"
        for thread in threads:
            thread.join(30)
        for end in self.ends.values():
            if isinstance(end, Exception) and not isinstance(end, ClaimError):
                raise end

    def _body(self, name: str, claimant: Claimant) -> None:
        self._turn[name].acquire()
        try:
            self.ends[name] = claimant.run()
        except Exception as error:
            self.ends[name] = error
        self._paused.release()


orders = st.lists(st.integers(0, 5), max_size=250)
BEFORE = ("nothing", "new", "formatted", "half", "shutting-down", "running", "stopped", "unknown")
"""What each slot was before: of an owner that is gone where nothing else is said."""


def world_of(before: Sequence[str], turns: Turns) -> World:
    world = World.new(configuration_of(slots(len(before))), point=turns.point)
    for slot, was in zip(world.configuration.slots, before, strict=True):
        if was == "nothing":
            continue
        owner = f"{OLD}-{slot.name}"
        states = {"shutting-down": was, "running": was, "stopped": was}
        if was != "unknown":
            world.states[owner] = states.get(was, "terminated")
        state = FORMATTING if was == "half" else "new" if was == "new" else FORMATTED
        kept = {f"vol-{each.name}": VolumeRecord(each.name, state) for each in slot.targets}
        world.table[slot.name] = Record(slot.name, owner, 3, kept, world.interfaces[slot.name].id)
        if state == FORMATTED:
            for each in slot.targets:
                world.disks[f"vol-{each.name}"] = Disk(TARGET, "", each.name, True, True, 1)
        if was in states:
            for each in slot.targets:
                world.volumes[each.name] = replace(
                    world.volumes[each.name], state="in-use", instance=owner, attachment="attached"
                )
    return world


def check_tokens(world: World) -> None:
    """A token rises by one with each change of owner, and changes with nothing else."""
    last = dict[str, Record]()
    for record in world.history:
        before = last.get(record.slot)
        if before is not None:
            changed = before.owner != record.owner
            assert record.token == before.token + (1 if changed else 0)
        last[record.slot] = record


def check_disks(world: World) -> None:
    for disk in world.disks.values():
        assert disk.formats <= 1
    for name in {name for name, _ in world.attached}:
        # Nothing is ever detached here, so that twice would be from somebody who has it.
        assert len([each for each in world.attached if each[0] == name]) == 1


@settings(max_examples=examples(250), deadline=None)
@given(st.lists(st.sampled_from(BEFORE), min_size=1, max_size=3), st.integers(2, 3), orders)
def test_however_steps_fall_each_slot_has_one_owner(before: list[str], count: int, order: list[int]) -> None:
    turns = Turns(order)
    world = world_of(before, turns)
    claimants = {f"i-{number}": world.claimant(f"i-{number}") for number in range(count)}
    turns.run(claimants)
    free = [
        slot for slot, was in zip(world.configuration.slots, before, strict=True) if was not in BEFORE[4:7]
    ]
    done = {name: end.name for name, end in turns.ends.items() if isinstance(end, Done)}
    event(f"{len(done)} of {count} have a slot")
    assert len(done) == min(count, len(free)), turns.ends
    assert len(set(done.values())) == len(done)
    for name, slot in done.items():
        record, machine = world.table[slot], claimants[name].machine
        assert isinstance(machine, Machine)
        assert record.owner == name
        assert machine.named is not None
        assert (machine.named.name, machine.named.token) == (slot, record.token)
        (own,) = (each for each in world.configuration.slots if each.name == slot)
        assert set(machine.mounts) == {each.name for each in own.targets}
        assert {kept.state for kept in record.volumes.values()} == {FORMATTED}
        assert world.interfaces[slot].instance == name
    for name, end in turns.ends.items():
        if name not in done:
            assert isinstance(end, ClaimError)
            assert "no slot of role oss is free" in str(end)
            machine = claimants[name].machine
            assert isinstance(machine, Machine)
            assert machine.named is None
            assert not machine.mounts
    check_tokens(world)
    check_disks(world)


@settings(max_examples=examples(250), deadline=None)
@given(orders, st.integers(0, 60))
def test_an_owner_that_is_given_up_while_it_works_stops(order: list[int], when: int) -> None:
    """EC2 says that it is gone, and it is not: the worst that a fence has to hold against."""
    turns = Turns(order)
    world = World.new(configuration_of(slots(1)), point=turns.point)
    claimants = {name: world.claimant(name) for name in ("i-a", "i-b")}
    count = [0]

    def point(instance: str, what: str) -> None:
        count[0] += 1
        if count[0] == when and world.table:
            world.states[next(iter(world.table.values())).owner] = "terminated"
        turns.point(instance, what)

    world.point = point
    turns.run(claimants)
    check_tokens(world)
    check_disks(world)
    record = next(iter(world.table.values()))
    lost = [name for name, end in turns.ends.items() if isinstance(end, LostError)]
    event(f"{len(lost)} lost it, token {record.token}")
    assert record.owner not in lost
    # Who lost it has mounted nothing since: every mount is of somebody to whom the volume is attached.
    for name, each in claimants.items():
        assert isinstance(each.machine, Machine)
        for mounted in each.machine.mounts:
            assert world.volumes[mounted].instance == name


def test_a_stranger_s_volume_is_left_alone_by_all() -> None:
    turns = Turns([0, 1] * 200)
    world = world_of(["new"], turns)
    world.disks["vol-shared-OST0000"] = Disk(FOREIGN, "ext4 labelled 'payroll'")
    turns.run({name: world.claimant(name) for name in ("i-a", "i-b")})
    assert world.disks["vol-shared-OST0000"] == Disk(FOREIGN, "ext4 labelled 'payroll'")
    assert sum("holds ext4 labelled 'payroll'" in str(end) for end in turns.ends.values()) == 1
