"""Two libraries with one bucket: what users change in one comes to the other, and is told as what it is."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_objects
from gridwright.repository.release import ReleaseOptions, release
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.state_directory import VARIABLE
from gridwright.repository.verify import verify
from tests.support.object_store import BUCKET, StoreServer, store_server
from tests.support.repositories import run


class Library:
    """A library, on one machine."""

    def __init__(self, directory: Path, server: StoreServer, url: str) -> None:
        directory.mkdir(exist_ok=True)
        self.place, self._server, self._url = directory, server, url

    def export(self, *, deletions: bool = False, dry_run: bool = False) -> RepositoryReport:
        options = ExportOptions(deletions=deletions, delete_up_to=1000, dry_run=dry_run)
        return run(self.place, self._server, lambda each: export(each, options), self._url, looks=dry_run)

    def bring(
        self, *, deletions: bool = False, dry_run: bool = False, names: bool = False
    ) -> RepositoryReport:
        options = ImportOptions(deletions=deletions, delete_up_to=1000, dry_run=dry_run, names=names)
        return run(
            self.place, self._server, lambda each: import_objects(each, options), self._url, looks=dry_run
        )

    def release(self, *paths: bytes) -> RepositoryReport:
        return run(self.place, self._server, lambda each: release(each, ReleaseOptions(paths)), self._url)

    def forget_seconds(self) -> None:
        """Have all objects been written earlier than they were, so that a test need not wait."""

        def put_back(opened: OpenRepository) -> None:
            for row in list(opened.known.rows("key IS NOT NULL AND stored_ns > 0")):
                opened.known.put(replace(row, stored_ns=row.stored_ns - 10 * 10**9))

        run(self.place, self._server, put_back, self._url)

    def objects(self) -> set[str]:
        """Keys of files and directories below the prefix."""
        prefix = self._url.removeprefix(f"s3://{BUCKET}/") + "/"
        listed = self._server.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", ())
        keys = {each["Key"].removeprefix(prefix) for each in listed}
        return {each for each in keys if each and not each.startswith(".gridwright/")}

    def is_verified(self) -> bool:
        return run(self.place, self._server, verify, self._url).problems == []


@pytest.fixture
def first(tmp_path: Path, server: StoreServer, url: str) -> Library:
    return Library(tmp_path / "first", server, url)


@pytest.fixture
def second(tmp_path: Path, server: StoreServer, url: str) -> Library:
    return Library(tmp_path / "second", server, url)


def done(report: RepositoryReport) -> dict[str, int]:
    """What was done; nothing was wrong."""
    assert report.problems == [], report.text()
    return {name: each.count for name, each in report.done.items() if each.count}


def wait_a_second() -> None:
    """Objects have times of whole seconds."""
    time.sleep(1.1)


def save(file: Path, content: bytes) -> None:
    """As editors do."""
    part = file.with_name(f"{file.name}.new")
    part.write_bytes(content)
    part.rename(file)


def test_what_is_saved_or_removed_after_an_import_is_the_user_s(first: Library, second: Library) -> None:
    for name in ("saved", "removed", "same"):
        (first.place / name).write_bytes(b"first")
    done(first.export())
    done(second.bring())
    save(second.place / "saved", b"second")
    (second.place / "removed").unlink()
    report = second.export(deletions=True)
    assert (done(report)["sent"], done(report)["deleted from the bucket"]) == (1, 1)
    assert not [each for each in report.all_notes if "released" in each]
    assert first.objects() == {"saved", "same"}
    done(first.bring(deletions=True))
    assert (first.place / "saved").read_bytes() == b"second"


def test_so_it_is_after_exports_of_the_other_library(first: Library, second: Library) -> None:
    """Timers of both run beside each other, and the one that imports has nothing to export for long."""
    for name in ("saved", "removed", "other", "third"):
        (first.place / name).write_bytes(b"first")
    done(first.export())
    done(second.bring())
    (first.place / "other").write_bytes(b"first again")
    done(first.export())
    save(second.place / "saved", b"second")
    (second.place / "removed").unlink()
    assert done(second.export(deletions=True))["deleted from the bucket"] == 1

    (first.place / "new").write_bytes(b"new")
    done(first.bring(deletions=True))
    done(first.export())
    assert done(first.release(b"new")) == {"released": 1}
    done(second.bring())
    save(second.place / "third", b"second")
    assert done(second.export())["sent"] == 1


@pytest.mark.parametrize("is_told_again", [False, True])
def test_what_another_machine_has_released_is_not_removed(
    first: Library, second: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_told_again: bool
) -> None:
    """Whatever the first machine of the library has imported before or since."""
    (first.place / "file").write_bytes(b"first")
    (first.place / "more").write_bytes(b"first")
    done(first.export())
    monkeypatch.setenv(VARIABLE, str(tmp_path / "one"))
    done(second.bring())
    monkeypatch.setenv(VARIABLE, str(tmp_path / "other"))
    done(second.bring())
    done(second.export())
    assert done(second.release(b"file")) == {"released": 1}
    monkeypatch.setenv(VARIABLE, str(tmp_path / "one"))
    if is_told_again:
        done(second.bring(names=True))
    (second.place / "file").unlink(missing_ok=True)
    second.export(deletions=True)
    assert "file" in second.objects()
    save(second.place / "file", b"made anew")
    assert [name for name, _ in second.export().problems] == ["file"]


@pytest.mark.parametrize("brings_first", [False, True])
def test_a_removed_name_of_a_file_with_two_does_not_come_back(
    first: Library, second: Library, brings_first: bool
) -> None:
    (first.place / "a").write_bytes(b"content")
    os.link(first.place / "a", first.place / "b")
    done(first.export())
    done(second.bring())
    assert (second.place / "a").samefile(second.place / "b")
    wait_a_second()
    (first.place / "b").unlink()
    os.utime(first.place / "a")
    assert done(first.export(deletions=True))["deleted from the bucket"] == 1
    if brings_first:
        done(second.bring())
    plan = done(second.bring(deletions=True, dry_run=True))
    assert done(second.bring(deletions=True)) == plan
    assert (plan["removed"], (second.place / "b").exists()) == (1, False)
    assert "sent" not in done(second.export())
    assert second.objects() == {"a"}


@pytest.mark.parametrize("change", ["none", "chmod"])
def test_files_that_became_names_of_one_do_so_in_the_other_library(
    first: Library, second: Library, change: str
) -> None:
    for name in ("a", "b", "c"):
        (first.place / name).write_bytes(b"content")
        os.utime(first.place / name, ns=(10**18, 10**18))
    done(first.export())
    done(second.bring())
    wait_a_second()
    for name in ("b", "c"):
        (first.place / name).unlink()
        os.link(first.place / "a", first.place / name)
    if change == "chmod":
        (first.place / "a").chmod(0o600)
    # What somebody has written to stays a file of its own.
    (second.place / "c").write_bytes(b"of a user")
    done(first.export())
    plan = second.bring(dry_run=True)
    brought = second.bring()
    assert ({**brought.done}, brought.problems) == ({**plan.done}, plan.problems)
    assert brought.done["made another name of a file"].count == 1
    assert (second.place / "a").samefile(second.place / "b")
    assert (second.place / "a").stat().st_mode == (first.place / "a").stat().st_mode
    assert (second.place / "c").read_bytes() == b"of a user"
    assert not {"made", "made another name of a file"} & set(second.bring().done)
    assert second.export().done.keys() <= {"sent", "compared"}


def test_names_of_one_file_that_became_files_are_noted(first: Library, second: Library) -> None:
    (first.place / "a").write_bytes(b"content")
    os.utime(first.place / "a", ns=(10**18, 10**18))
    os.link(first.place / "a", first.place / "b")
    done(first.export())
    done(second.bring())
    wait_a_second()
    shutil.copy2(first.place / "a", first.place / "new")
    (first.place / "new").rename(first.place / "b")
    done(first.export())
    note = "1 file was made apart from another name in another library; here both stay one file"
    for dry_run in (True, False):
        assert any(note in each for each in second.bring(dry_run=dry_run).all_notes)
    assert (second.place / "a").samefile(second.place / "b")
    assert not second.bring().all_notes


@pytest.fixture(scope="module")
def dating(tmp_path_factory: pytest.TempPathFactory, server: StoreServer) -> Iterator[StoreServer]:
    """A store that gives an object that is copied onto itself another date, which versitygw does not.

    Credentials are those of `server`.
    """
    with store_server(tmp_path_factory.mktemp("dating"), "moto") as served:
        yield served


@pytest.mark.root
@pytest.mark.parametrize(
    "change", [*(pytest.param(each, marks=pytest.mark.thorough) for each in ("chmod", "touch")), "both"]
)
def test_new_attributes_of_a_file_with_several_names_are_no_conflict(
    tmp_path: Path, dating: StoreServer, url: str, change: str
) -> None:
    first, second = (Library(tmp_path / name, dating, url) for name in ("first", "second"))
    names = ("a", "b", "sub/c")
    (first.place / "sub").mkdir()
    (first.place / "a").write_bytes(b"content")
    for name in names[1:]:
        os.link(first.place / "a", first.place / name)
    done(first.export())
    done(second.bring())
    before = (second.place / "a").stat().st_ino
    wait_a_second()
    if change != "touch":
        (first.place / "a").chmod(0o600)
    if change != "chmod":
        os.utime(first.place / "a", ns=(0, 10**18 + 7))
    done(first.export())
    plan = done(second.bring(dry_run=True))
    assert done(second.bring()) == plan
    for name in names:
        there, here = (each.place.joinpath(name).stat() for each in (first, second))
        assert (here.st_ino, here.st_mode, here.st_mtime_ns) == (before, there.st_mode, there.st_mtime_ns)
    assert not {"sent", "given new attributes"} & set(done(second.export()))
    assert done(second.bring()) == {}


KILLED_AT = ("os.chown", "os.chmod", "os.utime", "os.rename")
"""Events of Python before which an import is killed (`sys.addaudithook`)."""


_MOST_STEPS = 30


def killed(library: Library, hook: Callable[[str, tuple[object, ...]], None]) -> bool:
    """Import in a child process with an audit hook; whether that killed it."""
    child = os.fork()
    if not child:
        sys.addaudithook(hook)
        try:
            library.bring()
        finally:
            os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL)
    return status != 0


def killed_import(library: Library, at: int) -> bool:
    """Kill an import before so many of its steps; False where it has fewer."""

    def kill(event: str, _arguments: object, left: list[int] = [at]) -> None:  # noqa: B006
        if event in KILLED_AT:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    return killed(library, kill)


def attributes(library: Library) -> dict[str, tuple[int, int, int]]:
    """Modes, owners and times of all files and links."""
    found = {each: (library.place / each).lstat() for each in (path.name for path in library.place.iterdir())}
    return {
        name: (each.st_mode, each.st_uid, each.st_mtime_ns)
        for name, each in found.items()
        if not name.startswith(".")
    }


@pytest.mark.root
@pytest.mark.parametrize("verb", ["import", pytest.param("export", marks=pytest.mark.thorough)])
def test_an_import_that_was_killed_as_it_gave_attributes_leaves_no_conflict(
    tmp_path: Path, dating: StoreServer, url: str, verb: str
) -> None:
    first, second = (Library(tmp_path / name, dating, url) for name in ("first", "second"))
    for place in range(1, _MOST_STEPS):
        (first.place / f"a{place}").write_bytes(b"content")
        os.link(first.place / f"a{place}", first.place / f"b{place}")
    (first.place / "c").write_bytes(b"another content")
    (first.place / "link").symlink_to("a")
    done(first.export())
    done(second.bring())
    done(second.export())
    for kill_at in range(1, _MOST_STEPS):
        second.forget_seconds()
        for name, time_ns in ((f"a{kill_at}", 10**18), ("c", 10**18 + kill_at)):
            (first.place / name).chmod(0o600 if kill_at % 2 else 0o400)
            os.utime(first.place / name, ns=(0, time_ns))
        os.chown(first.place / "c", 1000 + kill_at, 1000)
        os.utime(first.place / "link", ns=(0, 10**18 + kill_at), follow_symlinks=False)
        done(first.export())
        was_killed = killed_import(second, kill_at)
        if verb == "export":
            done(second.export())
        done(second.bring())
        assert attributes(second) == attributes(first), kill_at
        if not was_killed:
            break
    assert not was_killed
    assert kill_at > 5


def _to_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "in").write_bytes(b"in it")


def _to_file(path: Path, content: bytes = b"a file") -> None:
    for each in path.iterdir():
        each.unlink()
    path.rmdir()
    path.write_bytes(content)


def _to_empty_file(path: Path) -> None:
    _to_file(path, b"")


def _to_link(path: Path) -> None:
    _to_file(path)
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.few(2)
@pytest.mark.parametrize("change", [_to_directory, _to_file, _to_empty_file, _to_link])
def test_a_file_that_became_a_directory_and_back_comes_by_one_import(
    first: Library, second: Library, change: Callable[[Path], None]
) -> None:
    one = first.place / "one"
    if change is _to_directory:
        one.write_bytes(b"a file")
    else:
        one.mkdir()
        (one / "in").write_bytes(b"in it")
    (first.place / "more").write_bytes(b"more")
    done(first.export())
    done(second.bring())
    wait_a_second()
    change(one)
    done(first.export(deletions=True))
    plan = done(second.bring(deletions=True, dry_run=True))
    assert done(second.bring(deletions=True)) == plan
    for each in (one, *(one.iterdir() if change is _to_directory else ())):
        here = second.place / each.relative_to(first.place)
        assert stat.S_IFMT(here.lstat().st_mode) == stat.S_IFMT(each.lstat().st_mode)
        if each.is_file():
            assert here.read_bytes() == each.read_bytes()
    assert done(second.bring(deletions=True)) == {}
    assert not {"sent", "deleted from the bucket"} & set(done(second.export(deletions=True)))
    assert second.is_verified()


def test_a_directory_with_files_of_a_user_stays_where_a_file_is_to_come(
    first: Library, second: Library
) -> None:
    (first.place / "one").mkdir()
    (first.place / "more").write_bytes(b"more")
    done(first.export())
    done(second.bring())
    (second.place / "one" / "own").write_bytes(b"own")
    _to_file(first.place / "one")
    done(first.export(deletions=True))
    for dry_run in (True, False):
        assert [name for name, _ in second.bring(deletions=True, dry_run=dry_run).problems] == ["one"]
    assert (second.place / "one" / "own").read_bytes() == b"own"
