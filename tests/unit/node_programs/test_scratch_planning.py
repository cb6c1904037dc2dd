"""What is planned for scratch storage in each state that a cloud, an accident or a person leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.node_programs.scratch.configuration import DesiredArray
from gridwright.node_programs.scratch.disks import Content, Disk, MdArray, Mount
from gridwright.node_programs.scratch.machine import Queue
from gridwright.node_programs.scratch.planning import plan_arrays, short_of_disks
from gridwright.node_programs.scratch.plans import ArrayPlan
from gridwright.node_programs.scratch.state import Build, State
from tests.support.scratch_world import DESIRED, RAID, World, array_of, built, disk, filesystem, member

FOUR = replace(DESIRED, members=4)
EXT4 = Content(((0x438, "ext4"),), filesystem=filesystem("theirs", type="ext4"))


def only(world: World, *wipe: str) -> ArrayPlan:
    """The plan of the only array."""
    (planned,) = world.plan(wipe).arrays
    return planned


def actions(planned: ArrayPlan) -> list[str]:
    return [step.action for step in planned.steps]


def words(planned: ArrayPlan) -> str:
    return " ".join(str(trouble) for trouble in planned.troubles)


def blank_disks(number: int) -> list[Disk]:
    return [disk(f"nvme{letter}") for letter in "abcdefgh"[:number]]


def carried_out(world: World, *wipe: str) -> World:
    for step in only(world, *wipe).steps:
        world.carry_out(step)
    return world


def test_blank_disks_become_a_striped_file_system_that_is_mounted() -> None:
    planned = only(World.of(blank_disks(4), desired_arrays=(FOUR,)))
    assert planned.case == "make"
    assert actions(planned)[:4] == ["intend", "create", "format", "record"]
    assert [each for each in actions(planned) if each != "tune"][4:] == [
        "mount-point",
        "mount",
        "directories",
    ]
    create, made = planned.steps[1], planned.steps[2]
    assert create.argv[:4] == ("mdadm", "--create", "/dev/md100", "--run")
    assert {"--level=0", "--raid-devices=4", "--chunk=512", "--homehost=gridwright", "--name=scratch"} <= set(
        create.argv
    )
    assert "su=524288,sw=4" in made.argv
    assert "-K" in made.argv, "blank disks come trimmed"
    mount = planned.steps[-2]
    assert "noatime" in mount.argv[4]
    assert all(step.limit_s > 0 for step in planned.steps)


def test_one_disk_needs_no_md_and_no_alignment() -> None:
    planned = only(World.of(blank_disks(1)))
    assert "create" not in actions(planned)
    assert planned.device == "/dev/nvmea"
    (made,) = [step for step in planned.steps if step.action == "format"]
    assert "-d" not in made.argv


def test_ext4_has_stride_and_stripe_width() -> None:
    desired = replace(FOUR, format="ext4", chunk_bytes=64 * 1024)
    (made,) = [
        step
        for step in only(World.of(blank_disks(4), desired_arrays=(desired,))).steps
        if step.action == "format"
    ]
    assert "nodiscard,stride=16,stripe_width=64" in made.argv


def test_what_was_made_and_is_mounted_needs_nothing() -> None:
    world = carried_out(World.of(blank_disks(4), desired_arrays=(FOUR,)))
    machine = world.machine()
    queue = Queue(8192, "[none] mq-deadline", False)
    tuned = replace(machine, queues=dict.fromkeys(["md100", *world.disks], queue))
    (planned,) = plan_arrays(world.configuration(), world.state, tuned, (), lambda: "new", "now").arrays
    assert (planned.case, planned.steps) == ("mounted", ())


def test_after_a_reboot_the_array_is_assembled_and_its_data_are_mounted() -> None:
    world = carried_out(World.of(blank_disks(4), desired_arrays=(FOUR,)))
    world.restart()
    planned = only(world)
    assert planned.case == "mount"
    assert [each for each in actions(planned) if each != "tune"] == [
        "assemble",
        "mount-point",
        "mount",
        "directories",
    ]
    assert all(step.destroys == () for step in planned.steps)


def test_an_array_that_udev_has_assembled_under_another_name_is_used_as_it_is() -> None:
    world = carried_out(World.of(blank_disks(4), desired_arrays=(FOUR,)))
    world.restart()
    world.arrays["md127"] = MdArray(
        "md127", "/dev/md127", "read-auto", "raid0", 4, tuple(world.disks), "9:127"
    )
    planned = only(world)
    assert "assemble" not in actions(planned)
    assert planned.device == "/dev/md127"


def test_a_half_assembled_array_is_stopped_and_assembled() -> None:
    world = carried_out(World.of(blank_disks(4), desired_arrays=(FOUR,)))
    world.restart()
    world.arrays["md127"] = MdArray("md127", "/dev/md127", "inactive", "", 0, ("nvmea", "nvmeb"), "9:127")
    assert actions(only(world))[:2] == ["stop", "assemble"]


def test_disks_that_came_back_blank_are_made_anew_and_it_is_said() -> None:
    world = carried_out(World.of(blank_disks(4), desired_arrays=(FOUR,)))
    world.restart()
    world.disks = {each.name: replace(each, serial=f"new-{each.name}") for each in blank_disks(4)}
    planned = only(world)
    assert planned.case == "rebuild"
    assert "blank" in planned.notes[0]
    assert "lost" in planned.notes[0]


def test_one_replaced_disk_loses_the_stripe_and_it_is_made_anew() -> None:
    world = carried_out(World.of(blank_disks(4), desired_arrays=(FOUR,)))
    world.restart()
    world.disks["nvmec"] = disk("nvmec", serial="replaced")
    planned = only(world)
    assert planned.case == "rebuild"
    assert "3 of its 4 disks" in planned.notes[0]
    (made,) = [step for step in planned.steps if step.action == "format"]
    assert "-K" not in made.argv, "disks that held something are discarded"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (EXT4, "ext4"),
        (Content(((0x200, "gpt"),)), "a partition table (GPT)"),
        (Content(((0x218, "LVM2_member"),)), "LVM2_member"),
        (Content(), "data without a signature"),
        (member("theirs", 0, 2, "db:data"), "array db:data"),
        (member("unknown", 0, 2), "disk 1 of 2 of array gridwright:scratch"),
        (Content(error="it cannot be read: Input/output error"), "Input/output error"),
        (Content(busy=True), "container"),
    ],
)
def test_a_disk_that_holds_anything_else_refuses_the_array(content: Content, said: str) -> None:
    world = World.of([*blank_disks(3), disk("nvmed", content)], desired_arrays=(FOUR,))
    planned = only(world)
    assert (planned.case, planned.steps) == ("refused", ())
    assert said in words(planned)
    assert "/dev/nvmed (serial S-nvmed)" in words(planned)


def test_a_superblock_of_ours_with_a_partition_table_in_front_is_somebody_s() -> None:
    disks = array_of("m", "f", 4)
    overwritten = replace(disks[1].content, signatures=((0x200, "gpt"), *RAID))
    disks[1] = replace(disks[1], content=overwritten)
    planned = only(World.of(disks, built(disks, "m", "f"), desired_arrays=(FOUR,)))
    assert planned.case == "refused"
    assert "GPT" in words(planned)


def test_a_wiped_disk_is_taken() -> None:
    world = World.of([*blank_disks(3), disk("nvmed", EXT4)], desired_arrays=(FOUR,))
    planned = only(world, "/dev/nvmed")
    assert actions(planned)[:3] == ["wipe", "intend", "create"]
    assert "ext4" in planned.steps[0].why
    assert [each.name for each in planned.steps[0].destroys] == ["nvmed"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"used": "mounted on /data"}, "mounted on /data"),
        ({"holders": ("dm-0",)}, "part of dm-0"),
        ({"content": replace(EXT4, busy=True)}, "held by something"),
    ],
)
def test_a_disk_in_use_is_not_wiped_whatever_is_said(changed: dict[str, object], said: str) -> None:
    disks = [*blank_disks(3), replace(disk("nvmed", EXT4), **changed)]  # type: ignore[arg-type]
    planned = World.of(disks, desired_arrays=(FOUR,)).plan(("/dev/nvmed",))
    assert planned.steps() == ()
    assert said in str(planned.troubles[0])


def test_only_disks_of_an_instance_store_can_be_wiped() -> None:
    world = World.of([*blank_disks(3), disk("nvmed", EXT4)], matched=frozenset({"nvmea"}))
    for path in ("/dev/nvmed", "/dev/nothing"):
        planned = world.plan((path,))
        assert planned.steps() == ()
        assert path in str(planned.troubles[0])


def test_one_disk_of_a_whole_array_is_not_wiped_without_the_rest() -> None:
    disks = array_of("m", "f", 4)
    world = World.of(disks, built(disks, "m", "f"), desired_arrays=(FOUR,))
    refused = world.plan(("/dev/nvmeb",))
    assert refused.steps() == ()
    assert "--wipe /dev/nvmea --wipe /dev/nvmec --wipe /dev/nvmed" in str(refused.troubles[0])
    assert only(world, *(each.path for each in disks)).case == "rebuild"


def test_too_few_disks_are_refused_with_a_list() -> None:
    planned = only(World.of(blank_disks(3), desired_arrays=(FOUR,)))
    assert "needs 4 disks, and of 3 found 3 are blank" in words(planned)


def test_with_all_disks_configured_a_missing_one_is_waited_for_and_never_replaced_by_fewer() -> None:
    disks = array_of("m", "f", 4)
    world = World.of(disks[:3], built(disks, "m", "f"))
    planned = only(world)
    assert planned.case == "refused"
    assert "missing: S-nvmed" in words(planned)
    assert "3 of 4" in short_of_disks(world.configuration(), world.state, world.machine())


def test_a_spare_blank_disk_does_not_replace_one_that_may_still_come() -> None:
    disks = array_of("m", "f", 4)
    world = World.of([*disks[:3], disk("nvmes")], built(disks, "m", "f"), desired_arrays=(FOUR,))
    assert "not here yet" in short_of_disks(world.configuration(), world.state, world.machine())


def test_disks_of_different_sizes_are_refused() -> None:
    planned = only(World.of([disk("nvmea"), disk("nvmeb", size=1 << 40)]))
    assert "not of one size" in words(planned)


@pytest.mark.parametrize(
    ("desired", "said"),
    [
        (replace(FOUR, chunk_bytes=64 * 1024), "its chunk is 524288 bytes, and chunk_bytes is 65536"),
        (replace(FOUR, format="ext4"), "it holds xfs, and format is ext4"),
        (replace(DESIRED, members=3), "it has 4 disks, and members is 3"),
    ],
)
def test_what_stands_otherwise_than_configured_is_never_rebuilt(desired: DesiredArray, said: str) -> None:
    disks = array_of("m", "f", 4)
    planned = only(World.of(disks, built(disks, "m", "f"), desired_arrays=(desired,)))
    assert (planned.case, planned.steps) == ("refused", ())
    assert said in words(planned)
    assert "--wipe /dev/nvmea --wipe /dev/nvmeb" in words(planned)


def test_an_array_without_its_file_system_is_not_formatted() -> None:
    disks = array_of("m", "f", 4)
    disks[0] = replace(disks[0], content=replace(disks[0].content, filesystem=None))
    planned = only(World.of(disks, built(disks, "m", "f"), desired_arrays=(FOUR,)))
    assert planned.case == "refused"
    assert "no file system" in words(planned)


def test_a_whole_array_with_our_name_is_mounted_when_the_state_is_lost() -> None:
    planned = only(World.of(array_of("m", "f", 4), desired_arrays=(FOUR,)))
    assert planned.case == "mount"
    assert actions(planned)[:2] == ["assemble", "record"]


def test_a_build_that_ended_before_mkfs_goes_on_there() -> None:
    disks = [disk(f"nvme{letter}", member("m", role, 4)) for role, letter in enumerate("abcd")]
    state = built(disks, "m", "f")
    meant = State({}, state.made)
    planned = only(World.of(disks, meant, desired_arrays=(FOUR,)))
    assert planned.case == "finish"
    assert actions(planned)[:3] == ["assemble", "format", "record"]


def test_an_unfinished_array_on_which_somebody_made_a_file_system_is_left_alone() -> None:
    disks = array_of("m", "somebody", 4)
    meant = State({}, {"scratch": Build("scratch", tuple(d.serial for d in disks), "m", "f", "xfs", 524288)})
    planned = only(World.of(disks, meant, desired_arrays=(FOUR,)))
    assert planned.case == "refused"
    assert "left unfinished" in words(planned)


def test_something_else_at_the_mount_point_is_not_covered() -> None:
    world = World.of(blank_disks(4), desired_arrays=(FOUR,))
    machine = replace(world.machine(), mounts=(Mount("8:1", "/scratch", "ext4", "/dev/sda1", "rw"),))
    (planned,) = plan_arrays(world.configuration(), world.state, machine, (), lambda: "new", "now").arrays
    assert "/dev/sda1 is mounted there" in words(planned)


def test_an_array_mounted_elsewhere_is_not_mounted_twice() -> None:
    world = carried_out(World.of(blank_disks(4), desired_arrays=(FOUR,)))
    world.mounted = {"md100": "/mnt"}
    assert "mounted on /mnt, not on /scratch" in words(only(world))


def test_an_array_that_is_mounted_but_lacks_a_disk_is_not_taken_apart() -> None:
    world = carried_out(World.of(blank_disks(4), desired_arrays=(FOUR,)))
    del world.disks["nvmed"]
    world.disks["nvmes"] = disk("nvmes")
    world.arrays["md100"] = replace(world.arrays["md100"], members=("nvmea", "nvmeb", "nvmec"))
    planned = only(world)
    assert (planned.case, planned.steps) == ("refused", ())
    assert "/dev/md100 holds disks of scratch and is mounted on /scratch" in words(planned)


def test_an_array_that_holds_disks_of_others_is_not_stopped() -> None:
    world = carried_out(World.of([*blank_disks(4), disk("nvmex", EXT4)], desired_arrays=(FOUR,)))
    world.restart()
    world.arrays["md127"] = MdArray("md127", "/dev/md127", "inactive", "", 0, ("nvmea", "nvmex"), "9:127")
    planned = only(world)
    assert planned.steps == ()
    assert "part of nvmex" in words(planned)


def test_a_mounted_copy_of_our_file_system_is_not_made_anew() -> None:
    copies = [disk(name, Content(((0, "xfs"),), filesystem=filesystem("f"))) for name in ("nvmea", "nvmeb")]
    copies[0] = replace(copies[0], used="mounted on /mnt")
    state = built([disk("gone")], None, "f")
    planned = only(World.of(copies, state, desired_arrays=(replace(DESIRED, members=2),)))
    assert planned.steps == ()


def test_a_file_system_that_was_never_finished_is_not_mounted() -> None:
    disks = array_of("m", "f", 4)
    half = replace(filesystem("f", 4), finished=False)
    disks[0] = replace(disks[0], content=replace(disks[0].content, filesystem=half))
    assert "never finished" in words(only(World.of(disks, built(disks, "m", "f"), desired_arrays=(FOUR,))))


def test_a_broken_array_is_told() -> None:
    world = carried_out(World.of(blank_disks(4), desired_arrays=(FOUR,)))
    world.arrays["md100"] = replace(world.arrays["md100"], state="broken")
    assert "a disk of it has failed" in words(only(world))


def test_missing_commands_are_told_before_anything_is_done() -> None:
    world = World.of(blank_disks(4), desired_arrays=(FOUR,))
    machine = replace(world.machine(), tools=frozenset({"mount"}))
    (planned,) = plan_arrays(world.configuration(), world.state, machine, (), lambda: "new", "now").arrays
    assert "mdadm is not installed" in words(planned)
    assert "install the package xfsprogs" in words(planned)


def test_two_arrays_share_the_disks_and_one_that_fails_does_not_stop_the_other() -> None:
    work = replace(DESIRED, name="work", mount_point=Path("/work"), members=2)
    util = replace(DESIRED, name="util", mount_point=Path("/util"))
    world = World.of(blank_disks(4), desired_arrays=(util, work))
    planned = {each.desired.name: each for each in world.plan().arrays}
    assert [each.name for each in planned["work"].disks] == ["nvmea", "nvmeb"]
    assert [each.name for each in planned["util"].disks] == ["nvmec", "nvmed"]
    assert planned["work"].device != planned["util"].device
    world.disks["nvmed"] = disk("nvmed", EXT4)
    planned = {each.desired.name: each for each in world.plan().arrays}
    assert (planned["work"].case, planned["util"].case) == ("make", "refused")


def test_a_foreign_disk_that_is_not_needed_is_left_alone() -> None:
    world = World.of([disk("nvmea", EXT4), *(disk(f"nvme{each}") for each in "bcde")], desired_arrays=(FOUR,))
    planned = only(world)
    assert planned.case == "make"
    assert "nvmea" not in [each.name for each in planned.disks]
    assert "left alone: /dev/nvmea" in planned.notes[0]


def test_a_foreign_array_that_udev_assembled_is_stopped_when_all_its_disks_are_named() -> None:
    disks = [disk(f"nvme{letter}", member("theirs", role, 2, "db:data")) for role, letter in enumerate("ab")]
    world = World.of(disks)
    world.arrays["md127"] = MdArray("md127", "/dev/md127", "clean", "raid0", 2, ("nvmea", "nvmeb"), "9:127")
    assert "part of md127" in words(only(world))
    assert world.plan(("/dev/nvmea",)).steps() == ()
    planned = only(world, "/dev/nvmea", "/dev/nvmeb")
    assert actions(planned)[:4] == ["stop", "wipe", "wipe", "intend"]


def test_files_below_the_mount_point_are_told() -> None:
    world = World.of(blank_disks(2))
    machine = replace(world.machine(), full_points=frozenset({Path("/scratch")}))
    (planned,) = plan_arrays(world.configuration(), world.state, machine, (), lambda: "new", "now").arrays
    assert "/scratch holds files on the disk below" in planned.notes[-1]


def test_unknown_owners_stop_everything_before_a_disk_is_touched() -> None:
    world = World.of(blank_disks(2))
    machine = replace(world.machine(), strangers=("user sas",))
    planned = plan_arrays(world.configuration(), world.state, machine, (), lambda: "new", "now")
    assert planned.steps() == ()
    assert "user sas" in str(planned.troubles[0])
