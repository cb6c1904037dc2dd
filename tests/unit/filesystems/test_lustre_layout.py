"""Layouts as Lustre 2.17.0 printed them, commands that set them, and large files that lie on one target."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.commands import CommandOutput
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems import all_kinds, kind_of
from gridwright.filesystems.kind import Layouts
from gridwright.filesystems.layout import (
    ALL,
    Component,
    DesiredLayout,
    FileLayout,
    layout_text,
    read_layout_text,
)
from gridwright.filesystems.library_directories import directory_findings, layout_in_spec
from gridwright.filesystems.local.kind import LocalFileSystem
from gridwright.filesystems.lustre.model import LustreFileSystem
from gridwright.filesystems.lustre_client.attribute import decode_attribute
from gridwright.filesystems.lustre_client.layout import (
    ADVISED,
    apply_layout,
    parse_layout,
    plain,
    progressive,
    read_layout,
    set_layout_command,
)
from gridwright.filesystems.lustre_client.library_findings import single_target_files
from gridwright.spec.library import Library
from tests.fixtures.lustre_node import RECORDED, printed
from tests.support.lov_attribute import foreign_attribute, lov_attribute
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


# Layouts on a command line: the options of `lfs setstripe`, read and written.


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("4", plain(4)),
        ("-1", plain(ALL)),
        ("-c 8 -S 4M -p flash", plain(8, 4 * MIB, "flash")),
        ("-E 64M -c 1 -E 4G -c 4 -E -1 -c -1", ADVISED),
        ("-E 64MiB -c 1 -E 4096M -c 4 -E eof -c -1", ADVISED),
        (
            "-E 1M -L mdt -E -1 -C 16",
            FileLayout(
                (
                    Component(end=MIB, stripe_count=0, on_metadata_server=True),
                    Component(start=MIB, stripe_count=16, overstriped=True),
                )
            ),
        ),
    ],
)
def test_what_a_user_of_lfs_writes_is_read(text: str, layout: FileLayout) -> None:
    assert read_layout_text(text) == layout


def test_what_is_written_is_what_lfs_is_given() -> None:
    written = layout_text(ADVISED).split()
    given_to_lfs = set_layout_command(ADVISED, "/lake")[2:-1]
    sizes = {"64M": str(64 * MIB), "4G": str(4 * GIB)}
    assert [sizes.get(word, word) for word in written] == given_to_lfs


STRIPING = st.fixed_dictionaries(
    {
        "stripe_count": st.integers(1, 2000) | st.just(ALL),
        "stripe_bytes": st.none() | st.integers(1, 65_000).map(lambda steps: steps * 65_536),
        "pool": st.none() | st.from_regex(r"[a-z][a-z0-9_-]{0,14}", fullmatch=True),
        "overstriped": st.booleans(),
    }
)


@given(st.lists(STRIPING, min_size=1, max_size=5), st.data())
def test_a_layout_that_is_written_is_read_as_it_was(
    parts: list[dict[str, object]], data: st.DataObject
) -> None:
    steps = data.draw(st.lists(st.integers(1, 1 << 20), min_size=len(parts), max_size=len(parts)))
    components, start = [], 0
    for number, (part, step) in enumerate(zip(parts, steps, strict=True)):
        end = None if number == len(parts) - 1 else start + step * 65_536
        components.append(Component(start=start, end=end, **part))  # type: ignore[arg-type]
        start = end or start
    layout = FileLayout(tuple(components))
    assert read_layout_text(layout_text(layout)) == layout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it says nothing"),
        ("wide", "wide is none of -E, -c, -C, -S, -p, -L"),
        ("-c", "-c has no value"),
        ("-c four", "-c four is no stripe count"),
        ("-S 4Q -c 1", "-S 4Q is no size"),
        ("-E 1G -E -1 -c 4", "each part needs -c, -C or -L mdt"),
        ("-c 1 -E 1G -c 4", "what comes before the first -E belongs to no part"),
        ("-L ost", "-L ost is not mdt"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, says: str) -> None:
    with pytest.raises(GridwrightError) as refused:
        read_layout_text(text, "--layout")
    assert refused.value.status == ExitStatus.INPUT
    assert any(says in problem.what for problem in refused.value.problems)


def test_kinds_with_layouts_answer_for_them_and_others_do_not() -> None:
    with_layouts = {name for name, kind in all_kinds() if isinstance(kind, Layouts)}
    assert with_layouts == {name for name, kind in all_kinds() if kind.spec_model.takes_layouts}
    assert len(with_layouts) > 1


# The layout of a library's directory, as recorded, against what the spec states.

PROGRESSIVE_FIELDS = [{"until": "64 MiB", "stripes": 1}, {"stripes": -1}]
RUN = Lfs(layouts={"/l/data": printed("221-getstripe-d-yaml-dir3")})


def found(layout: Any) -> list[str]:
    lustre = LustreFileSystem.model_validate({"type": "lustre", "path": "/l", "source": "h@tcp:/l"})
    library = Library.model_validate({"filesystem": "shared", **({"layout": layout} if layout else {})})
    return [
        f"{each.name}: {each.text} {each.remedy}"
        for each in directory_findings(lustre, RUN, "/l/data", layout_in_spec(lustre, "data", library))
    ]


@pytest.mark.parametrize("layout", [PROGRESSIVE_FIELDS, None], ids=["as stated", "none stated"])
def test_a_directory_that_is_as_the_spec_has_it_is_no_finding(layout: Any) -> None:
    assert found(layout) == []


def test_a_directory_that_gives_another_layout_is_told_with_the_command_that_sets_it() -> None:
    (told,) = found([{"until": "64 MiB", "stripes": 1}, {"stripes": 4}])
    assert told.startswith(
        "directory-layout-differs: new files in /l/data get 1 OST (stripes of 4 MiB) until 64 MiB, "
    )
    assert "the spec states 1 OST until 64 MiB, then 4" in told
    assert "gridwright layout set grid.yaml data" in told


def test_what_somebody_has_set_where_the_model_chooses_is_information() -> None:
    lustre = LustreFileSystem.model_validate({"type": "lustre", "path": "/l", "source": "h@tcp:/l"})
    wish = DesiredLayout(library="data", layout=plain(4), stated=False)
    (told,) = directory_findings(lustre, dataclasses.replace(RUN, targets=8), "/l/data", wish)
    assert told.level == "info"
    assert "the model chooses 4 OSTs" in told.text


def test_a_layout_of_the_model_is_no_wider_than_the_targets_that_are_there() -> None:
    lustre = LustreFileSystem.model_validate({"type": "lustre", "path": "/l", "source": "h@tcp:/l"})
    parts = (
        Component(end=2**26, stripe_count=1), Component(start=2**26, end=2**32, stripe_count=4),
        Component(start=2**32, stripe_count=-1),
    )  # fmt: skip
    run = Lfs(layouts={"/l/data": printed("205-getstripe-default")}, targets=2)
    wish = DesiredLayout(library="data", layout=FileLayout(parts), stated=False)
    (told,) = directory_findings(lustre, run, "/l/data", wish)
    assert told.text.endswith("the model chooses 1 OST until 64 MiB, then all")
    as_wanted = Lfs(layouts={"/l/data": printed("221-getstripe-d-yaml-dir3")}, targets=2)
    assert directory_findings(lustre, as_wanted, "/l/data", wish) == []


def test_a_kind_without_layouts_has_nothing_to_differ() -> None:
    local = LocalFileSystem.model_validate({"type": "local", "path": "/s"})
    wish = DesiredLayout(library="data", layout=plain(4))
    assert directory_findings(local, RUN, "/s", wish) == []


# The attribute lustre.lov: a real one, those of recorded layouts, and directories that are scanned.

PAIRS = [
    (RECORDED / "244-getfattr-lustre-lov.out", RECORDED / "211-getstripe-yaml-c2.out"),
    *((path, path.with_suffix(".yaml")) for path in sorted(RECORDED.glob("lov-*.xattr"))),
]
"""Attributes with what `lfs getstripe --yaml` said of the same file; more that are put there are read."""


def recorded(name: str) -> FileLayout:
    found = parse_layout(printed(name))
    assert found is not None
    return found


def real_attribute(text: str) -> bytes:
    found = re.search(r"lustre\.lov=0x([0-9a-f]+)", text)
    assert found is not None
    return bytes.fromhex(found[1])


def test_the_attribute_of_a_real_file_says_what_lfs_said_of_it() -> None:
    stored = decode_attribute(real_attribute(printed("244-getfattr-lustre-lov")))
    assert stored.layout == recorded("211-getstripe-yaml-c2") == recorded("207-getstripe-c2")
    told = re.findall(r"l_fid:\s+(0x[0-9a-f]+):(0x[0-9a-f]+):", printed("211-getstripe-yaml-c2"))
    objects = stored.components[0].objects
    assert [(each.sequence, each.id) for each in objects] == [(int(a, 16), int(b, 16)) for a, b in told]


@pytest.mark.parametrize(("attribute", "yaml"), PAIRS, ids=lambda path: path.stem)
def test_every_recorded_attribute_says_what_lfs_said(attribute: Path, yaml: Path) -> None:
    stored = decode_attribute(real_attribute(attribute.read_text()))
    assert stored.layout == parse_layout(yaml.read_text())


@pytest.mark.parametrize(
    "name",
    [
        "205-getstripe-default",
        "207-getstripe-c2",
        "212-getstripe-yaml-pfl",
        "213-getstripe-yaml-dom",
        "217-getstripe-d-dir1",
        "220-getstripe-d-yaml-dir2",
        "221-getstripe-d-yaml-dir3",
        "236-getstripe-yaml-pool",
        "246-lfs-mirror-create",
        "248-setstripe-overstripe",
        "extra-04-getstripe-pfl-uninit",
    ],
)
def test_attributes_of_recorded_layouts_are_read_as_lfs_printed_them(name: str) -> None:
    assert decode_attribute(lov_attribute(recorded(name))).layout == recorded(name)


def test_a_released_file_has_no_objects_and_says_so() -> None:
    stored = decode_attribute(lov_attribute(recorded("609-hsm_state-released-yaml"), released=True))
    assert stored.components[0].released
    assert stored.layout == recorded("609-hsm_state-released-yaml")


def test_a_foreign_layout_has_a_type_and_no_components() -> None:
    stored = decode_attribute(foreign_attribute(0xDA05, b"uuid@place"))
    assert (stored.foreign, stored.layout) == (0xDA05, None)
    with pytest.raises(ValueError, match="ends before what it announces"):
        decode_attribute(foreign_attribute(0xDA05, b"uuid@place")[:-1])


def test_a_component_that_extends_itself_tells_by_how_much() -> None:
    first = Component(end=64 * MIB, stripe_bytes=MIB, flags=("init",), osts=(1,))
    rest = Component(start=64 * MIB, end=256 * MIB, flags=("extension",))
    stored = decode_attribute(lov_attribute(FileLayout((first, rest)), extension_bytes=128 * MIB))
    assert stored.layout == FileLayout((first, rest))
    assert stored.components[1].extension_bytes == 128 * MIB


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        (b"", "ends before"),
        (b"\x0b\xd1\x0b\xd0" + bytes(60), "other byte order"),
        (bytes(64), "no layout of a release that is known"),
    ],
)
def test_what_is_no_layout_is_refused_with_the_reason(attribute: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_attribute(attribute)
