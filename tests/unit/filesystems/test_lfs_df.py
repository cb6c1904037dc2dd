"""Free space of OSTs out of what `lfs df` printed on a real Lustre, and out of what it might print."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.commands import CommandOutput
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems.lustre_client.lfs_df import parse_lfs_df, parse_target_space, target_space
from tests.fixtures.lustre_node import printed

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
