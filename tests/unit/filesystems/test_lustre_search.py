"""A search for files that lie otherwise than wanted, on a tree with the attributes of a Lustre."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gridwright.filesystems.layout import Component, FileLayout
from gridwright.filesystems.lustre_client import search_program
from gridwright.filesystems.lustre_client.attribute import list_files, scan
from gridwright.filesystems.lustre_client.layout_command import plain, progressive
from gridwright.filesystems.lustre_client.search_program import SearchAnswer, SearchOrder, search
from gridwright.messages import decode, encode
from tests.support.lov_attribute import foreign_attribute, lov_attribute
from tests.support.skips import no_such_kernel

NAME = "user.lustre.lov"
MIB = 2**20
WANTED = progressive((MIB, 1), (None, 4))


def striped(*osts: int) -> FileLayout:
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
    one = add(place / "a" / "one", lov_attribute(striped(3)), 8 * MIB)
    two = add(place / "b" / "two", lov_attribute(striped(3, 4)))
    add(place / "four", lov_attribute(striped(0, 1, 2, 3)))
    add(place / "as wanted", lov_attribute(striped(5)), MIB)
    add(place / "tiny", lov_attribute(striped(1, 2, 3)), 1024)
    add(place / "foreign", foreign_attribute(0xDA05, b"elsewhere"))
    (place / "plain").write_bytes(bytes(MIB))
    found = looked(str(place))
    assert [each.path for each in found.misplaced] == [one, two]
    assert (found.looked_at, found.without_layout, found.unread, found.complete) == (4, 1, 0, True)
    assert [each.kept for each in found.misplaced] == [None, None]
    assert [each.path for each in looked(two).misplaced] == [two], "a file can be a place"
    assert [Path(each.path).name for each in looked(str(place), full=(5,)).on_full] == ["as wanted"]


def test_a_file_with_several_names_is_found_once(place: Path) -> None:
    one = Path(add(place / "a" / "one", lov_attribute(striped(3))))
    (place / "b").mkdir()
    for name in ("a/link", "b/link"):
        (place / name).hardlink_to(one)
    found = looked(str(place))
    assert (len(found.misplaced), found.looked_at) == (1, 1)
    assert scan([place], seconds=30, attributes=[NAME]).targets == {"3": one.stat().st_blocks * 512}


def test_holes_of_a_sparse_file_are_neither_moved_nor_counted(place: Path) -> None:
    add(place / "hollow", lov_attribute(striped(3)), 1 << 40, holes=True)
    sparse = Path(add(place / "sparse", lov_attribute(striped(3)), 1 << 40, holes=True))
    with sparse.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, 8 * MIB)
    add(place / "released", lov_attribute(striped(3), released=True), 1 << 40, holes=True)
    found = {Path(each.path).name: each for each in looked(str(place)).misplaced}
    assert found.keys() == {"sparse", "released"}
    assert found["sparse"].size_bytes < 9 * MIB
    assert found["sparse"].longest_bytes == 1 << 40, "servers that compress have all of it to move"
    # The largest file of a target that is too full would be one that takes nothing from it.
    on_full = looked(str(place), full=(3,), wanted=plain(1)).on_full
    assert [Path(each.path).name for each in on_full] == ["sparse"]


def test_a_library_of_tiny_files_is_no_place_without_layouts(place: Path) -> None:
    for number in range(3):
        add(place / str(number), lov_attribute(striped(1)), 1024)
    (place / "never written").touch()
    assert not looked(str(place)).is_blind
    (place / "elsewhere").mkdir()
    (place / "elsewhere/file").write_bytes(b"x")
    assert looked(str(place / "elsewhere")).is_blind
    (place / "empty").mkdir()
    assert not looked(str(place / "empty")).is_blind


def test_why_a_file_has_to_be_left_alone_is_told(place: Path) -> None:
    released = add(place / "released", lov_attribute(striped(3), released=True))
    log = add(place / "log", lov_attribute(striped(3)), age_s=-7200)
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
        add(place / str(number), lov_attribute(striped(0)), (number + 1) * 4096 * 256)
    found = looked(str(place), wanted=plain(4))
    assert [Path(each.path).name for each in found.misplaced] == ["19", "18", "17"]
    assert (found.more, found.looked_at) == (17, 20)


def test_names_that_are_no_text_are_counted_and_places_that_are_gone_are_told(place: Path) -> None:
    odd = os.fsencode(place) + b"/\xff"
    with open(odd, "wb") as file:  # noqa: PTH123 - a name that is no text
        file.write(bytes(MIB))
    os.setxattr(odd, NAME, lov_attribute(striped(0)))
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
        os.setxattr(path, NAME, lov_attribute(striped(0)))
    listing = list_files([place], at_least_bytes=0, seconds=60, attributes=[NAME])
    names = sorted(int(Path(each.path).name) for each in listing)
    assert names == list(range(9000))


def test_the_search_runs_as_a_program(place: Path) -> None:
    one = add(place / "one", lov_attribute(striped(3)))
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
