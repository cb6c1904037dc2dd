"""What is known of a repository lies where only its user writes, and holds against whatever is in it."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.repository.changelog.journal import ChangeJournal
from gridwright.repository.known import Known
from gridwright.repository.known_file import KnownFile
from gridwright.repository.publishing import library_of
from gridwright.repository.settings import hold_directory
from gridwright.repository.state_directory import ROOT_STATE, VARIABLE, open_state
from gridwright.repository.state_failures import state_failure
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all
from tests.support.examples import examples
from tests.unit.repository.test_upgrade import ROW

root = pytest.mark.root


def place_of(directory: Path) -> Path:
    state = open_state(directory)
    state.close()
    return state.path


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home of alice, with a directory of hers."""
    open_to_all(tmp_path)
    place = tmp_path / "alice"
    (place / "data").mkdir(parents=True)
    for each in (place, place / "data"):
        os.chown(each, ALICE, ALICE)
    return place


def alice(home: Path, act: Callable[[], None], umask: int = 0o022) -> None:
    def as_alice() -> None:
        os.umask(umask)
        os.environ["HOME"] = str(home)
        os.environ.pop("XDG_STATE_HOME", None)
        act()

    as_user(ALICE, as_alice)


@root
def test_the_state_of_root_is_in_no_library(
    tmp_path: Path, unset: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Path("/var/lib/gridwright/repositories") == ROOT_STATE
    monkeypatch.setattr("gridwright.repository.state_directory.ROOT_STATE", tmp_path / "var" / "repositories")
    (tmp_path / "library").mkdir()
    place = place_of(tmp_path / "library")
    assert place.parent == tmp_path / "var" / "repositories"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (place, place.parent, place.parent.parent)] == [
        0o700, 0o700, 0o755,
    ]  # fmt: skip
    assert list((tmp_path / "library").iterdir()) == []
    (tmp_path / "link").symlink_to("library")
    assert place_of(tmp_path / "link") == place
    os.close(hold_directory(tmp_path / "library"))
    assert stat.S_IMODE((place / "lock").stat().st_mode) == 0o600


@root
@pytest.mark.parametrize("umask", [0o022, 0o002])
def test_the_state_of_a_user_is_beside_the_data_where_only_he_writes(
    home: Path, unset: None, umask: int
) -> None:
    data = home / "data"
    alice(home, lambda: known_once(data), umask)
    assert [each.name for each in (data / ".gridwright").iterdir()] == ["known.sqlite"]
    assert stat.S_IMODE((data / ".gridwright").stat().st_mode) == 0o700


def known_once(directory: Path) -> None:
    with contextlib.closing(Known(directory)) as known:
        known.set_fact("exported", "1.0")


@root
@pytest.mark.parametrize("umask", [0o022, 0o002])
@pytest.mark.parametrize("mode", [0o775, 0o777, 0o1777])
def test_the_state_of_a_directory_that_others_write_is_at_home(
    home: Path, tmp_path: Path, unset: None, mode: int, umask: int
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    os.chown(data, ALICE, ALICE)
    data.chmod(mode)
    # Red Hat gives users groups of their own, and what they make is writable for the group.
    home.chmod(0o700)
    alice(home, lambda: known_once(data), umask)
    assert list(data.iterdir()) == []
    (place,) = (home / ".local/state/gridwright/repositories").iterdir()
    assert place.name.startswith("data-")


@root
def test_state_is_never_forgotten_since_modes_or_a_variable_changed(home: Path, unset: None) -> None:
    data = home / "data"
    alice(home, lambda: known_once(data))
    file = data / ".gridwright" / "known.sqlite"

    def refused() -> None:
        with pytest.raises(GridwrightError, match="may change it") as error:
            Known(data)
        assert "chmod go-w" in str(error.value.problems[0].remedy)

    data.chmod(0o775)
    alice(home, refused)
    assert file.exists()
    data.chmod(0o755)
    alice(home, lambda: known_once(data))

    def elsewhere() -> None:
        os.environ[VARIABLE] = str(home / "elsewhere")
        with contextlib.closing(Known(data)) as known:
            assert known.fact("exported") is None
            assert "is not used" in (known.state.note or "")

    alice(home, elsewhere)
    assert file.exists()


@root
@pytest.mark.parametrize("first", ["root", "alice"])
def test_root_and_a_user_call_a_library_by_one_name(home: Path, unset: None, first: str) -> None:
    data = home / "data"

    def tell(who: str) -> None:
        known = Known(data)
        (home / who).write_text(library_of(known))
        known.close()

    (home / "alice").touch()
    os.chown(home / "alice", ALICE, ALICE)
    for who in (first, "alice", "root"):
        if who == "root":
            tell("root")
        else:
            alice(home, lambda: tell("alice"))
    assert (home / "alice").read_text() == (home / "root").read_text()
    shutil.rmtree(place_of(data))


@root
def test_what_root_knew_under_a_name_of_his_own_stays_known(tmp_path: Path, unset: None) -> None:
    """Earlier releases gave root's state `trusted.…` of the directory, which users do not see."""
    library = tmp_path / "library"
    library.mkdir()
    os.setxattr(library, "trusted.gridwright.directory", b"1" * 32)
    known = Known(library)
    before = library_of(known)
    known.put(replace(ROW, path=b"file", libraries=f"{before} {'f' * 32}"))
    known.close()
    os.setxattr(library, "user.gridwright.directory", b"2" * 32)
    known = Known(library)
    now = library_of(known)
    try:
        row = known.get(b"file")
        assert (known.state.note, now == before) == (None, False)
        assert row is not None
        assert row.libraries.split() == [now, "f" * 32]
    finally:
        known.close()


def test_state_at_home_stays_there_when_the_directory_is_closed(home: Path, unset: None) -> None:
    data = home / "data"
    data.chmod(0o775)
    alice(home, lambda: known_once(data))
    data.chmod(0o755)

    def known_still() -> None:
        with contextlib.closing(Known(data)) as known:
            assert known.fact("exported") == "1.0"

    alice(home, known_still)
    assert list(data.iterdir()) == []


@root
def test_a_way_that_others_can_change_leads_to_no_state(home: Path, tmp_path: Path, unset: None) -> None:
    """Mallory could put another directory in the place of the one that holds alice's."""
    shared = tmp_path / "shared"
    (shared / "alice").mkdir(parents=True)
    os.chown(shared / "alice", ALICE, ALICE)
    shared.chmod(0o777)
    alice(home, lambda: known_once(shared / "alice"))
    assert list((shared / "alice").iterdir()) == []
    shared.chmod(0o1777)
    alice(home, lambda: known_once(shared / "alice"))
    assert list((shared / "alice").iterdir()) == [], "it stays in its place"

    def refused() -> None:
        os.environ[VARIABLE] = str(tmp_path / "open" / "state")
        with pytest.raises(GridwrightError, match="cannot be trusted"):
            Known(home / "data")

    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    alice(home, refused)


@root
@pytest.mark.parametrize("name", ["known.sqlite", "lock"])
@pytest.mark.parametrize("form", ["link", "hard link", "pipe", "of mallory", "writable"])
def test_a_file_in_the_state_that_somebody_else_made_is_refused(tmp_path: Path, name: str, form: str) -> None:
    outside = tmp_path / "outside"
    outside.write_text("")
    library = tmp_path / "library"
    library.mkdir()
    file = place_of(library) / name
    if form == "link":
        file.symlink_to(tmp_path / "not")
    elif form == "hard link":
        file.hardlink_to(outside)
    elif form == "pipe":
        os.mkfifo(file)
    else:
        file.write_text("")
        if form == "writable":
            file.chmod(0o666)
        else:
            os.chown(file, MALLORY, MALLORY)
    with pytest.raises(GridwrightError, match="cannot be trusted"):
        if name == "lock":
            hold_directory(library)
        else:
            Known(library)
    assert not (tmp_path / "not").exists()
    assert outside.read_text() == ""


def test_only_one_command_holds_a_directory(tmp_path: Path) -> None:
    held = hold_directory(tmp_path)
    with pytest.raises(GridwrightError, match="another command"):
        hold_directory(tmp_path)
    os.close(held)
    os.close(hold_directory(tmp_path))


VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.text(max_size=9),
    st.binary(max_size=9),
    st.sampled_from([b"../outside", b"a/../../outside", b"/etc/passwd", b".gridwright/x", b"a\0", b"a"]),
    st.sampled_from(["a", 0o104755]),
)  # fmt: skip
COLUMNS = [field.name for field in fields(KnownFile)]
ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys(COLUMNS, VALUES)), max_size=4)
SOUND = {
    "path": b"a", "mode": 0o100644, "uid": 0, "gid": 0, "size": 1, "blocks": 1, "atime_ns": 1, "mtime_ns": 1,
    "ctime_ns": 1, "inode": 7, "links": 1, "key": "prod/a", "etag": "e", "version_id": None, "crc64": None,
    "target": None, "xattrs": None, "link_of": None, "is_name_only": 0, "stored_ns": 0,
    "libraries": "",
}  # fmt: skip
NEARLY = st.lists(
    st.builds(lambda name, value: SOUND | {name: value}, st.sampled_from(COLUMNS), VALUES), max_size=4
)


@contextlib.contextmanager
def damaged_state(statements: list[tuple[str, list[object]]]) -> Iterator[Path]:
    """A directory whose state has these rows."""
    with tempfile.TemporaryDirectory() as place:
        library = Path(place) / "library"
        library.mkdir()
        (library / "a").write_text("a")
        with contextlib.closing(Known(library)) as known, known.transaction():
            for statement, values in statements:
                with contextlib.suppress(sqlite3.IntegrityError):
                    known.database.execute(statement, values)
        yield library
        assert sorted(each.name for each in Path(place).iterdir()) == ["library"]
        assert [each.name for each in library.iterdir()] == ["a"]


@settings(max_examples=examples(100))
@given(st.one_of(ROWS, NEARLY))
def test_rows_of_any_kind_are_read_or_named(rows: list[dict[str, object]]) -> None:
    insert = f"INSERT OR REPLACE INTO files VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608
    statements = [(insert, [row[name] for name in COLUMNS]) for row in rows]
    with damaged_state(statements) as library, contextlib.closing(Known(library)) as known:
        for ask in (
            lambda: list(known.rows()),
            lambda: known.get(b"a"),
            lambda: known.by_key("prod/a"),
            lambda: known.by_inode(7),
            lambda: known.stamps([b"a"]),
            lambda: ChangeJournal(known).rows_of([7]),
            known.count,
            known.has_files,
        ):
            with contextlib.suppress(GridwrightError, sqlite3.Error):
                ask()


@settings(max_examples=examples(100))
@given(
    VALUES, VALUES, VALUES, st.sampled_from(["exported", "scanned", "directory", "manifest", "unfinished"])
)
def test_facts_and_journals_of_any_kind_are_read_or_named(
    path: object, is_tree: object, value: object, fact: str
) -> None:
    statements = [
        ("INSERT OR REPLACE INTO pending VALUES (?, ?)", [path, is_tree]),
        ("INSERT OR REPLACE INTO gone VALUES (?)", [path]),
        ("INSERT OR REPLACE INTO facts VALUES (?, ?)", [fact, value]),
        ("INSERT OR REPLACE INTO sent VALUES (?, ?)", [path, value]),
    ]
    with damaged_state(statements) as library, contextlib.suppress(GridwrightError):  # noqa: SIM117
        with contextlib.closing(Known(library)) as known:
            journal = ChangeJournal(known)
            for ask in (
                journal.trees,
                lambda: list(journal.paths()),
                lambda: journal.scanned_s,
                journal.mdts,
                known.begun,
            ):
                with contextlib.suppress(GridwrightError):
                    ask()
            known.moment("exported")


@settings(max_examples=examples(60))
@given(st.binary(max_size=200), st.integers(0, 40_000))
def test_a_file_that_is_damaged_is_named(noise: bytes, offset: int) -> None:
    with damaged_state([]) as library:
        file = place_of(library) / "known.sqlite"
        with file.open("r+b") as out:
            out.seek(offset)
            out.write(noise)
        with contextlib.suppress(GridwrightError, sqlite3.Error), contextlib.closing(Known(library)) as known:
            list(known.rows())


@pytest.mark.parametrize("name", ["data/file", None])
def test_a_write_without_room_elsewhere_is_not_the_states(tmp_path: Path, name: str | None) -> None:
    """One OST of a Lustre is full, or a quota is, while statvfs tells of room on both file systems."""
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
    (problem,) = state_failure(error, tmp_path / "known.sqlite", beside=[tmp_path / "library"]).problems
    assert problem.where == (name or str(tmp_path / "library"))
    assert "No space left on device; what is known of the repository is as it was before" in problem.what


def test_too_many_open_files_are_no_matter_of_permissions(tmp_path: Path) -> None:
    """SQLite says of both that it is "unable to open database file"."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    file = tmp_path / "known.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as database:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            with pytest.raises(sqlite3.OperationalError) as raised:
                database.execute("CREATE TABLE t (c)")
            (problem,) = state_failure(raised.value, file).problems
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert ("Too many open files" in problem.what, "ulimit -n" in (problem.remedy or "")) == (True, True)
