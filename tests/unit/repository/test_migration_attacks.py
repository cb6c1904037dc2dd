"""Repeated passes over trees in use: a user who exchanges names meanwhile gets nothing that is another's."""

from __future__ import annotations

import mmap
import os
import shutil
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.repository.below import PART
from gridwright.repository.migration.journal import MigrationJournal, begun
from gridwright.repository.migration.migrate import MigrationOptions
from gridwright.repository.migration.session import MigrationPlaces, migrate
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.state_directory import VARIABLE
from gridwright.trusted import why_untrusted
from tests.support.as_user import ALICE, MALLORY, as_user, exchange, open_to_all, racing

PASSES = 12
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="other users' ids take root")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory that all may pass through, with a source, a library and a shell of root's."""
    open_to_all(tmp_path)
    for name in ("old", "new"):
        (tmp_path / name).mkdir(mode=0o755)
    shutil.copy("/bin/sh", tmp_path / "shell")
    (tmp_path / "shell").chmod(0o755)
    (tmp_path / "secret").write_text("root's alone")
    (tmp_path / "secret").chmod(0o600)
    return tmp_path


def moved(place: Path, **options: int) -> RepositoryReport:
    return migrate(MigrationPlaces("data", place / "old", place / "new"), MigrationOptions(**options))  # type: ignore[arg-type]


def made(path: Path, uid: int, mode: int) -> Path:
    """A directory of a user."""
    path.mkdir(parents=True)
    given(path, uid, mode)
    return path


def given(path: Path, uid: int, mode: int) -> None:
    os.chown(path, uid, uid)
    path.chmod(mode)


def privileges(root: Path) -> list[tuple[str, int, int]]:
    """Names beneath a directory that run as their owner: name, owner, mode."""
    found = [(str(each), each.lstat()) for each in root.rglob("*")]
    return [
        (name, has.st_uid, has.st_mode)
        for name, has in found
        if stat.S_ISREG(has.st_mode) and has.st_mode & 0o6000
    ]


def test_a_directory_that_becomes_a_link_gives_no_root_shell(place: Path) -> None:
    made(place / "old" / "m", MALLORY, 0o755)
    names = [str(number) for number in range(20)]
    for name in names:
        made(place / "old" / "m" / name, MALLORY, 0o4777)
    moved(place)
    home = place / "new" / "m"
    before = (place / "shell").stat().st_ctime_ns

    def mallory() -> None:
        for name in names:
            try:
                exchange(bytes(home / name), bytes(home / f"x{name}"))
            except FileNotFoundError:
                with suppress(FileExistsError):
                    (home / f"x{name}").symlink_to(place / "shell")
                with suppress(FileExistsError):
                    (home / name).mkdir()

    with racing(MALLORY, mallory):
        for number in range(2 * PASSES):
            for name in names:
                # Somebody works at the source.
                os.utime(place / "old" / "m" / name, (number, number))
            moved(place)
    assert (place / "shell").stat().st_ctime_ns == before


@pytest.mark.parametrize("driver", ["pipe", "device", "link"])
def test_a_pipe_a_device_or_a_link_is_not_exchanged_before_it_is_dressed(place: Path, driver: str) -> None:
    home = made(place / "old" / "m", MALLORY, 0o777)
    made(place / "bait", MALLORY, 0o700)
    moved(place)
    before = (place / "shell").stat().st_ctime_ns
    inside, bait, target = place / "new" / "m", place / "bait" / "x", place / "shell"
    as_user(MALLORY, (inside / "evil").mkdir)
    shutil.copy(target, bait)
    os.chown(bait, MALLORY, MALLORY)

    def mallory() -> None:
        for name in os.listdir(inside):  # noqa: PTH208 - it is in a hurry
            if not name.startswith(os.fsdecode(PART)):
                continue
            with suppress(OSError):
                bait.rename(inside / name)
                # A program of his, that is to become root's; or a link to one.
                shutil.copy(target, bait) if driver == "link" else bait.symlink_to(target)
            exchange(bytes(inside / name), bytes(inside / "evil"))

    with racing(MALLORY, mallory):
        for number in range(PASSES):
            for each in range(100):
                name = home / f"{driver}-{each}"
                name.unlink(missing_ok=True)
                if driver == "link":
                    name.symlink_to(f"x{number}")
                    continue
                os.mknod(name, 0o600 | (stat.S_IFIFO if driver == "pipe" else stat.S_IFCHR), os.makedev(1, 3))
                given(name, MALLORY, 0o4777)
            moved(place)
    assert (place / "shell").stat().st_ctime_ns == before
    assert privileges(place / "new") == []
    assert [each for each in inside.iterdir() if each.is_file() and each.lstat().st_uid != MALLORY] == []


def test_what_another_user_has_open_gets_no_owner_and_no_set_user_id_bit(place: Path) -> None:
    program = b"#!/bin/sh\nexec true\n".ljust(4096, b"\n")
    shared = made(place / "old" / "shared", ALICE, 0o777)
    (shared / "tool").write_bytes(program)
    given(shared / "tool", ALICE, 0o4755)
    made(place / "new" / "shared", ALICE, 0o777)
    theirs = place / "new" / "shared" / "tool"
    as_user(MALLORY, lambda: theirs.write_bytes(program) and None)
    with theirs.open("r+b") as file, mmap.mmap(file.fileno(), 4096) as memory:
        report = moved(place)
        memory[:18] = b"#!/bin/sh\nexec id\n"
        memory.flush()
    status = theirs.stat()
    assert (status.st_uid, status.st_mode & 0o7777) == (MALLORY, 0o644)
    assert [name for name, _ in report.problems] == ["shared/tool"]


def test_what_the_source_gave_to_somebody_else_is_made_anew(place: Path) -> None:
    shared = made(place / "old" / "shared", ALICE, 0o777)
    (shared / "tool").write_bytes(b"#!/bin/sh\n")
    given(shared / "tool", MALLORY, 0o755)
    moved(place)
    copy = place / "new" / "shared" / "tool"
    with copy.open("r+b"):
        given(shared / "tool", ALICE, 0o4755)
        ((name, why),) = moved(place).problems
        assert (name, "open for writing" in why) == ("shared/tool", True)
        assert copy.stat().st_uid == MALLORY
    assert moved(place).is_complete
    status = copy.stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (ALICE, 0o4755)
    assert copy.read_bytes() == b"#!/bin/sh\n"


def test_exchanged_directories_keep_their_owners(place: Path) -> None:
    for root in ("old", "new"):
        shared = made(place / root / "shared", 0, 0o777)
        made(shared / "alice", ALICE, 0o700)
        made(shared / "mallory", MALLORY, 0o777)
    new = place / "new" / "shared"
    (new / "alice" / "private").write_text("")
    as_user(MALLORY, lambda: exchange(bytes(new / "alice"), bytes(new / "mallory")))
    report = moved(place)
    assert {name for name, _ in report.problems} == {"shared/alice", "shared/mallory"}
    assert (new / "mallory").stat().st_uid == ALICE
    assert stat.S_IMODE((new / "mallory").stat().st_mode) == 0o700


def test_files_do_not_come_into_a_directory_that_was_exchanged_meanwhile(place: Path) -> None:
    for root in ("old", "new"):
        shared = made(place / root / "shared", 0, 0o777)
        made(shared / "alice", ALICE, 0o700)
        made(shared / "mallory", MALLORY, 0o777)
    moved(place)
    new = place / "new" / "shared"
    theirs = os.open(new / "mallory", os.O_RDONLY)
    with racing(MALLORY, lambda: exchange(bytes(new / "alice"), bytes(new / "mallory"))):
        for number in range(2 * PASSES):
            for each in range(20):
                (place / "old" / "shared" / "alice" / f"secret-{number}-{each}").write_text("alice's")
            moved(place)
    assert [name for name in os.listdir(theirs) if not name.startswith(os.fsdecode(PART))] == []  # noqa: PTH208
    os.close(theirs)


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_files_do_not_come_into_a_directory_that_somebody_made_beforehand(place: Path, mode: int) -> None:
    made(made(place / "old" / "shared", 0, mode) / "alice", ALICE, 0o700)
    (place / "old" / "shared" / "alice" / "secret").write_text("alice's")
    made(made(place / "new" / "shared", 0, mode) / "alice", MALLORY, 0o755)
    report = moved(place)
    assert [name for name, _ in report.problems] == ["shared/alice"]
    assert list((place / "new" / "shared" / "alice").iterdir()) == []
    assert (place / "new" / "shared" / "alice").stat().st_uid == MALLORY


def test_a_program_of_another_user_does_not_run_as_whoever_copies_it(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(place / "state", ALICE, 0o700)
    monkeypatch.setenv(VARIABLE, str(place / "state"))
    (place / "old" / "tool").write_text("#!/bin/sh\n")
    given(place / "old" / "tool", MALLORY, 0o6755)
    os.chown(place / "new", ALICE, ALICE)
    as_user(ALICE, lambda: moved(place) and None)
    status = (place / "new" / "tool").stat()
    assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (ALICE, 0o755)


def test_a_link_at_the_source_leads_to_no_secret(place: Path) -> None:
    home = made(place / "old" / "m", MALLORY, 0o755)
    (home / "file").write_text("mallory's")
    (home / "sub").mkdir()
    (home / "sub" / "secret").write_text("")
    (home / "x").symlink_to(place / "secret")
    (home / "y").symlink_to(place)
    for each in home.rglob("*"):
        os.chown(each, MALLORY, MALLORY, follow_symlinks=False)
    inside = os.fsencode(home)

    def mallory() -> None:
        exchange(inside + b"/file", inside + b"/x")
        exchange(inside + b"/sub", inside + b"/y")

    with racing(MALLORY, mallory):
        for _ in range(PASSES):
            moved(place)
    copies = [each for each in (place / "new" / "m").rglob("*") if each.is_file() and not each.is_symlink()]
    assert not [each for each in copies if each.read_text() == "root's alone"]


@pytest.mark.parametrize("what", ["directory", "journal"])
def test_a_journal_that_somebody_else_wrote_is_not_believed(place: Path, what: str) -> None:
    """Rows say what is to be removed, and a link there is no file of root's to be made."""
    (place / "new" / "stays").write_text("of others")
    here = (place / "new" / "stays").stat()
    state = place / "new" / ".gridwright"
    forged = MigrationJournal(place / "new", lambda: None)
    row = begun(b"stays", here, None)
    row.inode, row.size, row.mtime_ns = here.st_ino, here.st_size, here.st_mtime_ns
    forged.end(row)
    forged.flush()
    forged.close()
    state.mkdir(mode=0o700, exist_ok=True)
    if what == "directory":
        forged.file.rename(state / "migration.sqlite")
        os.chown(state, MALLORY, MALLORY)
    else:
        forged.file.unlink()
        (state / "migration.sqlite").symlink_to(place / "nologin")
    report = moved(place, cut_over=True)
    assert not (place / "nologin").exists()
    assert (place / "new" / "stays").exists()
    # A directory of hers is hers to use, and nobody's business.
    assert any("not to be believed" in note for note in report.notes) == (what == "journal")


def test_a_journal_in_the_place_of_state_is_no_link(place: Path) -> None:
    journal = MigrationJournal(place / "new", lambda: None)
    journal.close()
    journal.file.unlink()
    journal.file.symlink_to(place / "nologin")
    with pytest.raises(GridwrightError, match="cannot be trusted"):
        moved(place)
    assert not (place / "nologin").exists()


def test_what_an_older_release_wrote_in_a_library_of_roots_alone_goes_on(place: Path) -> None:
    (place / "old" / "file").write_text("")
    moved(place)
    journal = MigrationJournal(place / "new", lambda: None)
    journal.close()
    (place / "new" / ".gridwright").mkdir(mode=0o700)
    journal.file.rename(place / "new" / ".gridwright" / "migration.sqlite")
    (place / "old" / "file").unlink()
    trusted = why_untrusted(place.parent.stat(), is_shared=True) is None
    moved(place, cut_over=True, delete_up_to=1)
    assert (place / "new" / "file").exists() != trusted
