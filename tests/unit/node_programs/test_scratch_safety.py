"""Scratch storage never overwrites what it did not make, whatever is found, and whenever it is cut off."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from gridwright.node_programs.scratch.disks import Content, Disk, MdArray
from gridwright.node_programs.scratch.plans import MOUNTED
from gridwright.node_programs.scratch.state import BLANK as IS_BLANK
from gridwright.node_programs.scratch.state import OURS, Build, State, claim
from tests.support.examples import examples
from tests.support.scratch_world import BLANK, DESIRED, RAID, World, contents, disk, filesystem, member

NAMES = tuple(f"nvme{letter}" for letter in "abcdef")
MADE, MEANT, UNKNOWN = "made-uuid", "meant-uuid", "unknown-uuid"
MADE_FS, MEANT_FS = "made-fs", "meant-fs"

foreign = st.sampled_from(
    [
        Content(((0x438, "ext4"),), filesystem=filesystem("theirs", type="ext4")),
        Content(((0x0, "xfs"),), filesystem=filesystem("theirs")),
        Content(((0x200, "gpt"), (0x1FFFFE00, "gpt"))),
        Content(((0x218, "LVM2_member"),)),
        Content(((0x0, "crypto_LUKS"),)),
        Content(),
        member("theirs", 0, 2, "db:data"),
        member(UNKNOWN, 1, 3),
        replace(member(MADE, 0, 2), signatures=((0x200, "gpt"), *RAID)),
        Content(((0x0, "xfs"), (0x200, "dos")), filesystem=filesystem(MADE_FS)),
        Content(error="it cannot be read: Input/output error"),
        Content(busy=True, zero_ends=True),
    ]
)
IN_THE_WAY: list[dict[str, Any]] = [
    {"used": "mounted on /data"},
    {"used": "used as swap"},
    {"holders": ("dm-0",)},
    {"read_only": True},
]
sizes = st.integers(2, 4)


@st.composite
def own(draw: st.DrawFn) -> Content:
    """What an array of ours leaves on a disk, whole or torn."""
    uuid = draw(st.sampled_from([MADE, MEANT]))
    of = draw(sizes)
    role = draw(st.integers(0, of - 1))
    content = member(uuid, role, of, chunk=draw(st.sampled_from([1 << 19, 1 << 19, 1 << 16])))
    if draw(st.integers(0, 9)) == 0 and content.md is not None:
        return replace(content, md=replace(content.md, intact=False, role=None))
    if role == 0:
        found = draw(st.sampled_from([None, MADE_FS, MEANT_FS, "somebody"]))
        return replace(content, filesystem=filesystem(found, of) if found else None)
    return content


plain = st.builds(
    lambda uuid, finished: Content(((0, "xfs"),), filesystem=replace(filesystem(uuid), finished=finished)),
    st.sampled_from([MADE_FS, MEANT_FS]),
    st.booleans(),
)


@st.composite
def inventories(draw: st.DrawFn) -> World:
    """Disks of all kinds, a state that may or may not speak of them, and md devices that udev left."""
    disks: list[Disk] = []
    strange = foreign if draw(st.booleans()) else st.just(BLANK)
    for name in NAMES[: draw(st.integers(1, 6))]:
        content = draw(st.one_of(st.just(BLANK), st.just(BLANK), strange, own(), own(), plain))
        each = disk(name, content)
        odd = draw(st.sampled_from([{}] * 12 + [{"partitions": (f"{name}p1",)}, *IN_THE_WAY]))
        disks.append(replace(each, **odd))
    serials = [each.serial for each in disks] or ["gone"]
    builds = [
        Build("scratch", tuple(draw(st.lists(st.sampled_from(serials), unique=True))), md, fs, "xfs", 1 << 19)
        for md, fs in ((MADE, MADE_FS), (MEANT, MEANT_FS))
    ]
    builds = [replace(each, md_uuid=each.md_uuid if draw(st.booleans()) else None) for each in builds]
    made, meant = ({"scratch": each} if draw(st.booleans()) else {} for each in builds)
    desired = replace(
        DESIRED,
        members=draw(st.sampled_from([None, 1, 2, 3, 4])),
        format=draw(st.sampled_from(["xfs", "xfs", "ext4"])),
    )
    matched = frozenset(NAMES) - draw(
        st.sampled_from([frozenset(), frozenset({"nvmea"}), frozenset(NAMES[2:])])
    )
    world = World.of(
        disks, State(made, meant), desired_arrays=(desired,), matched=matched & {each.name for each in disks}
    )
    free = [each.name for each in disks if not each.used and not each.holders]
    if free and draw(st.integers(0, 3)) == 0:
        held: tuple[str, ...] = tuple(draw(st.lists(st.sampled_from(free), unique=True, min_size=1)))
        state = draw(st.sampled_from(["inactive", "clean", "read-auto", "broken"]))
        world.arrays["md127"] = MdArray("md127", "/dev/md127", state, "raid0", len(held), held, "9:127")
        if state != "inactive" and draw(st.booleans()):
            world.mounted["md127"] = draw(st.sampled_from(["/scratch", "/data"]))
    return world


named = st.lists(st.sampled_from([f"/dev/{name}" for name in NAMES[:4]]), unique=True, max_size=3).map(tuple)


@settings(max_examples=examples(400), deadline=None)
@given(inventories(), st.one_of(st.just(()), named))
def test_no_step_overwrites_a_disk_that_is_not_blank_ours_or_named(
    world: World, wipe: tuple[str, ...]
) -> None:
    planned = world.plan(wipe)
    machine = world.machine()
    event(planned.arrays[0].case if planned.arrays else "stopped")
    meant = {f"/dev/{name}" for name in machine.matches["scratch"]}
    for step in planned.steps():
        assert {word for word in step.argv if word.startswith("/dev/")} <= meant | {
            "/dev/md100",
            "/dev/md127",
        }
        if step.action == "stop":
            (held,) = [each for each in machine.arrays if each.path == step.device]
            assert held.used is None
            assert {f"/dev/{name}" for name in held.members} <= meant
        if step.action in ("create", "format", "wipe"):
            assert step.destroys, "a step that destroys says what"
        for each in step.destroys:
            standing = claim(each, world.state, machine.arrays)
            assert each.name in machine.matches["scratch"]
            assert not each.used
            assert not set(each.holders) - {"md127"}
            if each.path in wipe:
                continue
            assert step.action != "wipe"
            assert each.content.error is None
            if standing.standing == IS_BLANK:
                assert each.content == BLANK
                assert not each.partitions
                continue
            assert standing.standing == OURS
            md, found = each.content.md, each.content.filesystem
            own_md = md is not None and md.uuid in (MADE, MEANT)
            own_plain = found is not None and found.uuid in (MADE_FS, MEANT_FS)
            half = (
                each.serial in {serial for build in world.state.intents.values() for serial in build.serials}
                and not each.content.signatures
            )
            assert own_md or own_plain or half


@settings(max_examples=examples(400), deadline=None)
@given(
    members=st.sampled_from([1, 2, 3, 4]),
    extra=st.lists(st.one_of(foreign, st.just(BLANK)), max_size=2),
    before=st.sampled_from(["nothing", "made", "one replaced", "all replaced"]),
    cuts=st.lists(st.tuples(st.integers(0, 11), st.floats(0, 1), st.booleans()), max_size=6),
)
def test_cut_off_at_any_moment_it_ends_mounted_and_strangers_are_untouched(
    members: int, extra: list[Content], before: str, cuts: list[tuple[int, float, bool]]
) -> None:
    own_names = NAMES[:members]
    strangers = [disk(f"nvmex{number}", content) for number, content in enumerate(extra)]
    world = World.of(
        [*(disk(name) for name in own_names), *strangers], desired_arrays=(replace(DESIRED, members=members),)
    )
    world.matched = frozenset((*own_names, *(each.name for each in strangers if each.content != BLANK)))
    if before != "nothing":
        for step in world.plan().steps():
            world.carry_out(step)
        world.restart()
        for name in (
            own_names if before == "all replaced" else own_names[:1] if before == "one replaced" else ()
        ):
            world.disks[name] = disk(name, serial=f"new-{name}")
    untouched = {name: content for name, content in contents(world).items() if name.startswith("nvmex")}
    for at, part, reboot in cuts:
        steps = world.plan().steps()
        for step in steps[:at]:
            world.carry_out(step)
        if at < len(steps):
            world.cut_off(steps[at], part)
        if reboot:
            world.restart()
    for step in world.plan().steps():
        world.carry_out(step)
    (planned,) = world.plan().arrays
    assert not planned.troubles
    assert [step for step in planned.steps if step.action != "tune"] == []
    assert set(world.mounted.values()) == {"/scratch"}
    assert world.state.intents == {}
    assert {name: content for name, content in contents(world).items() if name in untouched} == untouched


PARTS = (0.0, 0.4, 0.6, 0.8)


@pytest.mark.parametrize("members", [1, 2, 3])
def test_cut_off_twice_at_any_two_moments_it_still_ends_mounted(members: int) -> None:
    fresh = World.of(
        [disk(name) for name in NAMES[:members]], desired_arrays=(replace(DESIRED, members=members),)
    )
    last = len(fresh.plan().steps())
    for first, second in product(product(range(last), PARTS), repeat=2):
        world = World.of([disk(name) for name in NAMES[:members]], desired_arrays=fresh.desired_arrays)
        for at, part in (first, second):
            steps = world.plan().steps()
            for step in steps[:at]:
                world.carry_out(step)
            if at < len(steps):
                world.cut_off(steps[at], part)
            world.restart()
        for step in world.plan().steps():
            world.carry_out(step)
        assert set(world.mounted.values()) == {"/scratch"}, (first, second)


@settings(max_examples=examples(100), deadline=None)
@given(cut=st.integers(0, 11), part=st.floats(0, 1), members=st.sampled_from([1, 2, 4]))
def test_what_is_whole_keeps_its_data_wherever_a_start_is_cut_off(
    cut: int, part: float, members: int
) -> None:
    world = World.of(
        [disk(name) for name in NAMES[:members]], desired_arrays=(replace(DESIRED, members=members),)
    )
    for step in world.plan().steps():
        world.carry_out(step)
    whole = contents(world)
    world.restart()
    steps = world.plan().steps()
    for step in steps[:cut]:
        world.carry_out(step)
    if cut < len(steps):
        world.cut_off(steps[cut], part)
    for step in world.plan().steps():
        world.carry_out(step)
    assert contents(world) == whole
    assert world.plan().arrays[0].case in (MOUNTED, "mount")
