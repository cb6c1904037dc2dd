"""A tree of files with the attributes of a Lustre, scanned, and what the doctor says of it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gridwright.commands import CommandOutput, run_here
from gridwright.errors import Finding
from gridwright.filesystems.layout import Component, DesiredLayout, FileLayout
from gridwright.filesystems.lustre_client import search_program
from gridwright.filesystems.lustre_client.attribute import (
    Scanned,
    SeenFile,
    Unread,
    decode_attribute,
    list_files,
    scan,
    was_appended,
)
from gridwright.filesystems.lustre_client.layout import parse_layout, plain, progressive
from gridwright.filesystems.lustre_client.library_findings import (
    LARGE,
    LayoutFindings,
    scan_library,
    short_in_words,
)
from gridwright.filesystems.lustre_client.scan_program import LibraryScan, look
from gridwright.filesystems.lustre_client.search_program import SearchAnswer, SearchOrder, search
from gridwright.messages import decode, encode
from tests.fixtures.lustre_node import printed
from tests.support.lov_attribute import foreign_attribute, lov_attribute
from tests.support.skips import no_such_kernel

NAME = "user.lustre.lov"
MIB = 2**20
BIG = 4 * MIB
"""What counts as large here: the files are real."""
TARGETS = 4


def in_mib(found: Scanned) -> dict[str, int]:
    """Bytes by target in whole MiB: a file system may keep an attribute in a block of the file."""
    return {target: size // MIB for target, size in found.targets.items()}


def striped(*osts: int, count: int | None = None, overstriped: bool = False) -> FileLayout:
    part = Component(stripe_count=count or len(osts), stripe_bytes=MIB, osts=osts, overstriped=overstriped)
    return FileLayout((part,))


ONE, ALL_FOUR = striped(2), striped(0, 1, 2, 3)


@dataclass
class Tree:
    """A directory whose files have the attribute that a Lustre would show."""

    path: Path

    def add(
        self, name: str, attribute: bytes, size: int = BIG, *, allocated: int | None = None, age_s: int = 600
    ) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            if allocated is None and size:
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
                if allocated:
                    os.posix_fallocate(file.fileno(), 0, allocated)
        os.setxattr(path, NAME, attribute)
        os.utime(path, (time.time() - age_s,) * 2)
        return path

    def look(self) -> LibraryScan:
        return look(str(self.path), 30, [NAME])

    def judged(
        self, layout: FileLayout | None = None, targets: int = TARGETS, rate: float | None = None
    ) -> LayoutFindings:
        wish = DesiredLayout(library="data", layout=layout, target_bytes_per_s=rate)
        return LayoutFindings(
            self.look(), str(self.path), targets, wish, large_bytes=BIG, least_bytes=MIB // 2
        )

    def found(self, layout: FileLayout | None = None, rate: float | None = None) -> dict[str, Finding]:
        return {each.name: each for each in self.judged(layout, rate=rate).all()}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    try:
        os.setxattr(tmp_path, NAME, b"x")
        os.removexattr(tmp_path, NAME)
    except OSError as error:
        no_such_kernel(f"no user attributes in {tmp_path}: {error}")
    return Tree(tmp_path / "library")


def test_a_scan_adds_up_files_by_layout_and_bytes_by_target(tree: Tree) -> None:
    tree.add("a/one", lov_attribute(ONE), MIB)
    tree.add("a/b/four", lov_attribute(ALL_FOUR), 8 * MIB, age_s=10 * 86400)
    tree.add("a/released", lov_attribute(ONE, released=True), 0)
    tree.add("foreign", foreign_attribute(0xDA05, b"elsewhere"), MIB)
    tree.add("broken", b"\xd0\x0b\xd1\x0b")
    (tree.path / "plain").write_bytes(b"x")
    (tree.path / "link").symlink_to(tree.path / "a/one")
    found = scan([tree.path], seconds=30, attributes=[NAME], keep=1)
    assert (found.files.files, found.directories, found.complete) == (5, 3, True)
    assert {(each.layout, each.size_class, each.age_days, each.files) for each in found.classes} == {
        ("1", 21, 1, 1),
        ("4", 24, 30, 1),
    }
    assert in_mib(found) == {"0": 2, "1": 2, "2": 3, "3": 2}
    assert (found.released.files, found.foreign.files, found.without_layout.files) == (1, 1, 1)
    assert [(each.path, each.reason) for each in found.unread_named] == [
        (str(tree.path / "broken"), "it ends before what it announces")
    ]
    assert [each.path for each in found.largest] == [str(tree.path / "a/b/four")]


def test_data_on_the_metadata_server_are_told_apart_from_those_on_targets(tree: Tree) -> None:
    layout = parse_layout(printed("213-getstripe-yaml-dom"))
    assert layout is not None
    tree.add("dom", lov_attribute(layout), MIB)
    found = tree.look().scanned
    assert (found.metadata_server_bytes // MIB, found.targets) == (1, {})


def test_each_mirror_has_its_part_of_what_is_allocated(tree: Tree) -> None:
    layout = parse_layout(printed("246-lfs-mirror-create"))
    assert layout is not None
    tree.add("mirrored", lov_attribute(layout), 4 * MIB)
    assert in_mib(tree.look().scanned) == {"0": 2, "1": 2}


def test_large_files_on_one_target_are_told_with_what_they_cost(tree: Tree) -> None:
    tree.add("one", lov_attribute(ONE))
    tree.add("four", lov_attribute(ALL_FOUR), 2 * BIG)
    finding = tree.found()["single-target-files"]
    assert "1 of the 2 largest files from 4 MiB" in finding.text
    assert f"4 MiB in all, such as {tree.path / 'one'}" in finding.text
    assert "at most 1/4 of the rate" in finding.text
    assert "written last: 1 in the last day" in finding.text
    assert finding.remedy.startswith("gridwright layout rebalance grid.yaml data --dry-run")
    assert "250 MB/s of the 1 GB/s" in tree.found(rate=250e6)["single-target-files"].text


PFL = FileLayout(
    (
        Component(end=2 * MIB, stripe_bytes=MIB, flags=("init",), osts=(0,)),
        Component(start=2 * MIB, stripe_bytes=MIB, stripe_count=-1, flags=("init",), osts=(0, 1, 2, 3)),
    )
)
NOT_WRITTEN = FileLayout((PFL.components[0], Component(start=2 * MIB, stripe_bytes=MIB, stripe_count=-1)))


@pytest.mark.parametrize(
    ("attribute", "size", "allocated"),
    [
        (lov_attribute(ONE, released=True), BIG, None),
        (foreign_attribute(0xDA05, b"elsewhere"), BIG, None),
        (lov_attribute(PFL), BIG, None),
        (lov_attribute(NOT_WRITTEN), 2 * MIB, None),
        (lov_attribute(ONE), 1 << 40, MIB),
        (lov_attribute(ONE), BIG - MIB, None),
    ],
    ids=["released", "foreign", "progressive", "next part not written", "sparse", "not large"],
)
def test_what_only_looks_like_a_large_file_on_one_target_is_left_alone(
    tree: Tree, attribute: bytes, size: int, allocated: int | None
) -> None:
    tree.add("odd", attribute, size, allocated=allocated)
    assert tree.found() == {}


def test_a_mirrored_file_keeps_its_mirrors(tree: Tree) -> None:
    layout = parse_layout(printed("246-lfs-mirror-create"))
    assert layout is not None
    tree.add("mirrored", lov_attribute(layout), 2 * BIG)
    assert "single-target-files" not in tree.found()


def test_a_file_that_grew_by_appending_is_left_alone(tree: Tree) -> None:
    # Written last an hour and more after it was made.
    tree.add("log", lov_attribute(ONE), age_s=-7200)
    if tree.look().scanned.largest[0].born_s is None:
        no_such_kernel("its file system does not tell when a file was made")
    assert tree.found() == {}


def test_many_stripes_on_one_target_are_one_target(tree: Tree) -> None:
    tree.add("overstriped", lov_attribute(striped(1, 1, 1, 1, overstriped=True)))
    assert "single-target-files" in tree.found()


def test_files_narrower_than_their_directory_gives_to_new_ones_are_told(tree: Tree) -> None:
    tree.add("two", lov_attribute(striped(0, 1)))
    tree.add("small", lov_attribute(ONE), MIB)
    assert tree.found() == {}, "the directory wants nothing"
    directory = FileLayout((Component(end=MIB, stripe_bytes=MIB), Component(start=MIB, stripe_count=-1)))
    os.setxattr(tree.path, NAME, lov_attribute(directory))
    finding = tree.found()["files-laid-out-otherwise"]
    assert "1 of the 2 largest files" in finding.text
    assert "than its layout for new files has it for their size (1 on too few targets)" in finding.text
    assert "on 2 targets instead of 4: a reader gets at most 2/4" in finding.text
    assert finding.level == "info"


WISH = progressive((MIB, 1), (2 * MIB, 2), (None, -1))


def test_files_are_held_against_what_the_spec_wants_for_their_size_and_not_against_their_directory(
    tree: Tree,
) -> None:
    tree.add("one", lov_attribute(striped(0)), 2 * BIG, age_s=40 * 86400)
    tree.add("as wanted", lov_attribute(striped(0)), MIB)
    tree.add("wide", lov_attribute(ALL_FOUR), MIB)
    os.setxattr(tree.path, NAME, lov_attribute(striped(0)))
    found = tree.found(WISH, rate=100e6)
    assert set(found) == {"single-target-files", "files-laid-out-otherwise"}
    assert "100 MB/s of the 400 MB/s" in found["single-target-files"].text
    assert "1 in the last year" in found["single-target-files"].text
    other = found["files-laid-out-otherwise"]
    assert (other.level, " on 4 targets instead of 1: wider ones cost" in other.text) == ("info", True)
    assert "0 on too few targets" in other.text
    # One stripe, stated, is what a large file is to have.
    assert set(tree.found(striped(0))) == {"files-laid-out-otherwise"}


@pytest.mark.parametrize(
    ("size", "age_s", "left"),
    [(BIG, 0, "1 being written"), (BIG, -7200, "1 appended"), (MIB // 4, 600, "")],
    ids=["still being written", "appended", "tiny"],
)
def test_what_only_looks_otherwise_than_wanted_is_left_alone_and_counted(
    tree: Tree, size: int, age_s: int, left: str
) -> None:
    tree.add("odd", lov_attribute(ONE), size, age_s=age_s)
    if tree.look().scanned.largest[0].born_s is None:
        no_such_kernel("its file system does not tell when a file was made")
    judged = tree.judged(FileLayout((Component(stripe_count=-1),)))
    assert list(judged.all()) == []
    assert left in judged.judged.left_text


@pytest.mark.parametrize(
    ("gigabytes", "hours", "appended"),
    [(1000, 2, False), (1000, 100, True), (1, 2, True), (1, 0.5, False)],
    ids=["a terabyte over one OST", "a large log", "a log", "a copy"],
)
def test_what_one_stream_wrote_for_hours_did_not_grow_by_appending(
    gigabytes: int, hours: float, appended: bool
) -> None:
    size = gigabytes * 10**9
    file = SeenFile(
        path="/data/table",
        size_bytes=size,
        allocated_bytes=size,
        modified_s=int(hours * 3600),
        born_s=0,
        layout=decode_attribute(lov_attribute(ONE)),
    )
    assert was_appended(file, ONE) is appended


def test_data_on_the_metadata_server_are_left_alone_and_no_rate_is_told_of_them(tree: Tree) -> None:
    first = Component(end=2 * BIG, stripe_count=0, on_metadata_server=True, flags=("init",))
    tree.add("dom", lov_attribute(FileLayout((first, Component(start=2 * BIG, stripe_count=1)))), BIG)
    judged = tree.judged(WISH)
    assert list(judged.all()) == []
    assert "1 on the metadata server" in judged.judged.left_text
    tree.add("ost", lov_attribute(ONE), BIG)
    judged = tree.judged(FileLayout((first, Component(start=2 * BIG, stripe_count=1))))
    assert "files-laid-out-otherwise" not in {each.name for each in judged.all()}
    assert "1 wanted on the metadata server" in judged.judged.left_text


def test_a_sparse_file_counts_with_what_it_holds(tree: Tree) -> None:
    tree.add("sparse", lov_attribute(ONE), 1 << 40, allocated=MIB)
    assert tree.found(WISH) == {}


def test_archived_and_released_files_are_counted_and_left_alone(tree: Tree) -> None:
    archived = tree.add("archived", lov_attribute(ONE))
    tree.add("released", lov_attribute(ONE, released=True), 0)
    tree.add("other", lov_attribute(ONE))
    judged = tree.judged(WISH)
    assert sorted(judged.suspects)[:2] == [str(archived)] * 2
    judged.without({str(archived)})
    (finding,) = judged.all()
    assert "1 of the 1 largest files" in finding.text
    assert "left alone: 1 archived, 1 released" in finding.text


def test_a_target_with_most_of_a_library_is_named(tree: Tree) -> None:
    for number in range(8):
        tree.add(f"even{number}", lov_attribute(striped(number % 4)), 3 * MIB)
    assert tree.found() == {}
    for number in range(16):
        tree.add(f"odd{number}", lov_attribute(striped(3)), 3 * MIB)
    text = tree.found()["library-on-few-targets"].text
    assert "target 3 holds 54 MiB of the 72 MiB" in text
    assert "3.0 times its share of 4 targets" in text
    text = tree.found(rate=300e6)["library-on-few-targets"].text
    assert "at 400 MB/s for all instead of 1.20 GB/s" in text


def test_a_file_system_of_one_target_has_nothing_to_spread(tree: Tree) -> None:
    tree.add("one", lov_attribute(striped(0)))
    assert list(tree.judged(targets=1).all()) == []


def test_what_cannot_be_read_is_told(tree: Tree) -> None:
    tree.add("broken", b"\xd0\x0b\xd1\x0b")
    assert "1 files or directories" in tree.found()["layouts-unread"].text


@pytest.mark.parametrize(
    ("number", "does_help"), [(errno.EACCES, True), (errno.EPERM, True), (errno.ENOENT, False)]
)
def test_another_user_is_advised_only_where_he_would_read_more(
    tree: Tree, number: int, does_help: bool
) -> None:
    tree.add("seen", lov_attribute(ALL_FOUR))
    looked = tree.look()
    unread = Unread(str(tree.path / "unseen"), os.strerror(number))
    scanned = replace(looked.scanned, unread=1, unread_named=[unread])
    wish = DesiredLayout(library="data", layout=None, target_bytes_per_s=None)
    judged = LayoutFindings(
        replace(looked, scanned=scanned), str(tree.path), TARGETS, wish, large_bytes=BIG, least_bytes=MIB // 2
    )
    (told,) = (each for each in judged.all() if each.name == "layouts-unread")
    assert unread.path in told.text
    assert ("as a user who may read them" in (told.remedy or "")) is does_help


def test_memory_and_names_are_bounded_by_what_is_kept(tree: Tree) -> None:
    for number in range(300):
        tree.add(f"{number % 7}/{number}", lov_attribute(ONE), 4096 * (1 + number % 50))
    found = scan([tree.path], seconds=30, attributes=[NAME], keep=5)
    assert found.files.files == 300
    assert [each.allocated_bytes for each in found.largest] == [4096 * 50] * 5


def test_a_scan_whose_time_is_over_tells_what_it_has(tree: Tree) -> None:
    tree.add("one", lov_attribute(ONE))
    began = time.monotonic()
    found = scan([Path("/proc")], seconds=0.0, attributes=[NAME])
    assert isinstance(found, Scanned)
    assert not found.complete
    assert time.monotonic() - began < 5


def test_the_scan_runs_as_a_program_where_the_file_system_is_mounted(tree: Tree) -> None:
    tree.add("one", lov_attribute(ONE), MIB)
    found = scan_library(run_here, str(tree.path), attributes=[NAME])
    assert found is not None
    assert (found.scanned.files.files, found.default) == (1, None)

    def broken(command: Sequence[str], *, timeout_s: float = 30.0) -> CommandOutput:
        return CommandOutput(0, b"Welcome to this machine\n", b"")

    assert scan_library(broken, str(tree.path)) is None
    assert LARGE > BIG


@pytest.mark.parametrize(
    ("short", "words"),
    [
        ("1", "1 OST"),
        ("67108864:1,-1", "1 OST until 64 MiB, then all"),
        ("1048576:mdt,4o@fast", "the metadata server until 1 MiB, then 4 stripes of pool fast"),
        ("1,+2", "1 OST; mirrored: 2 OSTs"),
        ("other", "other"),
    ],
)
def test_a_layout_in_a_few_characters_is_shown_in_words(short: str, words: str) -> None:
    assert short_in_words(short) == words


def test_the_scan_names_layouts_as_they_are_shown(tree: Tree) -> None:
    tree.add("pfl", lov_attribute(PFL), MIB)
    (seen,) = tree.look().scanned.classes
    assert short_in_words(seen.layout) == "1 OST until 2 MiB, then all"


# A search for files that lie otherwise than wanted, on a tree with the attributes of a Lustre.

WANTED = progressive((MIB, 1), (None, 4))


def laid_over(*osts: int) -> FileLayout:
    return FileLayout((Component(stripe_count=len(osts), osts=osts),))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    try:
        os.setxattr(tmp_path, NAME, b"x")
    except OSError as error:
        no_such_kernel(f"no user attributes in {tmp_path}: {error}")
    return tmp_path


def add(path: Path, attribute: bytes, size: int = 4 * MIB, age_s: int = 0, *, holes: bool = False) -> str:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        if holes:
            file.truncate(size)
        else:
            os.posix_fallocate(file.fileno(), 0, size)
    os.setxattr(path, NAME, attribute)
    os.utime(path, (time.time() - age_s,) * 2)
    return str(path)


def looked(*places: str, full: tuple[int, ...] = (), wanted: FileLayout = WANTED) -> SearchAnswer:
    order = SearchOrder(wanted=wanted, targets=8, full=list(full), at_least_bytes=MIB // 2)
    return search(places, order, seconds=30, attributes=[NAME])


def test_files_that_lie_otherwise_are_found_the_largest_first(place: Path) -> None:
    one = add(place / "a" / "one", lov_attribute(laid_over(3)), 8 * MIB)
    two = add(place / "b" / "two", lov_attribute(laid_over(3, 4)))
    add(place / "four", lov_attribute(laid_over(0, 1, 2, 3)))
    add(place / "as wanted", lov_attribute(laid_over(5)), MIB)
    add(place / "tiny", lov_attribute(laid_over(1, 2, 3)), 1024)
    add(place / "foreign", foreign_attribute(0xDA05, b"elsewhere"))
    (place / "plain").write_bytes(bytes(MIB))
    found = looked(str(place))
    assert [each.path for each in found.misplaced] == [one, two]
    assert (found.looked_at, found.without_layout, found.unread, found.complete) == (4, 1, 0, True)
    assert [each.kept for each in found.misplaced] == [None, None]
    assert [each.path for each in looked(two).misplaced] == [two], "a file can be a place"
    assert [Path(each.path).name for each in looked(str(place), full=(5,)).on_full] == ["as wanted"]


def test_a_file_with_several_names_is_found_once(place: Path) -> None:
    one = Path(add(place / "a" / "one", lov_attribute(laid_over(3))))
    (place / "b").mkdir()
    for name in ("a/link", "b/link"):
        (place / name).hardlink_to(one)
    found = looked(str(place))
    assert (len(found.misplaced), found.looked_at) == (1, 1)
    assert scan([place], seconds=30, attributes=[NAME]).targets == {"3": one.stat().st_blocks * 512}


def test_holes_of_a_sparse_file_are_neither_moved_nor_counted(place: Path) -> None:
    add(place / "hollow", lov_attribute(laid_over(3)), 1 << 40, holes=True)
    sparse = Path(add(place / "sparse", lov_attribute(laid_over(3)), 1 << 40, holes=True))
    with sparse.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 8 * MIB)
    add(place / "released", lov_attribute(laid_over(3), released=True), 1 << 40, holes=True)
    found = {Path(each.path).name: each for each in looked(str(place)).misplaced}
    assert found.keys() == {"sparse", "released"}
    assert found["sparse"].size_bytes < 9 * MIB
    assert found["sparse"].longest_bytes == 1 << 40, "servers that compress have all of it to move"
    # The largest file of a target that is too full would be one that takes nothing from it.
    on_full = looked(str(place), full=(3,), wanted=plain(1)).on_full
    assert [Path(each.path).name for each in on_full] == ["sparse"]


def test_a_library_of_tiny_files_is_no_place_without_layouts(place: Path) -> None:
    for number in range(3):
        add(place / str(number), lov_attribute(laid_over(1)), 1024)
    (place / "never written").touch()
    assert not looked(str(place)).is_blind
    (place / "elsewhere").mkdir()
    (place / "elsewhere/file").write_bytes(b"x")
    assert looked(str(place / "elsewhere")).is_blind
    (place / "empty").mkdir()
    assert not looked(str(place / "empty")).is_blind


def test_why_a_file_has_to_be_left_alone_is_told(place: Path) -> None:
    released = add(place / "released", lov_attribute(laid_over(3), released=True))
    log = add(place / "log", lov_attribute(laid_over(3)), age_s=-7200)
    if next(list_files([Path(log)], at_least_bytes=0, seconds=9, attributes=[NAME])).born_s is None:
        no_such_kernel("its file system does not tell when a file was made")
    mirrors = FileLayout(
        tuple(
            Component(stripe_count=1, osts=(ost,), mirror=mirror, flags=("init",))
            for mirror, ost in ((1, 0), (2, 1))
        )
    )
    mirrored = add(place / "mirrored", lov_attribute(mirrors))
    assert {each.path: each.kept for each in looked(str(place)).misplaced} == {
        released: "its bytes are in the archive",
        log: "it grew by appending, which gives one stripe whatever is wanted",
        mirrored: "it has mirrors",
    }
    assert looked(log).misplaced[0].kept is None, "who names it wants it moved"


def test_a_part_that_was_never_written_lies_nowhere_and_is_not_misplaced(place: Path) -> None:
    layout = FileLayout(
        (
            Component(end=MIB, stripe_count=1, flags=("init",), osts=(0,)),
            Component(start=MIB, stripe_count=-1),
        )
    )
    add(place / "file", lov_attribute(layout), 4 * MIB)
    assert looked(str(place), wanted=progressive((MIB, 1), (None, -1))).misplaced == []


def test_the_largest_are_told_where_there_are_too_many(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_program, "MOST", 3)
    for number in range(20):
        add(place / str(number), lov_attribute(laid_over(0)), (number + 1) * 4096 * 256)
    found = looked(str(place), wanted=plain(4))
    assert [Path(each.path).name for each in found.misplaced] == ["19", "18", "17"]
    assert (found.more, found.looked_at) == (17, 20)


def test_names_that_are_no_text_are_counted_and_places_that_are_gone_are_told(place: Path) -> None:
    odd = os.fsencode(place) + b"/\xff"
    with open(odd, "wb") as file:  # noqa: PTH123 - a name that is no text
        file.write(bytes(MIB))
    os.setxattr(odd, NAME, lov_attribute(laid_over(0)))
    found = looked(str(place), str(place / "gone"))
    assert {each.reason for each in found.unread_named} == {
        "its name is no text",
        "No such file or directory (os error 2)",
    }
    assert found.misplaced == []


def test_every_file_is_listed_once_however_many_wait_to_be_taken(place: Path) -> None:
    for number in range(9000):
        path = place / str(number % 3) / str(number)
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.setxattr(path, NAME, lov_attribute(laid_over(0)))
    listing = list_files([place], at_least_bytes=0, seconds=60, attributes=[NAME])
    names = sorted(int(Path(each.path).name) for each in listing)
    assert names == list(range(9000))


def test_the_search_runs_as_a_program(place: Path) -> None:
    one = add(place / "one", lov_attribute(laid_over(3)))
    order = SearchOrder(wanted=WANTED, targets=8, full=[], at_least_bytes=0)
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            search_program.__name__,
            "--attribute",
            NAME,
            encode(order).decode(),
            place,
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout)["looked_at"] == 1
    assert [each.path for each in decode(done.stdout, SearchAnswer).misplaced] == [one]
