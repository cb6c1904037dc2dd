"""Addresses of machines: each once, in its subnet, and where they are when the grid grows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gridwright.providers.aws.layout import first_offsets
from gridwright.providers.aws.up import moved_addresses
from gridwright.spec import parse_spec
from tests.support.aws_grid import FSX, LUSTRE
from tests.support.aws_updates import deployed

GROUPS = FSX.replace(
    "nodes: {compute: {instance: m6i.4xlarge, count: 2}}",
    "nodes: {small: {instance: m6i.large, count: 2}, wide: {instance: m6i.4xlarge, count: 16}}",
)
COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=6)


@given(counts=COUNTS, bits=st.integers(6, 15), least=st.sampled_from([8, 16]))
def test_each_address_is_had_once_and_in_the_subnet(counts: list[int], bits: int, least: int) -> None:
    first = 10
    size = max(2**bits, first + sum(counts) + 1)
    offsets = first_offsets(counts, first, size, least)
    used = [offset + number for offset, count in zip(offsets, counts, strict=True) for number in range(count)]
    assert len(used) == len(set(used))
    assert first <= min(used)
    assert max(used) < size - 1


@given(counts=COUNTS, which=st.integers(0, 5), more=st.integers(1, 40))
def test_a_group_that_grows_within_its_room_moves_no_other(counts: list[int], which: int, more: int) -> None:
    which %= len(counts)
    room = max(16, 1 << (counts[which] - 1).bit_length())
    grown = [*counts]
    grown[which] = counts[which] + more if which == len(counts) - 1 else min(counts[which] + more, room)
    assert list(first_offsets(grown, 16, 2**15, 16)) == list(first_offsets(counts, 16, 2**15, 16))


def refused(old: str, new: str, replace: frozenset[str] = frozenset()) -> list[str]:
    before, after = deployed(old), deployed(new)
    return [
        each.what
        for template in (before.storage, before.grid)
        for each in moved_addresses(parse_spec(new), after.layout, template, replace)
    ]


def test_a_group_grows_beside_another() -> None:
    assert refused(GROUPS, GROUPS.replace("count: 2", "count: 16")) == []
    assert refused(GROUPS, GROUPS.replace("count: 16", "count: 900")) == []


def test_a_group_that_needs_the_place_of_the_next_is_refused() -> None:
    (found,) = refused(GROUPS, GROUPS.replace("count: 2", "count: 17"))
    assert found == (
        "wide1 is at 10.20.128.32, and would be at 10.20.128.48 as the spec is now, and 15 more of wide "
        "would move, too: machines that are up keep their addresses"
    )


def test_groups_in_another_order_are_refused() -> None:
    small, wide = "small: {instance: m6i.large, count: 2}", "wide: {instance: m6i.4xlarge, count: 16}"
    found = refused(GROUPS, GROUPS.replace(f"{small}, {wide}", f"{wide}, {small}"))
    assert [each.partition(" ")[0] for each in found] == ["wide1", "small1"]


def test_a_lustre_server_keeps_its_address_unless_its_file_system_is_made_anew() -> None:
    mgs = "mgs: {instance: m6i.large, disks: {type: gp3, size: 10 GiB}}"
    another = LUSTRE.replace("    mds:", f"    {mgs}\n    mds:")
    (found,) = refused(LUSTRE, another)
    assert "keep their addresses" in found
    assert refused(LUSTRE, another, frozenset({"shared"})) == []
    assert refused(LUSTRE, LUSTRE.replace("count: 2, disks", "count: 9, disks")) == []
