"""What mallory does in a library that she may write, where root runs programs that write there, too."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gridwright.doctor.messages import Append, Begin, Put, Read, TakeLock, TrialOrder, TryLock, Write
from gridwright.doctor.probes.node import PREFIX, Probe
from gridwright.errors import GridwrightError
from gridwright.interference import heartbeat
from gridwright.interference.heartbeat import Announcement
from gridwright.iotest import scratch as iotest_scratch
from gridwright.iotest.scratch import FileSet, Scratch
from gridwright.layouts.rebalance import MoveJournal
from gridwright.workload.data_set import HOME, DataSet, remove_data
from gridwright.workload.datasets.catalogue import TABLES
from gridwright.workload.datasets.writer import write_table
from gridwright.workload.launches import guard
from gridwright.workload.launches.traffic import CountedFile, LaunchTraffic
from gridwright.workload.messages import Scale
from gridwright.workload.prepare import missing_tables, prepare
from gridwright.workload.private_directories import PrivateDirectories
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="other users are needed")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library of mallory's own."""
    open_to_all(tmp_path)
    made = tmp_path / "library"
    made.mkdir()
    os.chown(made, MALLORY, MALLORY)
    return made


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A file of root's, which is not to change."""
    made = tmp_path / "precious"
    made.write_text("precious")
    made.chmod(0o600)
    return made


@pytest.mark.parametrize("owner", [True, False], ids=["who made it", "the other node"])
@pytest.mark.parametrize(
    "order",
    [
        Write("seen", "x"),
        Put("seen", "x"),
        Append("seen", "one", 3),
        TakeLock("flock", "seen"),
        TryLock("flock", "seen"),
        Read("seen"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_probe_follows_nothing_that_mallory_put_in_its_place(
    library: Path, precious: Path, order: TrialOrder, owner: bool
) -> None:
    maker, other = Probe(), Probe()
    maker.obey(Begin(str(library), "x", owner=True))
    other.obey(Begin(str(library), "x", owner=False))
    place = library / f"{PREFIX}x"

    def attack() -> None:
        place.rename(library / "away")
        place.mkdir(mode=0o777)
        for name in ("seen", "seen.new"):
            (place / name).symlink_to(precious)

    as_user(MALLORY, attack)
    answer: object = None
    try:
        answer = (maker if owner else other).obey(order)
    except OSError:
        pass
    finally:
        other.close()
        maker.close()
    assert answer != "precious"
    assert precious.read_text() == "precious"
    assert (place / "seen").is_symlink()
    assert [*(library / "away").iterdir()] == []


SMALL = Scale("tiny", 1, 0.0, {"accounts": 20}, {})


def make(library: Path) -> DataSet:
    data = DataSet.of(library, SMALL, 1)
    prepare(data, {"accounts"}, 1, workers=1, emit=lambda _: None, stopped=lambda: False)
    return data


@pytest.fixture
def shared(library: Path) -> Path:
    """A library that everybody may add to."""
    os.chown(library, 0, 0)
    library.chmod(0o1777)
    return library


def _links_of_a_set(place: Path, target: Path) -> None:
    (place / "copy-0").mkdir(parents=True)
    for name in (".lock", ".maker", ".in-use", "manifest.json"):
        (place / name).symlink_to(target)
    for name in ("accounts.arrow", "accounts.arrow.partial"):
        (place / "copy-0" / name).symlink_to(target)


def _a_manifest_that_leads_out(place: Path, target: Path) -> None:
    (place / "copy-0").mkdir(parents=True)
    entry = {"file": f"../../../{target.name}", "bytes": len("precious"), "rows": 1, "sha256": ""}
    tables = {"0/accounts": entry | {"checksum": "", "expected": {}}}
    (place / "manifest.json").write_text(json.dumps({"units": SMALL.units, "tables": tables}))


def _a_link_for_a_set(place: Path, target: Path) -> None:
    place.parent.mkdir()
    place.symlink_to(target.parent / "made")


def _a_link_for_all_sets(place: Path, target: Path) -> None:
    place.parent.symlink_to(target.parent / "made")


@pytest.mark.parametrize(
    "attack", [_links_of_a_set, _a_manifest_that_leads_out, _a_link_for_a_set, _a_link_for_all_sets]
)
def test_root_makes_and_believes_no_data_set_where_mallory_made_its_directory(
    shared: Path, precious: Path, attack: Callable[[Path, Path], None]
) -> None:
    elsewhere = precious.parent / "made"
    elsewhere.mkdir()
    elsewhere.chmod(0o700)
    absent = precious.parent / "nologin"
    place = shared / HOME / "tiny-seed1-v1"
    target = absent if attack is _links_of_a_set else precious
    as_user(MALLORY, lambda: attack(place, target))
    assert missing_tables(DataSet.of(shared, SMALL, 1), {"accounts"}, 1) == [("accounts", 0)]
    data = make(shared)
    assert data.directory.parent == shared / f"{HOME}-0"
    assert missing_tables(data, {"accounts"}, 1) == []
    assert precious.read_text() == "precious"
    assert not absent.exists()
    assert [*elsewhere.iterdir()] == []
    with suppress(OSError):
        remove_data(shared)
    assert not data.directory.exists()
    assert precious.read_text() == "precious"
    assert not absent.exists()


def test_where_mallory_took_both_names_the_error_names_her(shared: Path, precious: Path) -> None:
    def attack() -> None:
        (shared / HOME).mkdir()
        (shared / f"{HOME}-0").symlink_to(precious.parent)

    as_user(MALLORY, attack)
    with pytest.raises(GridwrightError, match=str(MALLORY)):
        make(shared)


def test_a_directory_that_mallory_exchanges_meanwhile_takes_nothing(library: Path, precious: Path) -> None:
    data = make(library)

    def attack() -> None:
        (library / HOME).rename(library / "away")
        _links_of_a_set(data.directory, precious)

    as_user(MALLORY, attack)
    acts: list[Callable[[], None]] = [lambda: data.record({}), data.evict, data.remove_partial]
    for act in acts:
        with suppress(OSError, GridwrightError):
            act()
    with suppress(GridwrightError), data.lock():
        pass
    assert data.entries() == {}
    with data.in_use():
        pass
    assert precious.read_text() == "precious"
    assert (data.directory / "copy-0" / "accounts.arrow.partial").is_symlink()


def test_a_table_is_written_into_a_new_file(tmp_path: Path, precious: Path) -> None:
    place = tmp_path / "copy-0"
    place.mkdir()
    (place / "accounts.arrow.partial").symlink_to(precious)
    write_table(TABLES["accounts"], place / "accounts.arrow", units=SMALL.units, seed=1, copy=0)
    assert precious.read_text() == "precious"
    (place / "link").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic"):
        CountedFile(place / "link", "w", "work", LaunchTraffic(LaunchTraffic.create()))
    assert precious.read_text() == "precious"


@contextmanager
def locked_by_mallory(directory: Path) -> Iterator[None]:
    """She holds all files of a directory that she can open."""

    def holds() -> None:
        names = [each for each in directory.iterdir() if each.is_file() and os.access(each, os.R_OK)]
        for each in names:
            fcntl.flock(os.open(each, os.O_RDONLY), fcntl.LOCK_EX)
        os.write(written, b"x")
        os.read(ends, 1)

    ready, written = os.pipe()
    ends, end = os.pipe()
    holder = os.fork()
    if holder == 0:
        try:
            as_user(MALLORY, holds)
        finally:
            os._exit(0)
    try:
        os.read(ready, 1)
        yield
    finally:
        os.write(end, b"x")
        os.waitpid(holder, 0)
        for each in (ready, written, ends, end):
            os.close(each)


def test_a_lock_that_mallory_holds_keeps_nobody_from_making_or_using_a_data_set(shared: Path) -> None:
    data = make(shared)
    with data.lock(), data.in_use():
        pass
    with locked_by_mallory(data.directory):
        with data.lock(), data.in_use():
            pass
        as_user(ALICE, lambda: data.in_use().__enter__())
    assert remove_data(shared) == [data.directory]


def test_a_lock_that_mallory_holds_keeps_nobody_from_moving_files(tmp_path: Path) -> None:
    open_to_all(tmp_path)
    path = tmp_path / "layouts" / "data.jsonl"
    with MoveJournal(path) as journal:
        journal.begin([], [])
    with locked_by_mallory(path.parent), MoveJournal(path) as journal:
        journal.begin([], [])
        with pytest.raises(GridwrightError, match="another rebalance"), MoveJournal(path):
            pass


def test_users_of_a_shared_library_use_roots_data_set_and_not_each_others(shared: Path) -> None:
    open_to_all(shared)
    home = shared / HOME
    as_user(MALLORY, home.mkdir)

    def look() -> None:
        assert DataSet.of(shared, SMALL, 1).directory.parent.name == f"{HOME}-{ALICE}"

    as_user(ALICE, look)
    home.rmdir()
    data = make(shared)

    def use() -> None:
        assert DataSet.of(shared, SMALL, 1).directory == data.directory
        assert missing_tables(DataSet.of(shared, SMALL, 1), {"accounts"}, 1) == []
        assert DataSet.of(shared, SMALL, 2).directory.parent.name == f"{HOME}-{ALICE}"

    as_user(ALICE, use)


def _exchange(place: Path, target: Path, *names: str) -> None:
    """Mallory takes a directory away, and puts one with links in its place."""
    place.rename(place.with_name("away"))
    place.mkdir(mode=0o777)
    for name in names:
        (place / name).symlink_to(target)


def test_the_files_of_an_io_test_go_into_its_own_directory_alone(library: Path, precious: Path) -> None:
    scratch = Scratch.create(library)
    absent = precious.with_name("absent")
    as_user(MALLORY, lambda: _exchange(scratch.directory, absent, "shared-1", iotest_scratch.MARKER))
    scratch.make_shared("shared-1", instead_of=iotest_scratch.MARKER)
    scratch.retain(FileSet(1, 1, ()))
    assert {each.name for each in (library / "away").iterdir()} == {"shared-1", iotest_scratch.MARKER}
    assert (scratch.directory / iotest_scratch.MARKER).is_symlink()
    with suppress(OSError):
        scratch.remove(lambda: None)
    assert not absent.exists()
    assert (scratch.directory / "shared-1").is_symlink()


def test_a_marker_is_left_raised_and_removed_in_an_own_directory_alone(library: Path, precious: Path) -> None:
    scratch = Scratch.create(library)
    said = Announcement("token", "run", "host", "root", "iotest")
    marker = heartbeat.write_marker(scratch.directory, said)
    elsewhere = precious.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / marker.name).write_text("precious")

    def attack() -> None:
        scratch.directory.rename(library / "away")
        scratch.directory.symlink_to(elsewhere)

    as_user(MALLORY, attack)
    with pytest.raises(OSError, match="directory"):
        heartbeat.beat(marker, 7)
    with pytest.raises(OSError, match="directory"):
        heartbeat.remove_marker(marker)
    (elsewhere / marker.name).rename(precious)
    with pytest.raises(OSError, match="directory"):
        heartbeat.write_marker(scratch.directory, said)
    assert [*elsewhere.iterdir()] == []
    assert precious.read_text() == "precious"


def test_a_launch_gets_no_directory_in_one_that_mallory_put_there(library: Path, tmp_path: Path) -> None:
    made = PrivateDirectories.create(library, library, keep=False)
    work, util = made.of_launch(1, "sort")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    def attack() -> None:
        made.work.rename(library / "away")
        made.work.symlink_to(elsewhere)

    as_user(MALLORY, attack)
    with pytest.raises(OSError, match="directory"):
        guard._make(work)
    guard._make(util)
    assert [*elsewhere.iterdir()] == []


def test_what_mallory_moves_into_the_place_of_a_private_directory_stays(library: Path) -> None:
    made = PrivateDirectories.create(library, library, keep=False)
    alices = library / "alices"
    alices.mkdir()
    (alices / "work").write_text("of a year")
    os.chown(alices, ALICE, ALICE)

    def attack() -> None:
        made.work.rename(library / "away")
        alices.rename(made.work)

    as_user(MALLORY, attack)
    made.remove()
    assert (made.work / "work").read_text() == "of a year"
    assert not made.util.exists()
