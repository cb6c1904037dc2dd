"""A claim that is cut off between any two steps is completed by the next start, whoever starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from gridwright.node_programs.lustre_targets import FORMATTED, TARGET, ClaimError
from gridwright.providers.aws.claim.deciding import Done
from tests.unit.providers.aws.claim.claim_world import Killed, Machine, World, configuration_of, slots

ME = "i-me"


@dataclass
class KillAt:
    """Ends everything at the n-th point; counts and names them."""

    number: int = -1
    seen: int = 0
    where: str = ""

    def point(self, _instance: str, what: str) -> None:
        self.seen += 1
        if self.seen == self.number:
            self.where = what
            raise Killed


def new_world(kill: KillAt) -> World:
    return World.new(configuration_of(slots(1)), point=kill.point)


def points() -> int:
    """How many there are in a claim that nobody cuts off."""
    count = KillAt()
    assert isinstance(new_world(count).claimant(ME).run(), Done)
    return count.seen


def the_program_again(world: World, machine: Machine) -> Machine:
    return machine


def the_machine_again(world: World, machine: Machine) -> Machine:
    machine.start_again()
    return machine


def another_machine(world: World, machine: Machine) -> Machine:
    world.end(machine.id)
    world.states["i-next"] = "running"
    return Machine(world, "i-next")


@pytest.mark.parametrize("after", [the_program_again, the_machine_again, another_machine])
def test_the_next_start_completes_what_was_cut_off(after: Callable[[World, Machine], Machine]) -> None:
    refused = []
    for number in range(1, points() + 1):
        kill = KillAt(number)
        world = new_world(kill)
        first = world.claimant(ME)
        assert isinstance(first.machine, Machine)
        with pytest.raises(Killed):
            first.run()
        world.held.clear()
        machine = after(world, first.machine)
        try:
            assert isinstance(world.again(machine).run(), Done), kill.where
        except ClaimError as error:
            # The label is there and the target is not whole: what has a label is never formatted.
            assert kill.where.startswith("labelled "), f"{kill.where}: {error}"
            assert "was cut off, and it has the label already" in str(error)
            refused.append(number)
            continue
        record = world.table["shared-oss1"]
        # What was cut off before it had taken the slot leaves nothing to take over.
        assert (record.owner, record.token in (1, 2)) == (machine.id, True), kill.where
        assert {kept.state for kept in record.volumes.values()} == {FORMATTED}, kill.where
        assert len(machine.mounts) == 2
        assert machine.network == ("10.20.64.11@tcp",)
        assert machine.named is not None
        assert machine.named.token == record.token
        for disk in world.disks.values():
            assert (disk.holds, disk.whole, disk.formats) == (TARGET, True, 1), kill.where
        assert world.interfaces["shared-oss1"].instance == machine.id
    assert len(refused) == 2, "one for each target"


def test_a_second_run_changes_nothing() -> None:
    world = World.new(configuration_of(slots(1)))
    first = world.claimant(ME)
    first.run()
    assert isinstance(first.machine, Machine)
    history, attached = list(world.history), list(world.attached)
    told: list[object] = []
    again = world.again(first.machine)
    again.tell = told.append
    assert again.run() == Done("shared-oss1")
    assert told == []
    assert (world.history, world.attached) == (history, attached)


def test_a_machine_that_takes_over_keeps_the_data_and_the_address() -> None:
    world = World.new(configuration_of(slots(2)))
    for name in ("i-a", "i-b"):
        world.claimant(name).run()
    (slot,) = (each for each in world.table.values() if each.owner == "i-a")
    world.end("i-a")
    successor = world.claimant("i-c")
    assert successor.run() == Done(slot.slot)
    record = world.table[slot.slot]
    assert (record.owner, record.token) == ("i-c", slot.token + 1)
    assert record.volumes == slot.volumes
    assert isinstance(successor.machine, Machine)
    assert successor.machine.named is not None
    assert successor.machine.named.address == world.interfaces[slot.slot].address
    assert [disk.formats for disk in world.disks.values()] == [1] * 4


def test_the_name_alone_is_claimed_where_volumes_have_to_wait() -> None:
    """At a first start the server's packages are not there yet, and the playbook wants the name."""
    world = World.new(configuration_of(slots(1)))
    first = world.claimant(ME, name_only=True)
    assert isinstance(first.machine, Machine)
    first.machine.lacks = ("mkfs.lustre",)
    assert isinstance(first.run(), Done)
    assert first.machine.named is not None
    assert [name for name, _ in world.attached] == [world.interfaces["shared-oss1"].id]
    with pytest.raises(ClaimError, match=r"mkfs\.lustre is not installed"):
        world.again(first.machine).run()
    first.machine.lacks = ()
    assert isinstance(world.again(first.machine).run(), Done)
    assert len(first.machine.mounts) == 2


def test_compute_nodes_claim_a_name_and_an_address() -> None:
    given = slots(3, targets=0)
    world = World.new(configuration_of(given, "compute"))
    for number in range(3):
        assert isinstance(world.claimant(f"i-{number}").run(), Done)
    assert {record.owner for record in world.table.values()} == {"i-0", "i-1", "i-2"}
    assert len(world.attached) == 3
