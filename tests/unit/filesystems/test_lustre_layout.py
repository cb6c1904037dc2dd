"""Layouts as Lustre 2.17.0 printed them, commands that set them, and large files that lie on one target."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.commands import CommandOutput
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems import kind_of
from gridwright.filesystems.capabilities import Layouts
from gridwright.filesystems.desired_layout import DesiredLayout
from gridwright.filesystems.layout import Component, FileLayout
from gridwright.filesystems.local.model import LocalFileSystem
from gridwright.filesystems.lustre.model import LustreFileSystem
from gridwright.filesystems.lustre_client.layout import parse_layout, read_layout
from gridwright.filesystems.lustre_client.layout_command import (
    apply_layout,
    plain,
    progressive,
    set_layout_command,
)
from gridwright.filesystems.lustre_client.single_target import single_target_files
from tests.fixtures.lustre_node import RECORDED, printed
from tests.support.lustre_files import Lfs

MIB, GIB = 2**20, 2**30


def layout(name: str) -> FileLayout:
    found = parse_layout(printed(name))
    assert found is not None
    return found


def shape(found: FileLayout) -> list[tuple[int, int | None, int, int | None]]:
    return [(each.start, each.end, each.stripe_count, each.stripe_bytes) for each in found.components]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("205-getstripe-default", [(0, None, 1, 4 * MIB)]),
        ("211-getstripe-yaml-c2", [(0, None, 2, 4 * MIB)]),
        ("208-getstripe-pfl", [(0, 64 * MIB, 1, 4 * MIB), (64 * MIB, None, 2, 4 * MIB)]),
        ("212-getstripe-yaml-pfl", [(0, 64 * MIB, 1, 4 * MIB), (64 * MIB, None, 2, 4 * MIB)]),
        ("219-getstripe-d-dir3", [(0, 64 * MIB, 1, 4 * MIB), (64 * MIB, None, -1, 4 * MIB)]),
        ("221-getstripe-d-yaml-dir3", [(0, 64 * MIB, 1, 4 * MIB), (64 * MIB, None, -1, 4 * MIB)]),
        ("220-getstripe-d-yaml-dir2", [(0, None, 2, MIB)]),
        (
            "213-getstripe-yaml-dom",
            [(0, MIB, 0, MIB), (MIB, 64 * MIB, 1, MIB), (64 * MIB, None, -1, 4 * MIB)],
        ),
    ],
)
def test_layouts_are_read_as_text_and_as_yaml(
    name: str, expected: list[tuple[int, int | None, int, int | None]]
) -> None:
    assert shape(layout(name)) == expected


def test_what_a_layout_says_of_its_targets() -> None:
    assert layout("211-getstripe-yaml-c2").components[0].osts == (0, 1)
    assert layout("205-getstripe-default").components[0].osts == (1,)
    assert layout("208-getstripe-pfl").components[1].osts == (1, 0)
    assert layout("236-getstripe-yaml-pool").components[0].pool == "fast"
    data_on_mdt = layout("213-getstripe-yaml-dom")
    assert [each.on_metadata_server for each in data_on_mdt.components] == [True, False, False]
    assert data_on_mdt.is_progressive
    over = layout("248-setstripe-overstripe").components[0]
    assert (over.overstriped, over.stripe_count, over.targets) == (True, 4, 2)
    assert layout("702-stripe-count-more-than-osts").components[0].stripe_count == 2, "8 were asked for"


def test_a_mirror_is_no_progressive_layout() -> None:
    found = layout("246-lfs-mirror-create")
    assert (found.mirrors, found.is_progressive) == (2, False)
    assert [each.flags for each in found.components] == [("init",), ("init", "stale")]


def test_a_directory_without_a_layout_of_its_own_is_told_apart() -> None:
    assert layout("extra-03-getstripe-yaml-dir-default").is_default
    assert layout("217-getstripe-d-dir1").is_default
    assert not layout("220-getstripe-d-yaml-dir2").is_default


def test_the_component_of_a_byte() -> None:
    found = layout("212-getstripe-yaml-pfl")
    assert found.component_at(0).targets == 1
    assert found.component_at(64 * MIB).targets == 2
    ended = FileLayout((Component(end=MIB, stripe_count=3),))
    assert ended.component_at(GIB).stripe_count == 3


def test_a_path_on_no_lustre_is_said_so() -> None:
    error = (RECORDED / "229-getstripe-on-nonlustre.err").read_bytes()
    with pytest.raises(GridwrightError, match="/etc/hostname is on no Lustre") as caught:
        read_layout(Lfs(refuses=CommandOutput(25, b"", error)), "/etc/hostname")
    assert caught.value.status is ExitStatus.ENVIRONMENT


@pytest.mark.parametrize(
    ("wanted", "arguments"),
    [
        (plain(), ["-c", "1"]),
        (plain(-1, 4 * MIB), ["-c", "-1", "-S", "4194304"]),
        (plain(2, pool="fast"), ["-c", "2", "-p", "fast"]),
        (progressive((64 * MIB, 1), (None, -1)), ["-E", "67108864", "-c", "1", "-E", "-1", "-c", "-1"]),
        (
            FileLayout((Component(end=MIB, on_metadata_server=True), Component(start=MIB, stripe_count=-1))),
            ["-E", "1048576", "-L", "mdt", "-E", "-1", "-c", "-1"],
        ),
        (FileLayout((Component(stripe_count=4, overstriped=True),)), ["-C", "4"]),
    ],
)
def test_commands_that_set_layouts(wanted: FileLayout, arguments: list[str]) -> None:
    assert set_layout_command(wanted, "/l/work") == ["lfs", "setstripe", *arguments, "/l/work"]


def test_everything_wrong_with_a_layout_is_said_at_once() -> None:
    wrong = FileLayout(
        (
            Component(end=64 * MIB, stripe_count=2001, stripe_bytes=5000),
            Component(end=32 * MIB, on_metadata_server=True),
            Component(stripe_count=0, pool="a name"),
            Component(end=None),
        )
    )
    with pytest.raises(GridwrightError) as caught:
        set_layout_command(wrong, "/l")
    assert caught.value.status is ExitStatus.INPUT
    assert [(each.where, each.what) for each in caught.value.problems] == [
        ("component 1", "a stripe count of 2001"),
        ("component 1", "a stripe size of 4.88 KiB"),
        ("component 2", "data on the metadata server have to begin a layout, and end by 1 GiB"),
        ("component 3", "a stripe count of 0"),
        ("component 3", "a pool's name has 1 to 15 letters, digits, - and _"),
        ("component 2", "it ends at 32 MiB"),
        ("component 3", "it has no end, and another one follows"),
    ]


def test_a_layout_that_ends_before_its_files_is_refused() -> None:
    with pytest.raises(GridwrightError, match="it ends at 64 MiB: longer files cannot be written"):
        set_layout_command(progressive((64 * MIB, 1)), "/l")


def test_a_layout_is_set_and_read_back() -> None:
    run = Lfs(layouts={"/l/dir3": printed("221-getstripe-d-yaml-dir3")})
    done = apply_layout(run, "/l/dir3", progressive((64 * MIB, 1), (None, -1)))
    assert shape(done) == [(0, 64 * MIB, 1, 4 * MIB), (64 * MIB, None, -1, 4 * MIB)]
    refused = Lfs(
        refuses=CommandOutput(22, b"", b"lfs setstripe: setstripe error for '/l/x': Invalid argument\n")
    )
    with pytest.raises(GridwrightError, match=r"was not set: .*Invalid argument"):
        apply_layout(refused, "/l/x", plain(1, pool="nopool"))


ONE, TWO = printed("205-getstripe-default"), printed("211-getstripe-yaml-c2")
PROGRESSIVE = printed("212-getstripe-yaml-pfl")


WISH = DesiredLayout(library="data")


def test_large_files_on_one_target_are_found() -> None:
    run = Lfs(
        layouts={"/l/a": ONE, "/l/b": TWO, "/l/c": PROGRESSIVE},
        files={
            "/l/b": 60 * GIB,
            "/l/a": 40 * GIB,
            "/l/c": 50 * GIB,
            "/l/gone": 70 * GIB,
            "/l/small": 15 * GIB,
        },
    )
    found = single_target_files(run, "/l", WISH)
    assert [each.name for each in found] == ["single-target-files"]
    assert "gridwright layout rebalance grid.yaml data" in found[0].remedy
    assert single_target_files(run, "/l", DesiredLayout(library="data", layout=plain(1))) == []
    assert (
        "1 of the 3 largest files from 16 GiB in /l lie on one target each, such as /l/a (40 GiB)"
        in found[0].text
    )


def test_a_sparse_and_a_released_file_are_not_large_without_gridwright_there_either() -> None:
    run = Lfs(
        layouts={"/l/sparse": ONE, "/l/released": ONE},
        files={"/l/sparse": 1024 * GIB, "/l/released": 40 * GIB},
        blocks={"/l/sparse": 8 * GIB // 512, "/l/released": 1},
    )
    assert single_target_files(run, "/l", WISH) == []


def test_a_search_that_ran_out_of_time_says_so() -> None:
    run = Lfs(layouts={"/l/a": ONE}, files={"/l/a": 40 * GIB}, search_status=124)
    assert "(of those found in time)" in single_target_files(run, "/l", WISH)[0].text


def test_a_file_system_of_one_target_cannot_spread_anything() -> None:
    run = Lfs(layouts={"/l/a": ONE}, files={"/l/a": 40 * GIB}, targets=1)
    assert single_target_files(run, "/l", WISH) == []
    assert len(run.asked) == 1, "nothing is searched for then"


def test_libraries_of_lustre_are_looked_through() -> None:
    lustre = LustreFileSystem.model_validate({"type": "lustre", "path": Path("/l"), "source": "h@tcp:/l"})
    run = Lfs(layouts={"/l/a": ONE}, files={"/l/a": 40 * GIB})
    kind = kind_of(lustre)
    assert isinstance(kind, Layouts)
    assert [each.name for each in kind.library_findings(lustre, run, "/l", WISH)] == ["single-target-files"]


def test_a_kind_of_lustre_tells_the_layout_of_a_path_and_others_have_none() -> None:
    lustre = LustreFileSystem.model_validate({"type": "lustre", "path": Path("/l"), "source": "h@tcp:/l"})
    run = Lfs(layouts={"/l/a": ONE})
    kind = kind_of(lustre)
    assert isinstance(kind, Layouts)
    assert kind.layout(lustre, run, "/l/a") == read_layout(run, "/l/a")
    local = LocalFileSystem.model_validate({"type": "local", "path": Path("/s")})
    assert not isinstance(kind_of(local), Layouts)


TEXTS = [printed(name) for name in ("208-getstripe-pfl", "212-getstripe-yaml-pfl", "246-lfs-mirror-create")]


@given(st.sampled_from(TEXTS), st.integers(0, 2000), st.integers(0, 2000), st.text(max_size=20))
def test_garbled_layouts_never_break_the_parser(text: str, start: int, end: int, put: str) -> None:
    found = parse_layout(text[:start] + put + text[end:])
    assert found is None or found.component_at(MIB) in found.components
