"""Contents that come when they are read, on ext4 and XFS of this kernel, whatever is killed meanwhile."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from gridwright.repository.lazy.control import marker_of
from gridwright.repository.lazy.filling import fill
from gridwright.repository.lazy.loaded_ranges import read_ranges
from gridwright.repository.lazy.support import why_not
from gridwright.repository.references import ContentPlace, FileState, read_state
from tests.support.disks import AS_NOBODY, loop_mount, other_mount
from tests.support.range_store import Numbered, RangeStore, range_store
from tests.support.served import MTIME_NS, SystemdDouble, make_name_only, name_only, served
from tests.support.skips import no_such_kernel, root_only

pytestmark = [pytest.mark.root, root_only]
MIB, GIB = 1 << 20, 1 << 30
PAGE = 4096


@pytest.fixture(scope="module", params=["ext4", "xfs"])
def disk(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of its own that all users reach, of each kind that has pre-content events here."""
    with (
        tempfile.TemporaryDirectory(prefix="gridwright-test-") as place,
        loop_mount(Path(place), mib=400, kind=request.param) as mount_point,
    ):
        Path(place).chmod(0o755)
        reason = why_not(str(mount_point))
        if reason and "pre-content" in reason:
            no_such_kernel(reason)
        assert reason is None
        yield mount_point


@pytest.fixture
def directory(disk: Path, request: pytest.FixtureRequest) -> Path:
    """A directory for a repository."""
    place = disk / hashlib.sha256(request.node.name.encode()).hexdigest()[:8]
    place.mkdir()
    return place


@pytest.fixture
def store() -> Iterator[RangeStore]:
    """A store that counts."""
    with range_store() as found:
        yield found


def read(path: Path, offset: int, length: int) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)


def write(path: Path, offset: int, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        assert os.pwrite(descriptor, content, offset) == len(content)
    finally:
        os.close(descriptor)


def test_one_range_of_a_gibibyte_is_read_and_nothing_else_is_fetched(
    directory: Path, store: RangeStore
) -> None:
    content = Numbered(GIB)
    name_only(directory / "large", store.add("large", content))
    with served(directory, store):
        assert (directory / "large").stat().st_size == GIB
        assert store.ranges == []
        at = 700 * MIB + 12 * PAGE
        assert read(directory / "large", at, PAGE) == content[at : at + PAGE]
        assert store.ranges == [("large", 700 * MIB, MIB)]
        # What is here is not fetched again, and a reader over the end of a chunk gets both.
        assert read(directory / "large", 701 * MIB - 10, 20) == content[701 * MIB - 10 : 701 * MIB + 10]
        assert ("large", 701 * MIB, MIB) in store.ranges[1:]
        assert ("large", 700 * MIB, MIB) not in store.ranges[1:]
    status = (directory / "large").stat()
    assert status.st_mtime_ns == MTIME_NS
    assert status.st_blocks * 512 < 8 * MIB


def test_a_file_that_is_all_here_is_a_file_like_others(directory: Path, store: RangeStore) -> None:
    content = Numbered(5 * MIB + 17)
    name_only(directory / "file", store.add("file", content))
    (directory / "link").hardlink_to(directory / "file")
    with served(directory, store):
        assert read(directory / "link", 0, PAGE) == content[:PAGE]
        (directory / "link").rename(directory / "renamed")
        assert (directory / "renamed").read_bytes() == content[:]
        state = read_state(os.fsencode(directory / "file"))
        assert state is not None
        assert not state.is_name_only
        assert state.is_unchanged((directory / "file").stat())
        assert store.bytes_read("file") == len(content)
    # Nobody serves it any more, and the directory is open, as nothing in it is a name only.
    assert (directory / "file").read_bytes() == content[:]
    assert os.listxattr(directory / "file") == ["trusted.gridwright.repository"]
    assert directory.stat().st_mode & 0o777 == 0o755


def test_zeros_of_an_object_are_not_taken_for_what_is_missing(directory: Path, store: RangeStore) -> None:
    name_only(directory / "zeros", store.add("zeros", bytes(3 * MIB)))
    with served(directory, store):
        for _ in range(3):
            assert read(directory / "zeros", MIB, PAGE) == bytes(PAGE)
    with served(directory, store):
        assert read(directory / "zeros", MIB, PAGE) == bytes(PAGE)
        assert store.ranges == [("zeros", MIB, MIB)]


def test_what_a_user_writes_to_a_name_survives_its_loading(directory: Path, store: RangeStore) -> None:
    size = 4 * MIB + 100
    content = Numbered(size)
    for name in ("written", "appended", "cut", "emptied", "mapped"):
        name_only(directory / name, store.add(name, content))
    with served(directory, store):
        expected = {name: bytearray(content[:]) for name in ("written", "appended", "cut", "mapped")}
        write(directory / "written", MIB + 5, b"mine")
        expected["written"][MIB + 5 : MIB + 9] = b"mine"
        with (directory / "appended").open("ab") as file:
            file.write(b"at the end")
        expected["appended"] += b"at the end"
        os.truncate(directory / "cut", 2 * MIB + 50)
        os.truncate(directory / "cut", size)
        expected["cut"][2 * MIB + 50 :] = bytes(size - 2 * MIB - 50)
        (directory / "emptied").write_bytes(b"new")
        # In another process: a mapping waits with the interpreter held, and the store is this one.
        program = "import mmap, sys; f = open(sys.argv[1], 'r+b'); mmap.mmap(f.fileno(), 0)[5:8] = b'map'"
        subprocess.run([sys.executable, "-c", program, directory / "mapped"], check=True, timeout=60)
        expected["mapped"][5:8] = b"map"
        for name, wanted in expected.items():
            assert (directory / name).read_bytes() == wanted, name
            state = read_state(os.fsencode(directory / name))
            assert state is not None
            assert not state.is_unchanged((directory / name).stat()), name
        assert (directory / "emptied").read_bytes() == b"new"
        assert store.bytes_read("emptied") == 0


def test_two_readers_of_a_range_have_it_fetched_once(directory: Path, store: RangeStore) -> None:
    content = Numbered(8 * MIB)
    name_only(directory / "both", store.add("both", content))
    store.delay_s = 0.3
    with served(directory, store), ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda at: read(directory / "both", at, PAGE), [2 * MIB, 2 * MIB + PAGE] * 2))
        assert found == [content[2 * MIB : 2 * MIB + PAGE], content[2 * MIB + PAGE : 2 * MIB + 2 * PAGE]] * 2
        assert store.ranges == [("both", 2 * MIB, MIB)]


def test_a_reader_gets_an_error_in_the_stated_time_while_the_store_is_away(
    directory: Path, store: RangeStore
) -> None:
    content = Numbered(4 * MIB)
    name_only(directory / "far", store.add("far", content))
    with served(directory, store, patience_s=1.0) as daemon:
        # Until the loader is there, which may take longer than a second here.
        wait_until(lambda: is_readable(directory / "far"))
        store.is_cut = True
        started = time.monotonic()
        with pytest.raises(OSError, match="Input/output") as failed:
            read(directory / "far", 2 * MIB, PAGE)
        assert failed.value.errno == errno.EIO
        assert 1.0 <= time.monotonic() - started < 30
        daemon.wait_for(f"{directory}/far: nothing came for 1 s")
        # What is here can be read, and with the store all else can.
        assert read(directory / "far", PAGE, PAGE) == content[PAGE : 2 * PAGE]
        store.is_cut = False
        assert read(directory / "far", 2 * MIB, PAGE) == content[2 * MIB : 2 * MIB + PAGE]


def test_an_object_that_changed_or_went_is_an_error_at_once(directory: Path, store: RangeStore) -> None:
    reference = store.add("gone", Numbered(MIB))
    name_only(directory / "gone", reference)
    del store.objects["gone"]
    with served(directory, store) as daemon:
        with pytest.raises(OSError, match="Input/output"):
            read(directory / "gone", 0, PAGE)
        daemon.wait_for(f"{directory}/gone: ")
        assert "the object is not there" in daemon.said()


def test_a_loader_that_is_killed_costs_a_reader_nothing_but_time(directory: Path, store: RangeStore) -> None:
    content = Numbered(8 * MIB)
    name_only(directory / "file", store.add("file", content))
    with served(directory, store) as daemon, ThreadPoolExecutor(2) as pool:
        read(directory / "file", 0, PAGE)
        store.delay_s = 0.5
        reader = pool.submit(read, directory / "file", 3 * MIB, PAGE)
        wait_until(lambda: bool(store.is_asked))
        daemon.loader().kill()
        assert reader.result(60) == content[3 * MIB : 3 * MIB + PAGE]
    assert (directory / "file").stat().st_mtime_ns == MTIME_NS


def test_a_holder_that_is_killed_lets_nobody_read_zeros(directory: Path, store: RangeStore) -> None:
    content = Numbered(8 * MIB)
    name_only(directory / "file", store.add("file", content))
    with served(directory, store) as daemon, ThreadPoolExecutor(2) as pool:
        held = os.open(directory / "file", os.O_RDONLY)
        store.is_cut = True
        reader = pool.submit(read, directory / "file", 3 * MIB, PAGE)
        loader = daemon.loader()
        daemon.others.append(loader.pid)
        time.sleep(0.2)
        daemon.process.kill()
        with pytest.raises(OSError, match="Input/output"):
            reader.result(60)
        daemon.wait_for("its loader takes its place")
        store.is_cut = False
        # Also who had it open before reads what is right.
        assert os.pread(held, PAGE, 5 * MIB) == content[5 * MIB : 5 * MIB + PAGE]
        os.close(held)
        assert read(directory / "file", 3 * MIB, PAGE) == content[3 * MIB : 3 * MIB + PAGE]
        daemon.others += [child.pid for child in psutil.Process(loader.pid).children()]
        loader.send_signal(signal.SIGTERM)
        psutil.wait_procs([loader], 20)


def test_systemd_holds_readers_back_while_no_process_is_left(
    directory: Path, store: RangeStore, tmp_path: Path
) -> None:
    content = Numbered(8 * MIB)
    name_only(directory / "file", store.add("file", content))
    with ThreadPoolExecutor(2) as pool, SystemdDouble(tmp_path) as systemd:
        with served(directory, store, by_systemd=systemd) as daemon:
            systemd.take()
            loader = daemon.loader()
            both = (loader, psutil.Process(daemon.process.pid))
            for process in both:
                process.suspend()
            for process in both:
                process.kill()
            daemon.process.wait()
            reader = pool.submit(read, directory / "file", 3 * MIB, PAGE)
            with pytest.raises(TimeoutError):
                reader.result(0.3)
        with served(directory, store, by_systemd=systemd):
            systemd.let_go()
            assert reader.result(60) == content[3 * MIB : 3 * MIB + PAGE]


def test_users_cannot_enter_while_nobody_loads(directory: Path, store: RangeStore) -> None:
    name_only(directory / "file", store.add("file", Numbered(MIB)))
    directory.chmod(0o2775)
    os.chown(directory, 12, 34)
    command = [*AS_NOBODY[:4], "head", "-c", "4", str(directory / "file")]
    with served(directory, store):
        assert subprocess.run(command, capture_output=True, timeout=60, check=True).stdout == Numbered(4)[:]
        name_only(directory / "other", store.add("other", Numbered(MIB)))
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Permission denied" in refused.stderr
    assert directory.stat().st_mode & 0o7777 == 0
    with served(directory, store):
        status = directory.stat()
        assert (status.st_mode & 0o7777, status.st_uid, status.st_gid) == (0o2775, 12, 34)


def test_who_has_a_name_open_reads_no_zeros_after_an_orderly_end(directory: Path, store: RangeStore) -> None:
    content = Numbered(4 * MIB)
    name_only(directory / "file", store.add("file", content))
    with served(directory, store) as daemon:
        held = os.open(directory / "file", os.O_RDONLY)
        assert os.pread(held, 8, 0) == content[:8]
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait(20)
        with pytest.raises(OSError, match="Input/output"):
            os.pread(held, 8, 2 * MIB)
    with served(directory, store):
        assert os.pread(held, 8, 2 * MIB) == content[2 * MIB : 2 * MIB + 8]
        os.close(held)


def test_a_disk_that_is_full_is_told_to_the_reader(disk: Path, directory: Path, store: RangeStore) -> None:
    content = Numbered(64 * MIB)
    name_only(directory / "file", store.add("file", content))
    filler = disk / "filler"
    with served(directory, store), filler.open("wb") as file:
        assert read(directory / "file", 0, PAGE) == content[:PAGE]
        free = os.statvfs(disk)
        os.posix_fallocate(file.fileno(), 0, max(free.f_bavail * free.f_frsize - 2 * MIB, PAGE))
        for at in range(1, 40):
            try:
                assert read(directory / "file", at * MIB, PAGE) == content[at * MIB : at * MIB + PAGE]
            except OSError as error:
                assert error.errno == errno.ENOSPC
                break
        else:
            pytest.fail("the disk was never full")
        filler.unlink()
        os.truncate(file.fileno(), 0)
        assert read(directory / "file", at * MIB, PAGE) == content[at * MIB : at * MIB + PAGE]


def test_a_file_has_its_time_though_the_flush_of_its_content_is_cut_off(
    directory: Path, store: RangeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, content = directory / "cut off", b"x" * PAGE
    name_only(path, store.add("cut off", content))

    def cut_off(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fdatasync", cut_off)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        state = read_state(descriptor)
        assert state is not None
        ranges = read_ranges(descriptor, state.reference)
        with pytest.raises(OSError, match="full"):
            fill(descriptor, state, ranges, 0, 1, content)
        assert os.fstat(descriptor).st_mtime_ns == MTIME_NS
        assert ranges.missing(0, PAGE) == [0], "what may not be durable is not here"
    finally:
        os.close(descriptor)


def test_names_that_are_made_while_others_are_served_are_marked_before_anybody_sees_them(
    directory: Path, store: RangeStore
) -> None:
    content = Numbered(3 * MIB)
    with served(directory, store):
        marker = marker_of(str(directory))
        assert marker is not None
        state = FileState(store.add("new", content), ContentPlace.NAME_ONLY, MTIME_NS)
        descriptor = os.open(directory / ".new", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        make_name_only(descriptor, state)
        marker.mark(descriptor)
        os.close(descriptor)
        (directory / ".new").rename(directory / "new")
        assert read(directory / "new", 2 * MIB, PAGE) == content[2 * MIB : 2 * MIB + PAGE]
        assert store.ranges == [("new", 2 * MIB, MIB)]
        with (directory / "new").open("rb") as file:
            assert marker.load(file.fileno()) == 2 * MIB
        state_now = read_state(os.fsencode(directory / "new"))
        assert state_now is not None
        assert not state_now.is_name_only
        marker.close()


def test_other_kinds_of_file_systems_say_why_not(tmp_path: Path) -> None:
    with other_mount(tmp_path / "memory", "tmpfs") as memory:
        reason = why_not(str(memory))
    assert reason is not None
    assert "no pre-content events" in reason


def test_readers_and_writers_at_random_while_processes_are_killed(directory: Path, store: RangeStore) -> None:
    seed = int.from_bytes(os.urandom(4), "big")
    chance = random.Random(seed)  # noqa: S311 - no secret
    sizes = [chance.randrange(1, 12 * MIB) for _ in range(4)]
    models = []
    for number, size in enumerate(sizes):
        name_only(directory / str(number), store.add(str(number), Numbered(size)))
        models.append(bytearray(Numbered(size)[:]))
    with served(directory, store) as daemon:
        kills = 0
        end = time.monotonic() + 4
        while time.monotonic() < end or kills < 2:
            number = chance.randrange(len(sizes))
            _act_at_random(chance, directory / str(number), models[number], f"seed {seed}")
            if chance.random() < 0.004:
                daemon.loader().kill()
                kills += 1
        for number, model in enumerate(models):
            assert (directory / str(number)).read_bytes() == model, f"seed {seed}, file {number}"


def _act_at_random(chance: random.Random, path: Path, model: bytearray, told: str) -> None:
    at = chance.randrange(len(model) + 1)
    act = chance.random()
    if act < 0.85:
        assert read(path, at, PAGE) == model[at : at + PAGE], f"{told}, {path.name} at {at}"
    elif act < 0.93:
        content = chance.randbytes(chance.randrange(1, 3 * PAGE))
        write(path, at, content)
        model[at : at + len(content)] = content
    elif act < 0.97:
        with path.open("ab") as file:
            file.write(b"appended")
        model += b"appended"
    else:
        # Cut a little, and grow again.
        size = max(len(model) - chance.randrange(3 * PAGE), 1)
        os.truncate(path, size)
        del model[size:]
        os.truncate(path, size + 100)
        model += bytes(100)


def is_readable(path: Path) -> bool:
    try:
        return bool(read(path, 0, PAGE))
    except OSError:
        return False


def wait_until(holds: object, seconds: float = 60) -> None:
    assert callable(holds)
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
