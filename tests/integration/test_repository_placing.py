"""What users make and edit while a command replaces or removes files is never lost, on any file system."""

from __future__ import annotations

import ctypes
import errno
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from gridwright.errors import GridwrightError
from gridwright.repository import below, contents, file_locks, placing
from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_names
from gridwright.repository.s3.s3_store import S3Store
from gridwright.repository.settings import OpenRepository, RepositoryReport
from tests.support.disks import loop_mount, other_mount
from tests.support.object_store import StoreServer
from tests.support.repositories import forget, run

WRITER = """
import os, sys
root, count = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
for turn in range(1000):
    for number in range(turn % 7, count, 7):
        name = f"{root}/f{number:05}"
        line = f"{turn}-{number}\\n".encode()
        with open(name, "ab") as file:
            file.write(line)
        print(line.decode().strip(), flush=True)
"""
"""Adds a line to one file after the other, and says which one once the file has it."""


@pytest.fixture(params=["ext4", "xfs", "tmpfs"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with ExitStack() as mounted:
        if request.param == "tmpfs":
            yield mounted.enter_context(other_mount(tmp_path / "memory", "tmpfs"))
        else:
            yield mounted.enter_context(loop_mount(tmp_path, mib=400, kind=request.param))


def all_contents(opened: OpenRepository) -> list[RepositoryReport]:
    names = import_names(opened, ImportOptions(contents=True))
    return [names, import_contents(opened, ContentOptions())]


def change_objects(tmp_path: Path, server: StoreServer, url: str, count: int, content: bytes) -> None:
    """Another machine exports other content under the same names."""
    other = tmp_path / "other"
    other.mkdir(exist_ok=True)
    run(other, server, all_contents, url)
    for number in range(count):
        (other / f"f{number:05}").write_bytes(content)
    assert run(other, server, lambda each: export(each, ExportOptions()), url).problems == []


@pytest.mark.few(2)
@pytest.mark.root
@pytest.mark.parametrize("count", [300, pytest.param(3000, marks=pytest.mark.thorough)])
def test_no_byte_of_a_writer_is_lost_beside_an_import(
    tmp_path: Path, disk: Path, server: StoreServer, url: str, count: int
) -> None:
    library = disk / "library"
    library.mkdir()
    for number in range(count):
        (library / f"f{number:05}").write_bytes(b"first\n")
    run(library, server, lambda each: export(each, ExportOptions()), url)
    change_objects(tmp_path, server, url, count, b"second\n")

    said: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, library, str(count)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        reading = threading.Thread(target=lambda: said.extend(writer.stdout or ()))
        reading.start()
        reports = run(library, server, all_contents, url)
        writer.kill()
        reading.join()
    there = [
        line for file in library.rglob("f*") if file.is_file() for line in file.read_bytes().splitlines()
    ]
    lost = {each.strip().encode() for each in said} - set(there)
    assert lost == set(), reports
    named = {name for report in reports for name, _ in report.problems}
    for trashed in (library / ".gridwright" / "trash").rglob("f*"):
        assert trashed.name in named, "both are there, and nobody says so"


@pytest.mark.root
@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("act", ["new file", "edit", "open", "gone"])
def test_what_came_in_between_stays_and_is_named(
    library: Path, monkeypatch: pytest.MonkeyPatch, act: str, exchanges: bool
) -> None:
    if not exchanges:
        refuse_exchanges(monkeypatch)
    (library / "file").write_bytes(b"known")
    (library / "part").write_bytes(b"object")
    seen = (library / "file").stat()
    held = None
    if act == "new file":
        (library / "mine").write_bytes(b"mine!")
        (library / "mine").rename(library / "file")
    elif act == "edit":
        (library / "file").write_bytes(b"mine!")
    elif act == "open":
        held = (library / "file").open("r+b")
    else:
        (library / "file").unlink()
    report = RepositoryReport("archive", "import")
    directory = os.open(library, os.O_RDONLY)
    placer = placing.Placer(directory, report)
    if act == "gone":
        placer.replace(b"file", directory, b"part", b"file", seen)
        assert (library / "file").read_bytes() == b"object"
    else:
        with pytest.raises(FileExistsError, match="left as it is"):
            placer.replace(b"file", directory, b"part", b"file", seen)
        assert (library / "file").read_bytes() == (b"known" if act == "open" else b"mine!")
        assert (library / "part").read_bytes() == b"object"
    placer.settle()
    os.close(directory)
    if held is not None:
        held.close()
    assert not (library / ".gridwright").exists()


@pytest.mark.root
@pytest.mark.parametrize("exchanges", [True, False])
def test_what_comes_at_the_last_moment_gets_its_name_back(
    library: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool
) -> None:
    """Between the look at a file and the exchange."""
    (library / "file").write_bytes(b"known")
    (library / "part").write_bytes(b"object")
    seen = (library / "file").stat()
    real = placing.Placer._take

    def late(self: placing.Placer, opened: ExitStack, at: int, name: bytes, path: bytes) -> object:
        if name == b"part":
            (library / "mine").write_bytes(b"mine!")
            (library / "mine").rename(library / "file")
        return real(self, opened, at, name, path)

    monkeypatch.setattr(placing.Placer, "_take", late)
    if not exchanges:
        refuse_exchanges(monkeypatch)
    directory = os.open(library, os.O_RDONLY)
    placer = placing.Placer(directory, RepositoryReport("archive", "import"))
    with pytest.raises(FileExistsError):
        placer.replace(b"file", directory, b"part", b"file", seen)
    placer.settle()
    os.close(directory)
    assert (library / "file").read_bytes() == b"mine!"
    assert list(library.iterdir()) == [library / "file"]


@pytest.mark.root
def test_where_no_lease_tells_the_old_file_stays_in_the_trash(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS and Lustre: another client may write to it."""
    monkeypatch.setattr(file_locks, "LOCKS", {})
    refuse_exchanges(monkeypatch)
    (library / "file").write_bytes(b"known")
    (library / "part").write_bytes(b"object")
    report = RepositoryReport("archive", "import")
    directory = os.open(library, os.O_RDONLY)
    with (library / "file").open("ab") as elsewhere:
        placer = placing.Placer(directory, report)
        placer.replace(b"file", directory, b"part", b"file", (library / "file").stat())
        placer.settle()
        elsewhere.write(b", and more")
    os.close(directory)
    assert (library / "file").read_bytes() == b"object"
    (old,) = (library / ".gridwright" / "trash").rglob("file")
    assert old.read_bytes() == b"known, and more"
    assert "in .gridwright/trash/" in report.all_notes[0]
    assert (library / ".gridwright").stat().st_mode & 0o777 == 0o700


def refuse_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS and Lustre do: no flag of renameat2(2) is known."""
    real = below.c_library()

    class Library:
        def renameat2(self, *_: object) -> int:
            ctypes.set_errno(22)
            return -1

        def __getattr__(self, name: str) -> object:
            return getattr(real, name)

    monkeypatch.setattr(placing, "c_library", Library)


def test_a_changed_file_that_the_bucket_wins_over_is_in_the_trash(
    tmp_path: Path, library: Path, server: StoreServer, url: str
) -> None:
    (library / "f00000").write_bytes(b"first")
    run(library, server, lambda each: export(each, ExportOptions()), url)
    change_objects(tmp_path, server, url, 1, b"second")
    (library / "f00000").write_bytes(b"mine")

    def prefer_objects(opened: OpenRepository) -> None:
        import_names(opened, ImportOptions(prefer="objects", contents=True))
        import_contents(opened, ContentOptions(prefer="objects"))

    run(library, server, prefer_objects, url)
    assert (library / "f00000").read_bytes() == b"second"
    assert [each.read_bytes() for each in (library / ".gridwright/trash").rglob("f00000")] == [b"mine"]
    assert run(library, server, lambda each: export(each, ExportOptions()), url).all_notes == []
    forget(library)


def left_open(library: Path) -> list[str]:
    """Names in a library that this process has open; what never had one goes with the command."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(each.readlink()))
    return [each for each in found if each.startswith(f"{library}/") and not each.endswith("(deleted)")]


def beside_an_exported_one(tmp_path: Path, server: StoreServer, url: str) -> Path:
    """An empty library, beside one whose 200 files are in the bucket."""
    library, other = tmp_path / "library", tmp_path / "other"
    for each in (library, other):
        each.mkdir()
    for number in range(200):
        (library / f"f{number:05}").write_bytes(b"%d" % number)
    assert run(library, server, lambda each: export(each, ExportOptions()), url).problems == []
    return other


@pytest.mark.parametrize(
    "moment", [*(pytest.param(each, marks=pytest.mark.thorough) for each in (0, 1, 199)), 100, "flushed"]
)
@pytest.mark.parametrize("are_nameless", [True, False])
def test_an_import_that_is_stopped_as_a_file_arrives_ends_and_leaves_nothing(
    tmp_path: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch,
    moment: int | str, are_nameless: bool,
) -> None:  # fmt: skip
    other = beside_an_exported_one(tmp_path, server, url)

    class Stopped(queue.SimpleQueue[Any]):
        """The order to stop comes when one that arrived was taken."""

        taken = 0

        def get(self, *_: object) -> object:
            found = super().get(timeout=60)
            is_flushed = isinstance(found, placing.Flushed)
            if is_flushed if moment == "flushed" else self.taken == moment:
                raise KeyboardInterrupt
            self.taken += 1
            return found

    if not are_nameless:
        monkeypatch.setattr(contents, "NOT_NAMELESS", frozenset({errno.ENOTSUP}))
        refused = OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
        monkeypatch.setattr(S3Store, "fetch_new", Mock(side_effect=refused))
    with monkeypatch.context() as patched:
        patched.setattr(contents, "queue", SimpleNamespace(SimpleQueue=Stopped))
        with pytest.raises(KeyboardInterrupt):
            run(other, server, all_contents, url)
    assert left_open(other) == []
    assert [each.name for each in other.iterdir() if each.name.startswith(".gridwright-part")] == []
    for report in run(other, server, all_contents, url):
        assert report.problems == []
    assert sorted(each.read_bytes() for each in other.glob("f*")) == sorted(b"%d" % n for n in range(200))


@pytest.mark.parametrize("call", ["link", "syncfs"])
def test_a_disk_that_is_full_as_files_get_their_names_is_told_as_full(
    tmp_path: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    other = beside_an_exported_one(tmp_path, server, url)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    with monkeypatch.context() as patched:
        if call == "link":
            patched.setattr(contents, "name_new", full)
        else:
            patched.setattr(placing, "sync_beside_others", full)
        with pytest.raises(GridwrightError, match="the disk is full"):
            run(other, server, all_contents, url)
    assert left_open(other) == []
    assert list(other.glob("f*")) == []


@pytest.mark.parametrize("failure", [OSError(errno.EIO, os.strerror(errno.EIO)), KeyboardInterrupt()])
def test_a_file_whose_replacement_fails_where_no_names_are_exchanged_keeps_its_name(
    tmp_path: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    """As on FUSE and NFS: the old file goes to the trash before the new one gets the name."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "f00000").write_bytes(b"old")
    assert run(library, server, lambda each: export(each, ExportOptions()), url).problems == []
    change_objects(tmp_path, server, url, 1, b"longer and new")
    link = os.link

    def fails(part: bytes, name: bytes, **where: Any) -> None:
        if name == b"f00000" and not failed:
            failed.append(name)
            raise failure
        link(part, name, **where)

    failed: list[bytes] = []
    with monkeypatch.context() as patched:
        patched.setattr(placing, "_NO_REPLACE", 1 << 30)
        patched.setattr(placing, "_EXCHANGE", 1 << 30)
        patched.setattr(os, "link", fails)
        with nullcontext() if isinstance(failure, OSError) else pytest.raises(KeyboardInterrupt):
            run(library, server, all_contents, url)
    assert failed
    assert (library / "f00000").read_bytes() == b"old"
    for report in run(library, server, all_contents, url):
        assert report.problems == []
    assert (library / "f00000").read_bytes() == b"longer and new"


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
def test_an_interrupted_exchange_leaves_one_file_alone(
    tmp_path: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch, is_after: bool
) -> None:
    """What the object has does not stay in the trash, and what the user had does, where it was exchanged."""
    library = tmp_path / "library"
    library.mkdir()
    (library / "f00000").write_bytes(b"old")
    assert run(library, server, lambda each: export(each, ExportOptions()), url).problems == []
    change_objects(tmp_path, server, url, 1, b"longer and new")
    exchange = placing.Placer._exchange

    def stops(*arguments: Any) -> None:
        if is_after:
            exchange(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(placing.Placer, "_exchange", stops)
        run(library, server, all_contents, url)
    trash = [each.read_bytes() for each in library.glob(".gridwright/trash/**/*") if each.is_file()]
    assert trash == ([b"old"] if is_after else [])
    assert (library / "f00000").read_bytes() == (b"longer and new" if is_after else b"old")
    for report in run(library, server, all_contents, url):
        assert report.problems == []
    assert (library / "f00000").read_bytes() == b"longer and new"
