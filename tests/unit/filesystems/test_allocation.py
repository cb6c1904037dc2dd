"""Targets of new files by free space: the threshold, the draw against closed forms, and penalties."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.commands import CommandOutput
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems.allocation import (
    PLACEMENTS,
    SURE,
    TargetSpace,
    chance_of_at_most,
    drawn,
    is_weighted,
    made_in_a_row,
    met_in_half,
    simulated_fullest,
    spread,
    weighted_loads,
)
from gridwright.filesystems.lustre_client.targets import parse_lfs_df, parse_target_space, target_space
from tests.fixtures.lustre_node import printed

GB = 10**9
TB = 10**12


def osts(free_gb: Sequence[float], per_server: int = 2) -> tuple[TargetSpace, ...]:
    return tuple(
        TargetSpace(f"OST{place:04x}", int(each * GB), TB, f"oss{place // per_server}")
        for place, each in enumerate(free_gb)
    )


def chances(weights: Sequence[int], stripes: int) -> dict[frozenset[int], float]:
    """The chance of each set of targets where one after another is drawn by weight, by enumeration."""
    found: dict[frozenset[int], float] = defaultdict(float)
    for order in itertools.permutations(range(len(weights)), stripes):
        chance, left = 1.0, sum(weights)
        for each in order:
            chance *= weights[each] / left
            left -= weights[each]
        found[frozenset(order)] += chance
    return found


@pytest.mark.parametrize(("apart", "weighted"), [(0.0, False), (0.167, False), (0.169, True), (0.9, True)])
def test_targets_take_turns_until_the_least_is_43_of_256_parts_below_the_most(
    apart: float, weighted: bool
) -> None:
    free = [TB, int(TB * (1 - apart)), TB]
    assert is_weighted(free) is weighted
    space = tuple(TargetSpace(str(place), each, TB) for place, each in enumerate(free))
    assert (spread(40, 3, 1, space) == spread(40, 3, 1)) is not weighted


def test_a_full_target_is_none_at_all() -> None:
    assert not is_weighted([TB, 0, TB])
    assert not is_weighted([TB, 0])
    found = spread(60, 4, 1, osts([500, 0, 500, 500]))
    alike = spread(60, 3, 1)
    assert found.floor == pytest.approx(alike.floor * 3 / 4)
    assert spread(60, 4, -1, osts([500, 0, 500, 500])).floor == 0.75
    assert spread(60, 2, 1, osts([0, 0])).floor == 0
    degraded = (*osts([500, 500, 500]), TargetSpace("OST0003", 500 * GB, TB, takes_files=False))
    assert spread(60, 4, 1, degraded).floor == found.floor


@given(weights=st.lists(st.integers(1, 1000), min_size=2, max_size=5), data=st.data())
@settings(max_examples=25, deadline=None)
def test_the_draw_agrees_with_every_order_counted(weights: list[int], data: st.DataObject) -> None:
    stripes, files = data.draw(st.integers(1, len(weights) - 1)), 4000
    found = Counter(frozenset(np.flatnonzero(row).tolist()) for row in drawn(weights, stripes, files, seed=7))
    for targets, chance in chances(weights, stripes).items():
        assert len(targets) == stripes
        assert found[targets] / files == pytest.approx(chance, abs=6 * math.sqrt(0.25 / files))


@given(targets=st.integers(2, 40), stripes=st.integers(1, 39), files=st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_equal_weights_are_draws_without_replacement(targets: int, stripes: int, files: int) -> None:
    """A file has a target with the chance stripes / targets, and two as the hypergeometric has it."""
    stripes = min(stripes, targets - 1)
    lies = drawn([5] * targets, stripes, 4000, seed=3)
    assert (lies.sum(axis=1) == stripes).all()
    near = 6 * math.sqrt(0.25 / 4000)
    assert lies.mean(axis=0) == pytest.approx(stripes / targets, abs=near)
    both = stripes * (stripes - 1) / (targets * (targets - 1))
    assert (lies[:, 0] & lies[:, -1]).mean() == pytest.approx(both, abs=near)
    loads = weighted_loads(files, osts([5] * targets), stripes)
    assert (loads.sum(axis=1) == files * stripes).all()
    assert loads.max() <= files


@pytest.mark.parametrize(("free", "files"), [((300, 100), 3), ((500, 200, 100), 3), ((10, 1), 4)])
def test_the_fullest_of_few_files_is_that_of_all_placements_counted(
    free: tuple[int, ...], files: int
) -> None:
    whole, sums = sum(free), 0.0
    for placement in itertools.product(range(len(free)), repeat=files):
        chance = math.prod(free[each] / whole for each in placement)
        sums += chance * max(Counter(placement).values())
    found = weighted_loads(files, osts(free), 1).max(axis=1)
    assert found.mean() == pytest.approx(sums, abs=5 * files / 2 / math.sqrt(PLACEMENTS))


def test_wide_files_of_many_streams_lie_as_they_are_drawn() -> None:
    free = (400, 300, 200, 100)
    expected = np.zeros(4)
    for targets, chance in chances(free, 2).items():
        expected[list(targets)] += chance
    loads = weighted_loads(500, osts(free), 2)
    assert loads.mean(axis=0) / 500 == pytest.approx(expected, abs=0.01)


@given(
    free=st.lists(st.integers(1, 1000), min_size=2, max_size=30),
    files=st.integers(1, 200),
    stripes=st.integers(1, 31),
)
@settings(max_examples=40, deadline=None)
def test_no_placement_by_weight_delivers_more_than_all_targets(
    free: list[int], files: int, stripes: int
) -> None:
    found = spread(files, len(free), stripes, osts(free))
    assert 0 < found.floor <= found.median <= 1
    assert 0 < found.in_order <= 1
    width = min(stripes, len(free))
    assert found.floor >= width / len(free) - 1e-9, "one stream has the targets of its own file"


def test_penalties_keep_files_that_follow_each_other_apart() -> None:
    """Of two targets with as much space on two servers, the one that was chosen is the less likely next."""
    space = osts([500, 500], per_server=1)
    seen = made_in_a_row(space, 1, 2, 4000, seed=1)
    apart = (seen == 1).all(axis=1).mean()
    # 26/512 of it for each object of the target, and as much for its server: two of each, less one, are kept.
    again = 1 - 2 * 26 / 512
    assert apart == pytest.approx(1 / (1 + again), abs=6 * math.sqrt(0.25 / 4000))
    lone = made_in_a_row(osts([500, 500]), 1, 2, 4000, seed=1)
    assert (lone == 1).all(axis=1).mean() == pytest.approx(apart, abs=0.05), "a lone server's count twice"


def test_penalties_leave_targets_about_the_part_that_their_space_gives_them() -> None:
    free = [100, 200, 400, 800]
    seen = made_in_a_row(osts(free), 1, 300, 51, seed=1).mean(axis=0)
    assert seen / 300 == pytest.approx(np.asarray(free) / sum(free), rel=0.12)


def test_a_nearly_full_target_leaves_its_load_to_the_others() -> None:
    alike, apart = spread(64, 8, 1), spread(64, 8, 1, osts([80, *[600] * 7]))
    assert apart.floor < alike.floor
    assert met_in_half(8, osts([80, *[600] * 7]), 1) <= 7


# How files lie on targets: the simulation against the closed form, and what has to hold of any placement.

FILES, TARGETS = st.integers(1, 400), st.integers(1, 120)


@pytest.mark.parametrize(("files", "targets"), [(1, 1), (1, 5), (3, 2), (5, 3), (4, 6), (7, 4)])
def test_the_closed_form_counts_every_placement(files: int, targets: int) -> None:
    placements = list(itertools.product(range(targets), repeat=files))
    for most in range(files + 1):
        within = sum(max(map(placement.count, range(targets))) <= most for placement in placements)
        assert chance_of_at_most(most, files, targets) == pytest.approx(within / len(placements), abs=1e-9)


@given(files=FILES, targets=TARGETS)
@settings(max_examples=60, deadline=None)
def test_the_simulation_agrees_with_the_closed_form(files: int, targets: int) -> None:
    fullest = simulated_fullest(files, targets, 1)
    for most in range(math.ceil(files / targets), int(fullest.max()) + 1):
        chance = chance_of_at_most(most, files, targets)
        # Five standard deviations of a part of 1000 placements.
        assert np.mean(fullest <= most) == pytest.approx(chance, abs=5 * math.sqrt(0.25 / PLACEMENTS))


@given(files=FILES, targets=TARGETS, stripes=st.integers(1, 130))
@settings(max_examples=60, deadline=None)
def test_no_placement_delivers_more_than_all_targets(files: int, targets: int, stripes: int) -> None:
    found = spread(files, targets, stripes)
    assert 0 < found.floor <= found.median <= found.in_order <= 1
    if stripes >= targets:
        assert found.floor == 1
    if files == 1:
        assert found.floor == pytest.approx(min(stripes, targets) / targets), "one stream has its own targets"
        assert found.of_streams == 1


@given(files=FILES, targets=st.integers(2, 120), stripes=st.integers(1, 60))
@settings(max_examples=60, deadline=None)
def test_twice_as_many_stripes_make_no_placement_worse(files: int, targets: int, stripes: int) -> None:
    if 2 * stripes > targets:
        stripes = targets // 2
    narrow, wide = (simulated_fullest(files, targets, each) for each in (stripes, 2 * stripes))
    assert (wide <= 2 * narrow).all()


def test_every_stripe_lies_on_a_target_of_its_own() -> None:
    """A file over all but one of five targets leaves one of them free; three such files leave some at two."""
    assert set(simulated_fullest(1, 5, 4)) == {1}
    assert set(simulated_fullest(3, 5, 4)) == {3}


def test_one_file_for_each_of_many_targets_leaves_most_idle() -> None:
    """At n = m the fullest target is about ln m / ln ln m over the mean, as balls into bins are."""
    found = spread(86, 86, 1)
    assert round(1 / found.median) == 4
    assert found.in_order == 1
    assert found.floor < found.median
    assert (
        chance_of_at_most(round(1 / found.floor), 86, 86)
        >= SURE
        > chance_of_at_most(round(1 / found.floor) - 1, 86, 86)
    )


# Free space of OSTs out of what `lfs df` printed on a real Lustre, and out of what it might print.

KIB = 1024


def test_recorded_osts_have_their_space_and_no_mdt_is_among_them() -> None:
    (found,) = parse_lfs_df(printed("945-after-lfs-df")).values()
    assert [each.name for each in found] == ["scratch-OST0000", "scratch-OST0001"]
    assert all(0 < each.available_bytes < each.total_bytes == 3833116 * KIB for each in found)
    assert all(each.takes_files for each in found)


def test_an_ost_that_is_away_is_named_and_takes_no_files() -> None:
    (found,) = parse_lfs_df(printed("932-deactivated-lfs-df-v")).values()
    assert [(each.name, each.takes_files) for each in found] == [
        ("scratch-OST0000", True),
        ("OST0001", False),
    ]


def test_flags_of_a_target_count_and_other_units_do_not() -> None:
    head = "UUID                   1K-blocks        Used   Available Use%  Mounted on\n"
    row = "scratch-OST0000_UUID     3833116        1392     3605628   1%  /mnt/my scratch[OST:0]{}\n"
    for flags, takes in (("", True), (" D", False), (" N", False), (" f", True)):
        (found,) = parse_lfs_df(head + row.format(flags))["/mnt/my scratch"]
        assert found.takes_files is takes
    with pytest.raises(GridwrightError, match="no free space of OSTs") as error:
        parse_target_space(head.replace("1K-blocks", "bytes") + row.format(""), "df.txt")
    assert error.value.status is ExitStatus.INPUT
    assert "without -h and -i" in str(error.value)


@given(
    rows=st.lists(st.tuples(st.integers(1, 2**50), st.floats(0, 1)), min_size=1, max_size=20),
    mounts=st.lists(st.sampled_from(["/a", "/b b", "/lustre/[x]"]), min_size=1, max_size=3, unique=True),
)
def test_what_is_printed_is_read_again(rows: list[tuple[int, float]], mounts: list[str]) -> None:
    text = ""
    for mount in mounts:
        text += "UUID 1K-blocks Used Available Use% Mounted on\n"
        for place, (total, part) in enumerate(rows):
            free = int(total * part)
            text += f"fs-OST{place:04x}_UUID {total} {total - free} {free} 1% {mount}[OST:{place}]\n"
        text += f"\nfilesystem_summary: 1 1 1 1% {mount}\n\n"
    found = parse_lfs_df(text)
    assert list(found) == mounts
    for each in found.values():
        assert [(ost.total_bytes, ost.available_bytes) for ost in each] == [
            (total * KIB, int(total * part) * KIB) for total, part in rows
        ]


@given(st.text())
def test_any_text_is_read_or_told_to_be_none(text: str) -> None:
    assert all(parse_lfs_df("UUID 1K-blocks\n" + text).values())


def test_what_is_not_mounted_is_told_with_the_words_of_lfs() -> None:
    def run(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        assert list(command) == ["lfs", "df", "/x"]
        assert timeout_s <= 10
        return CommandOutput(22, b"", b"lfs df: '/x' is not a Lustre filesystem: Invalid argument\n")

    with pytest.raises(GridwrightError, match="is not a Lustre filesystem") as error:
        target_space(run, "/x")
    assert error.value.status is ExitStatus.ENVIRONMENT
