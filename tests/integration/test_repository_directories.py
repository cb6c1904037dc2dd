"""Directories beside their objects: their times, what reports say of them, and names that are both kinds."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gridwright.beneath import make_private
from gridwright.repository import contents, export, importing, placing
from gridwright.repository.importing import ImportOptions, import_objects
from gridwright.repository.made_directories import MadeDirectories
from gridwright.repository.sending import open_for_sending
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.state_directory import VARIABLE
from tests.integration.test_repository_known import Library, killed
from tests.support.as_user import ALICE, exchange, open_to_all
from tests.support.command import Command
from tests.support.disks import unmount
from tests.support.object_store import StoreServer, store_in_environment
from tests.support.repositories import run

DAY_NS = 86_400 * 10**9
LATER_NS = 4_000_000_000 * 10**9


KINDS = ("versitygw", "moto")


@pytest.fixture(scope="module", params=[KINDS[0], pytest.param(KINDS[1], marks=pytest.mark.thorough)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with store_in_environment(tmp_path_factory.mktemp("store") / "made", request.param) as served:
        yield served


@pytest.fixture
def one(tmp_path: Path, server: StoreServer, url: str) -> Library:
    return Library(tmp_path / "one", server, url)


@pytest.fixture
def other(tmp_path: Path, server: StoreServer, url: str) -> Library:
    return Library(tmp_path / "other", server, url)


def dated(path: Path, time_ns: int) -> None:
    os.utime(path, ns=(time_ns, time_ns))


def time_of(library: Library, name: str) -> int:
    return (library.place / name).stat().st_mtime_ns


def names_of(report: RepositoryReport) -> list[str]:
    return sorted(name for name, _ in report.problems)


def share(one: Library, other: Library, *names: str) -> None:
    """Two libraries that have the same files, in directories of 1970-01-02."""
    for name in names:
        (one.place / name).parent.mkdir(parents=True, exist_ok=True)
        (one.place / name).write_text(name)
    for name in names:
        dated((one.place / name).parent, DAY_NS)
    assert one.export().problems == other.bring().problems == other.export().problems == []


@pytest.mark.few(1)
@pytest.mark.parametrize("way", ["all", "a name", "another one"])
def test_what_an_import_removes_is_no_change_of_its_directory(
    one: Library, other: Library, server: StoreServer, url: str, way: str
) -> None:
    share(one, other, "d/x", "d/sub/x", "e/x")
    (one.place / "d/x").unlink()
    shutil.rmtree(one.place / "d/sub")
    for name in ("d", "e"):
        dated(one.place / name, 2 * DAY_NS)
    one.export(deletions=True)
    if way == "another one":
        other.bring()
    paths = [b"d/x"] if way == "a name" else []
    options = ImportOptions(paths, deletions=True)
    assert run(other.place, server, lambda each: import_objects(each, options), url).problems == []
    assert not (other.place / "d/x").exists()
    assert time_of(other, "d") == (1 if way == "a name" else 2) * DAY_NS
    other.export()
    one.bring()
    assert time_of(one, "d") == time_of(one, "e") == 2 * DAY_NS


def test_what_a_user_does_during_an_import_keeps_its_time(one: Library, other: Library) -> None:
    share(one, other, *(f"d/{number}" for number in range(40)))
    for number in range(40):
        (one.place / f"d/{number}").write_text("edited")
    one.export()
    left, seen = [20], []

    def make(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.chmod" and left[0] > 0:
            left[0] -= 1
            if not left[0]:
                (other.place / "d/mine").write_text("mine")
                seen.append(time_of(other, "d"))

    sys.addaudithook(make)
    assert other.bring().problems == []
    left[0] = -1
    assert (other.place / "d/39").read_text() == "edited"
    assert [time_of(other, "d")] == seen
    assert seen[0] > DAY_NS


@pytest.mark.root
def test_what_a_file_system_keeps_of_an_open_name_gives_its_directory_no_time(
    one: Library, tmp_path: Path, server: StoreServer, url: str
) -> None:
    """bindfs has no rename that replaces nothing, and removes an open name when it is closed, as NFS does."""
    below, above = tmp_path / "below", tmp_path / "above"
    below.mkdir()
    above.mkdir()
    subprocess.run(["bindfs", str(below), str(above)], check=True, timeout=20)
    try:
        other = Library(above, server, url)
        share(one, other, "d/x")
        for number in range(40):
            (one.place / f"d/{number}").write_text("new")
        (one.place / "d/link").symlink_to("x")
        dated(one.place / "d", DAY_NS)
        assert one.export().problems == other.bring().problems == []
        assert sorted(each.name for each in (below / "d").iterdir()) == sorted(
            each.name for each in (one.place / "d").iterdir()
        )
        assert time_of(other, "d") == DAY_NS
        (one.place / "d/x").write_text("edited")
        (one.place / "d/link").unlink()
        (one.place / "d/link").symlink_to("1")
        dated(one.place / "d", DAY_NS)
        assert one.export().problems == other.bring().problems == []
        assert time_of(other, "d") == DAY_NS
        assert (other.place / "d/link").readlink() == Path("1")
    finally:
        unmount(above)


def test_an_import_leaves_times_that_are_still_to_be_sent(one: Library, other: Library) -> None:
    share(one, other, "made/x", "touched/x", "both/x", "later/x")
    for name in ("made", "touched"):
        (one.place / name / "x").write_text("edited")  # versitygw gives the directory another date then.
    for name, time_ns in (("both", 3 * DAY_NS), ("later", LATER_NS)):
        dated(one.place / name, time_ns)
    assert one.export().problems == []
    (other.place / "made/mine").write_text("mine")
    for name, time_ns in (("touched", 2 * DAY_NS), ("both", 4 * DAY_NS), ("later", 4 * DAY_NS)):
        dated(other.place / name, time_ns)
    wanted = {
        "made": time_of(other, "made"),
        "touched": 2 * DAY_NS,
        "both": 4 * DAY_NS,
        "later": LATER_NS,
    }
    for verb in (other.bring, other.export, one.bring, one.export, other.bring):
        assert verb().problems == []
    for library in (one, other):
        assert {name: time_of(library, name) for name in wanted} == wanted


def test_an_export_leaves_a_later_time_in_the_bucket(one: Library, other: Library) -> None:
    share(one, other, "both/x", "later/x")
    for name, time_ns in (("both", 3 * DAY_NS), ("later", LATER_NS)):
        dated(one.place / name, time_ns)
        dated(other.place / name, 4 * DAY_NS)
    for verb in (one.export, other.export, other.bring, other.export, one.bring):
        assert verb().problems == []
    for library in (one, other):
        assert (time_of(library, "both"), time_of(library, "later")) == (4 * DAY_NS, LATER_NS)


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_an_export_after_a_killed_import_sends_no_times_of_it(
    one: Library, other: Library, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    (one.place / "d").mkdir()
    (one.place / "d/x").write_text("x")
    (one.place / "d").chmod(mode)
    dated(one.place / "d", DAY_NS)
    one.export()
    with monkeypatch.context() as patch:
        patch.setattr("gridwright.repository.importing._Import._dress_directories", _killed)
        with pytest.raises(KeyboardInterrupt):
            other.bring()
    assert "d" in names_of(other.export())
    one.bring()
    assert time_of(one, "d") == DAY_NS
    assert other.bring().problems == []
    assert time_of(other, "d") == DAY_NS
    assert other.export().problems == []


def _killed(*_arguments: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.few(1)
@pytest.mark.root
@pytest.mark.parametrize("is_exchanged", [True, False], ids=["local", "as on NFS"])
def test_no_interrupt_leaves_a_directory_that_others_cannot_enter(
    one: Library,
    tmp_path: Path,
    server: StoreServer,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    is_exchanged: bool,
) -> None:
    """At each line that makes a directory: it has its mark or no name, and the next import makes it whole."""
    (one.place / "d").mkdir(mode=0o775)
    (one.place / "d").chmod(0o775)
    (one.place / "d/x").write_text("x")
    one.export()
    if not is_exchanged:
        monkeypatch.setattr(placing, "_NO_REPLACE", 1 << 30)
    for line in itertools.count():
        library = Library(tmp_path / f"other{line}", server, url)
        with _interrupted_at(line) as reached, suppress(KeyboardInterrupt):
            library.bring()
        found = list(library.place.glob("[!.]*"))
        assert [stat.S_IMODE(each.stat().st_mode) for each in found] in ([], [0o755], [0o775])
        assert library.bring().problems == []
        assert stat.S_IMODE((library.place / "d").stat().st_mode) == 0o775
        assert {each.name for each in library.place.iterdir()} <= {"d", ".gridwright"}
        if not reached:
            break
    assert line > 10


@contextmanager
def _interrupted_at(number: int) -> Iterator[list[int]]:
    """Interrupt at a line of what makes directories, counted from the first; whether it was reached."""
    making = {
        each.__code__
        for each in (
            MadeDirectories._make,
            MadeDirectories._make_as,
            MadeDirectories._set_mark,
            make_private,
        )
    }
    lines = itertools.count()
    reached: list[int] = []

    def trace(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line" and frame.f_code in making and next(lines) == number:
            reached.append(number)
            raise KeyboardInterrupt
        return trace if frame.f_code in making or event != "call" else None

    sys.settrace(trace)
    try:
        yield reached
    finally:
        sys.settrace(None)


def _killed_within_a_step(library: Library, name: str) -> None:
    """Kill an import that has just changed a directory, before that has its time again."""
    directory = (library.place / name).stat()

    def kill(event: str, arguments: tuple[object, ...]) -> None:
        each = arguments[0] if event == "os.utime" else None
        if isinstance(each, int) and os.path.samestat(os.fstat(each), directory):
            os.kill(os.getpid(), signal.SIGKILL)

    assert killed(library, kill)


@pytest.mark.few(1)
@pytest.mark.parametrize("way", ["export", "import", "user"])
def test_a_directory_gets_its_time_back_in_which_an_import_was_killed(
    one: Library, other: Library, way: str
) -> None:
    share(one, other, "d/x")
    (one.place / "d/x").write_text("edited")
    one.export()
    _killed_within_a_step(other, "d")
    assert time_of(other, "d") > DAY_NS
    if way == "user":
        dated(other.place / "d", LATER_NS)
    assert (other.bring if way == "import" else other.export)().problems == []
    wanted = LATER_NS if way == "user" else DAY_NS
    assert time_of(other, "d") == wanted
    one.bring()
    assert time_of(one, "d") == wanted


@pytest.mark.few(2)
@pytest.mark.parametrize("server", KINDS, indirect=True)  # moto keeps objects of both names, a tree does not
@pytest.mark.parametrize("dry_run", [False, True], ids=["run", "plan"])
def test_no_name_becomes_a_file_and_a_directory_in_the_bucket(
    one: Library, other: Library, dry_run: bool
) -> None:
    share(one, other, "d/f9", "d/sub/x", "d/same")
    (one.place / "d/f9").unlink()
    (one.place / "d/f9").mkdir()
    (one.place / "d/f9/in").write_text("in")
    shutil.rmtree(one.place / "d/sub")
    (one.place / "d/sub").write_text("sub")
    assert one.export(deletions=True).problems == []
    (other.place / "d/f9").write_text("edited")
    (other.place / "d/sub/mine").write_text("mine")
    (other.place / "d/new").write_text("new")
    objects = one.objects()
    found = other.export(deletions=True, dry_run=dry_run)
    both = {name for name, text in found.problems if "both stay" in text}
    assert {"d/f9", "d/sub/mine"} <= both <= {"d/f9", "d/sub", "d/sub/mine"}
    assert set(names_of(found)) - both == {"d/sub/x"}  # Its object is gone.
    assert other.objects() == (objects if dry_run else objects | {"d/new"})


def test_what_both_sides_did_to_a_directory_is_named_so(one: Library, other: Library) -> None:
    share(one, other, "c/x")
    (one.place / "c").chmod(0o750)
    one.export()
    (other.place / "c").chmod(0o711)
    for report in (other.export(), other.bring()):
        assert names_of(report) == ["c"]
        assert report.problems[0][1].startswith("both the file and its object were changed")


@pytest.mark.parametrize("dry_run", [True, False], ids=["plan", "run"])
def test_an_import_counts_directories_that_get_attributes(
    one: Library, other: Library, dry_run: bool
) -> None:
    share(one, other, "s/x", "tagged/x", "same/x")
    (one.place / "s").chmod(0o700)
    os.setxattr(one.place / "tagged", "user.owner", b"somebody")
    assert one.export().done["given new attributes"].words() == "2 directories"
    assert other.bring(dry_run=dry_run).done["given new attributes"].words() == "2 directories"
    assert (other.place / "s").stat().st_mode & 0o777 == (0o755 if dry_run else 0o700)


@pytest.mark.parametrize("dry_run", [True, False], ids=["plan", "run"])
def test_a_name_that_goes_leaves_the_other_one_alone(one: Library, other: Library, dry_run: bool) -> None:
    one.place.mkdir(exist_ok=True)
    (one.place / "a").write_text("1")
    os.link(one.place / "a", one.place / "e")
    one.export()
    other.bring()
    (other.place / "a").unlink()
    other.export(deletions=True)
    assert one.bring(deletions=True, dry_run=dry_run).all_notes == []


def private(one: Library, *names: str) -> None:
    """Private directories of alice, each with a secret, in one where everybody may write."""
    for name in names:
        (one.place / name).mkdir(parents=True, mode=0o700)
        (one.place / name / "secret").write_text(name)
        os.chown(one.place / name, ALICE, ALICE)
    (one.place / "common").chmod(0o777)
    assert one.export().problems == []


@pytest.mark.root
@pytest.mark.parametrize("back", ["before contents", "as contents come"])
def test_nothing_comes_into_a_directory_that_did_not_get_its_owner(
    one: Library, other: Library, monkeypatch: pytest.MonkeyPatch, back: str
) -> None:
    """Who may rename it takes it away while directories get their attributes, and brings it back."""
    private(one, "common/a", "common/b")
    there, away = other.place / "common/b", other.place / "common/x"
    dress = importing._Import._dress_directories

    def dresses(made: Any) -> None:
        there.rename(away)
        dress(made)
        if back == "before contents":
            away.rename(there)

    def fetches(self: Any, *arguments: Any) -> Any:
        with suppress(OSError):
            away.rename(there)
        return fetch(self, *arguments)

    fetch = contents._Contents._fetch
    with monkeypatch.context() as patched:
        patched.setattr(importing._Import, "_dress_directories", dresses)
        patched.setattr(contents._Contents, "_fetch", fetches)
        told = names_of(other.bring())
    assert "common/b/secret" in told
    assert (other.place / "common/a/secret").read_text() == "common/a"
    assert not (there / "secret").exists()
    assert other.bring().problems == []
    assert (there.stat().st_uid, stat.S_IMODE(there.stat().st_mode)) == (ALICE, 0o700)
    assert (there / "secret").read_text() == "common/b"


@pytest.mark.root
def test_nothing_private_comes_into_a_public_directory_of_the_same_user(one: Library, other: Library) -> None:
    """Somebody who may rename both has exchanged them."""
    private(one, "common/a", "common/b")
    (one.place / "common/a").chmod(0o755)
    assert one.export().problems == other.bring().problems == []
    (one.place / "common/b/new").write_text("secret, too")
    assert one.export().problems == []
    a, b = other.place / "common/a", other.place / "common/b"
    exchange(os.fsencode(a), os.fsencode(b))
    told = dict(other.bring().problems)
    assert list(told) == ["common/b/new"]
    assert "another directory, of mode 0755, is in the place of one of 0700" in told["common/b/new"]
    exchange(os.fsencode(a), os.fsencode(b))
    assert other.bring().problems == []
    assert (b / "new").read_text() == "secret, too"


KILLED = """
import os, signal
from gridwright.repository.contents import _Contents
fetch = _Contents._fetch
def kills(self, row, *more):
    if row.path.startswith(b"closed/"):
        os.kill(os.getpid(), signal.SIGKILL)
    fetch(self, row, *more)
_Contents._fetch = kills
from gridwright.cli.start import run
run()
"""
"""As the first content is to come into them, after all directories got their modes."""


@pytest.mark.few(1)
@pytest.mark.root
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_user_brings_back_what_lies_in_his_directories_that_nobody_may_write_to(
    one: Library,
    other: Library,
    url: str,
    tmp_path: Path,
    gridwright: Command,
    monkeypatch: pytest.MonkeyPatch,
    is_killed: bool,
) -> None:
    open_to_all(tmp_path)
    (tmp_path / "state").mkdir()
    os.chown(tmp_path / "state", ALICE, ALICE)
    for place in ("closed", "closed/within"):
        (one.place / place).mkdir()
        (one.place / place / "file").write_text(place)
        for number in range(5):
            (one.place / place / f"file{number}").write_text(f"{place} {number}")
        (one.place / place / "empty").touch()
        (one.place / place / "link").symlink_to("file")
    os.link(one.place / "closed/file", one.place / "name")
    for place in ("closed/within", "closed"):
        for each in (one.place / place, one.place / place / "file"):
            os.setxattr(each, "user.project", b"sales")
            each.chmod(0o555)
    subprocess.run(["chown", "-hR", f"{ALICE}:{ALICE}", one.place, other.place], check=True)
    assert one.export().problems == []
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    flags = ("repo", "import", "--contents", "--bucket", url, "--directory", other.place)
    user = ("setpriv", f"--reuid={ALICE}", f"--regid={ALICE}", "--clear-groups")
    if is_killed:
        words = [*user, sys.executable, "-c", KILLED, *map(str, flags)]
        assert subprocess.run(words, check=False, timeout=60).returncode == -signal.SIGKILL
        modes = {stat.S_IMODE((other.place / each).stat().st_mode) for each in ("closed", "closed/within")}
        assert 0o755 in modes
    assert gridwright(*flags, prefix=user).status == 0
    for place in ("closed", "closed/within"):
        assert (other.place / place / "file").read_text() == place
        assert (other.place / place / "file4").read_text() == f"{place} 4"
        for each in (other.place / place, other.place / place / "file"):
            assert os.listxattr(each) == ["user.project"]
        assert stat.S_IMODE((other.place / place).stat().st_mode) == 0o555
    (one.place / "closed/new").write_text("new")
    monkeypatch.delenv(VARIABLE)
    assert one.export().problems == []
    monkeypatch.setenv(VARIABLE, str(tmp_path / "state"))
    assert gridwright(*flags, prefix=user).status == 0
    assert (other.place / "closed/new").read_text() == "new"
    assert stat.S_IMODE((other.place / "closed").stat().st_mode) == 0o555


@pytest.mark.root
def test_a_pipe_that_comes_in_the_place_of_a_file_stops_no_export(
    one: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (one.place / name).write_text(name)
    opens = open_for_sending

    def exchanges(opened: Any, path: bytes, key: str) -> Any:
        if path == b"b":
            (one.place / "b").unlink()
            os.mkfifo(one.place / "b")
        return opens(opened, path, key)

    monkeypatch.setattr(export, "open_for_sending", exchanges)
    report = one.export()
    assert names_of(report) in (["b"], [])
    assert {"a", "c"} <= one.objects()


@pytest.mark.root
def test_a_directory_of_a_user_is_replaced_by_none_where_no_rename_holds_that(
    one: Library, other: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on FUSE and NFS: he makes it between the steps of an import that makes the same one."""
    private(one, "common/a")
    monkeypatch.setattr(placing, "_NO_REPLACE", 1 << 30)
    set_mark = MadeDirectories._set_mark

    def sets(self: MadeDirectories, made: int, path: bytes) -> None:
        if path == b"common/a" and not users:
            place = other.place / "common/a"
            place.mkdir(mode=0o700)
            os.chown(place, ALICE, ALICE)
            users.append(place.stat().st_ino)
        set_mark(self, made, path)

    users: list[int] = []
    monkeypatch.setattr(MadeDirectories, "_set_mark", sets)
    other.bring()
    assert [(other.place / "common/a").stat().st_ino] == users
