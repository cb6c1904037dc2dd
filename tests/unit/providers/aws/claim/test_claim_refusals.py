"""What is wrong is named, with a remedy, and nothing is attached, formatted or mounted that should not be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gridwright.node_programs.lustre_targets import (
    BLANK,
    FOREIGN,
    FORMATTED,
    NEW,
    TARGET,
    UNCLEAR,
    UNREADABLE,
    ClaimError,
)
from gridwright.providers.aws.claim.command import Claimant
from gridwright.providers.aws.claim.deciding import (
    Done,
    Identity,
    Interface,
    LostError,
    NextStep,
    Record,
    VolumeRecord,
)
from tests.unit.providers.aws.claim.claim_world import Disk, Machine, World, configuration_of, slots

ME = "i-me"
FIRST, SECOND = "shared-OST0000", "shared-OST0001"
VOLUME = f"vol-{FIRST}"


def refused(world: World, claimant: Claimant | None = None) -> str:
    """What is said, in one line; every trouble has a remedy."""
    with pytest.raises(ClaimError) as error:
        (claimant or world.claimant(ME)).run()
    assert error.value.status == 3
    assert all(trouble.remedy for trouble in error.value.troubles)
    return " ".join(str(error.value).split())


@pytest.fixture
def world() -> World:
    return World.new(configuration_of(slots(1)))


@pytest.mark.parametrize(
    ("disk", "said"),
    [
        (Disk(FOREIGN, "xfs labelled 'payroll'"), "holds xfs labelled 'payroll'; it is left alone"),
        (Disk(UNCLEAR, "data without a signature"), "holds data without a signature; it is left alone"),
        (Disk(UNREADABLE, "it cannot be read: Input/output error"), "Input/output error"),
        (Disk(TARGET, "target shared-OST0007 of Lustre", "shared-OST0007"), "holds target shared-OST0007"),
    ],
)
def test_what_a_new_volume_holds_is_never_overwritten(world: World, disk: Disk, said: str) -> None:
    world.disks[VOLUME] = disk
    text = refused(world)
    assert said in text
    assert VOLUME in text
    assert world.disks[VOLUME].formats == 0
    assert world.disks[VOLUME].holds == disk.holds


def test_a_volume_that_was_formatted_and_is_blank_now_is_not_formatted_again(world: World) -> None:
    world.claimant(ME).run()
    world.end(ME)
    world.disks[VOLUME] = Disk(BLANK)
    text = refused(world, world.claimant("i-next"))
    assert "is blank, and it was formatted before: its data are lost, or it was swapped" in text
    assert "snapshot" in text
    assert world.disks[VOLUME].holds == BLANK


def test_another_volume_with_the_same_tags_is_not_taken_for_the_one_with_data(world: World) -> None:
    world.claimant(ME).run()
    world.end(ME)
    world.volumes[FIRST] = replace(world.volumes[FIRST], id="vol-other")
    world.disks["vol-other"] = Disk(BLANK)
    text = refused(world, world.claimant("i-next"))
    assert f"{FIRST} was on volume {VOLUME}, and volume vol-other has its tags now" in text


def test_a_target_that_was_made_before_the_table_was_lost_is_mounted_as_it_is(world: World) -> None:
    world.claimant(ME).run()
    world.end(ME)
    world.table.clear()
    assert isinstance(world.claimant("i-next").run(), Done)
    assert [disk.formats for disk in world.disks.values()] == [1, 1]


def test_all_missing_volumes_are_named_at_once(world: World) -> None:
    world.volumes.clear()
    text = refused(world)
    for target in (FIRST, SECOND):
        assert f"the volume of {target} is not there" in text
    assert "gridwright:slot=shared-oss1" in text


def test_two_volumes_of_one_target_are_named(world: World) -> None:
    world.volumes["copy"] = replace(world.volumes[FIRST], id="vol-copy")
    assert f"vol-copy, {VOLUME}" in refused(world)


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_nothing_is_taken_from_an_instance_that_may_write(world: World, state: str) -> None:
    world.states["i-other"] = state
    world.volumes[FIRST] = replace(
        world.volumes[FIRST], state="in-use", instance="i-other", attachment="attached"
    )
    text = refused(world)
    assert f"attached to i-other, which is {state}; nothing is taken from it" in text
    assert world.volumes[FIRST].instance == "i-other"


def test_an_interface_of_a_running_instance_is_left_to_it(world: World) -> None:
    world.states["i-other"] = "running"
    world.interfaces["shared-oss1"] = replace(
        world.interfaces["shared-oss1"], instance="i-other", attachment="attached"
    )
    assert "is attached to i-other, which is running; nothing is taken from it" in refused(world)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "there is no network interface with the tag gridwright:slot=shared-oss1"),
        (Interface("eni-1", "02:00:00:00:00:01", "10.20.64.99"), "is eni-1 (10.20.64.99), not 10.20.64.11"),
    ],
)
def test_an_interface_that_is_not_the_one_is_named(world: World, found: Interface | None, said: str) -> None:
    world.interfaces.pop("shared-oss1")
    if found is not None:
        world.interfaces["shared-oss1"] = found
    assert said in refused(world)


def test_an_owner_that_shuts_down_is_waited_for_and_an_end_to_that_is_told(world: World) -> None:
    world.table["shared-oss1"] = Record("shared-oss1", "i-old", 4)
    world.states["i-old"] = "shutting-down"
    assert "no slot of role oss is free; shared-oss1: i-old (shutting-down); waited 21600 s" in refused(world)
    assert world.table["shared-oss1"].owner == "i-old"
    claimant = world.claimant("i-next")
    looks = []

    def point(_instance: str, what: str) -> None:
        looks.append(what)
        if what == "wait":
            world.states["i-old"] = "terminated"

    world.point = point
    assert isinstance(claimant.run(), Done)
    assert world.table["shared-oss1"].token == 5
    assert looks.count("wait") >= 1


def test_whoever_lost_its_slot_stops_and_takes_no_other(world: World) -> None:
    world = World.new(configuration_of(slots(2)))
    first = world.claimant(ME)
    first.run()
    assert isinstance(first.machine, Machine)
    assert first.machine.named is not None
    mine = first.machine.named.name
    world.table[mine] = replace(world.table[mine], owner="i-other", token=9)
    mounts = dict(first.machine.mounts)
    with pytest.raises(LostError, match="nothing further is done here, and nothing is unmounted"):
        world.again(first.machine).run()
    assert first.machine.mounts == mounts
    assert [record.owner for record in world.table.values()] == ["i-other"]


def test_a_machine_whose_item_the_table_lost_takes_its_own_slot_again() -> None:
    world = World.new(configuration_of(slots(2)))
    first = world.claimant(ME)
    first.run()
    assert isinstance(first.machine, Machine)
    assert first.machine.named is not None
    mine = first.machine.named.name
    world.table.clear()
    assert world.again(first.machine).run() == Done(mine)
    assert list(world.table) == [mine]
    assert {kept.state for kept in world.table[mine].volumes.values()} == {FORMATTED}
    assert sum(disk.formats for disk in world.disks.values()) == 2


def test_a_name_that_the_claim_file_does_not_know_is_refused(world: World) -> None:
    machine = Machine(world, ME)
    machine.named = Identity("shared-oss9", "10.20.64.99", 1)
    assert "is shared-oss9 since it started, and the claim file has no such slot" in refused(
        world, world.again(machine)
    )


def test_a_management_server_that_does_not_answer_is_named(world: World) -> None:
    world.mgs_answers = False
    text = refused(world)
    assert "the management server 10.20.64.10@tcp does not answer; waited 900 s" in text


def test_a_machine_that_answers_and_runs_no_management_server_is_waited_for(world: World) -> None:
    """lctl ping is true of it; each mount ends with 110 after a minute."""
    world.mgs_runs = False
    claimant = world.claimant(ME)
    steps: list[NextStep] = []
    claimant.tell = steps.append
    text = refused(world, claimant)
    assert "the management server 10.20.64.10@tcp does not answer; waited 900 s" in text
    assert sum(str(each).startswith("mount ") for each in steps) > 3
    world.mgs_runs = True
    assert isinstance(claimant.machine, Machine)
    assert isinstance(world.again(claimant.machine).run(), Done)


def test_stock_tools_are_named_before_anything_is_formatted(world: World) -> None:
    world.stock_tools = True
    text = refused(world)
    assert "as a trial in a file showed: mkfs.lustre FATAL: mkfs failed 256" in text
    assert "lustre_server_tools_repository" in text
    assert {each.holds for each in world.disks.values()} == {BLANK}
    assert {kept.state for each in world.table.values() for kept in each.volumes.values()} <= {NEW}


def test_a_registered_target_is_started_without_asking_the_management_server(world: World) -> None:
    world.claimant(ME).run()
    world.end(ME)
    world.mgs_answers = False
    assert isinstance(world.claimant("i-next").run(), Done)


def other_network(world: World, machine: Machine) -> None:
    machine.network = ("172.31.0.5@tcp",)


def other_mount(world: World, machine: Machine) -> None:
    machine.mounts[FIRST] = "/dev/sdz"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (other_network, "Lustre's network is up as 172.31.0.5@tcp, and shared-oss1 is 10.20.64.11@tcp"),
        (other_mount, f"/dev/sdz is mounted on /srv/gridwright/{FIRST}, where /dev/{VOLUME}"),
    ],
)
def test_what_is_in_the_way_on_the_machine_is_named(
    world: World, change: Callable[[World, Machine], None], said: str
) -> None:
    claimant = world.claimant(ME)
    assert isinstance(claimant.machine, Machine)
    change(world, claimant.machine)
    assert said in refused(world, claimant)


def test_a_record_forgets_other_volumes_of_a_target_and_keeps_the_rest() -> None:
    record = Record("a", "i", 1, {"vol-1": VolumeRecord("x"), "vol-2": VolumeRecord("y", FORMATTED)})
    assert record.with_volume("vol-3", VolumeRecord("x")).volumes == {
        "vol-2": VolumeRecord("y", FORMATTED),
        "vol-3": VolumeRecord("x"),
    }
