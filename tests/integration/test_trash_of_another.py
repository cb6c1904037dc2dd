"""Root and the owner of a library both import: the trash is of who made it, and the other is told so once."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gridwright.beneath import open_own
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.state_directory import VARIABLE
from gridwright.repository.trash import Trash, TrashReport, trashed, why_unseen
from gridwright.repository.walking import ReservedUnusable
from tests.integration.test_renamed_trash import Trashed
from tests.integration.test_renamed_trash import trashed as library_with_trash
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all, words_of
from tests.support.command import GRIDWRIGHT, Command, Ended
from tests.support.object_store import BUCKET, StoreServer, prefix_of

__all__ = ["library_with_trash"]
pytestmark = pytest.mark.root


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A library of alice's with some files of hers."""
    open_to_all(tmp_path)
    place = tmp_path / "files"
    place.mkdir()
    for name in ("f1", "f2", "f3"):
        (place / name).touch()
    for each in (place, *place.iterdir()):
        os.chown(each, ALICE, ALICE)
    return place


def takes(library: Path, name: str) -> None:
    root = os.open(library, os.O_RDONLY | os.O_DIRECTORY)
    around, *_ = Trash(root).take(root, name.encode(), name.encode())
    os.close(around)
    os.close(root)


def is_refused(library: Path, owner: str) -> Callable[[], None]:
    def act() -> None:
        report = RepositoryReport("archive", "import")
        root = os.open(library, os.O_RDONLY | os.O_DIRECTORY)
        for name in (b"f2", b"f3"):
            with pytest.raises(ReservedUnusable) as caught:
                Trash(root).take(root, name, name)
            report.refused(name, "removed", caught.value)
        text = " ".join(report.text().split())
        assert text.count(f".gridwright belongs to {owner}, who alone sees what lies in its trash") == 1
        assert f"have {owner} run gridwright repo trash" in text
        assert "rm -r" not in text
        assert any("nothing can go to the trash" in each and "f2, f3" in each for each in report.all_notes)
        told = TrashReport("archive", of_another=why_unseen(root), there=list(trashed(root))).text()
        assert f".gridwright belongs to {owner}" in told
        assert "nothing lies there" not in told
        os.close(root)

    return act


@pytest.mark.parametrize("mode", [0o700, 0o2700])
def test_root_first_then_the_owner_of_the_library(files: Path, mode: int) -> None:
    takes(files, "f1")
    (files / ".gridwright").chmod(mode)
    as_user(ALICE, is_refused(files, "root"))
    takes(files, "f2")


def test_the_owner_of_the_library_first_then_root(files: Path) -> None:
    as_user(ALICE, lambda: takes(files, "f1"))
    is_refused(files, str(ALICE))()
    as_user(ALICE, lambda: takes(files, "f2"))


def test_an_import_of_root_names_the_trash_of_another_once(library_with_trash: Trashed) -> None:
    library = library_with_trash.library
    reserved = library / ".gridwright"
    for each in (reserved, *reserved.rglob("*")):
        os.chown(each, ALICE, ALICE, follow_symlinks=False)
    for name in ("other", "third"):
        library_with_trash.remove_object(f"alice/{name}")
    ended = library_with_trash("import", "--deletions")
    text = " ".join((ended.out + ended.err).split())
    assert ended.status == 1
    assert text.count(f".gridwright belongs to {ALICE}") == 1, text
    assert "come in its place" not in text
    assert (library / "alice/other").exists()


class Alice:
    """Runs `gridwright repo` on a library of hers, as herself and as root."""

    def __init__(self, server: StoreServer, gridwright: Command, url: str, library: Path) -> None:
        self.library, self.home = library, library.parent / "home"
        self._server, self._gridwright, self._url = server, gridwright, url
        open_to_all(library.parent)
        self.home.mkdir()
        for name in ("f1", "f2", "f3"):
            (library / name).write_text(name)
        for each in (self.home, library, *library.iterdir()):
            os.chown(each, ALICE, ALICE)

    def as_root(self, verb: str, *arguments: str) -> str:
        ended = self._gridwright("repo", verb, *self._flags, *arguments)
        assert ended.status == 0, ended.out + ended.err
        return ended.out

    def __call__(self, verb: str, *arguments: str, home: Path | None = None) -> Ended:
        environment = self._server_environment() | {"HOME": str(home or self.home)}
        words = [*words_of(ALICE), GRIDWRIGHT, "repo", verb, *self._flags, *arguments]
        done = subprocess.run(words, env=environment, cwd="/", text=True, capture_output=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return Ended(done.returncode, done.stdout, done.stderr)

    def put_object(self, name: str) -> None:
        prefix = self._url.removeprefix(f"s3://{BUCKET}/")
        self._server.client().put_object(Bucket=BUCKET, Key=f"{prefix}/{name}", Body=b"rows")

    def remove_object(self, name: str) -> None:
        prefix = self._url.removeprefix(f"s3://{BUCKET}/")
        self._server.client().delete_object(Bucket=BUCKET, Key=f"{prefix}/{name}")

    @property
    def state_at_home(self) -> list[str]:
        return [
            each.parent.name for each in self.home.glob(".local/state/gridwright/repositories/*/known.sqlite")
        ]

    @property
    def _flags(self) -> tuple[str, ...]:
        return ("--bucket", self._url, "--directory", str(self.library))

    @staticmethod
    def _server_environment() -> dict[str, str]:
        left = (VARIABLE, "XDG_STATE_HOME", "XDG_CACHE_HOME")
        return {name: value for name, value in os.environ.items() if name not in left}


@pytest.fixture
def alice(server: StoreServer, gridwright: Command, library: Path, request: pytest.FixtureRequest) -> Alice:
    return Alice(server, gridwright, prefix_of(request.node.name), library)


@pytest.mark.thorough
def test_after_the_trash_of_root_the_owner_goes_on_with_state_at_home(alice: Alice) -> None:
    alice.as_root("export")
    alice.remove_object("f1")
    alice.as_root("import", "--deletions")
    alice.as_root("export")
    reserved = alice.library / ".gridwright"
    assert reserved.stat().st_uid == 0

    nowhere = alice("import", home=Path("/proc/1"))
    assert nowhere.status == 3
    assert ".gridwright belongs to root" in nowhere.err
    assert "have root run gridwright repo trash" in " ".join(nowhere.err.split())
    assert alice("import").status == 0
    assert alice("status").status == 0
    (state,) = alice.state_at_home
    (alice.library / "f4").write_text("new")
    os.chown(alice.library / "f4", ALICE, ALICE)
    assert alice("export").status == 0
    alice.remove_object("f3")
    left = alice("import", "--deletions")
    assert (left.status, (alice.library / "f3").exists()) == (1, True)
    assert ".gridwright belongs to root" in left.out

    alice.as_root("trash", "--empty-older-than", "0d")
    assert not reserved.exists(), "who has emptied the trash leaves the place to others"
    assert alice("import", "--deletions").status == 0
    assert alice.state_at_home == [state]
    assert sorted(each.name for each in reserved.iterdir()) == [".gridwright-mark", "trash"]


def test_nobody_is_told_to_remove_the_state_of_the_owner(alice: Alice) -> None:
    assert alice("export").status == 0
    assert (alice.library / ".gridwright/known.sqlite").exists()
    root = os.open(alice.library, os.O_RDONLY | os.O_DIRECTORY)
    why = why_unseen(root) or ""
    os.close(root)
    assert f"run this as {ALICE}" in why
    assert "what 2001 knows of the repository lies there" in why
    assert "rm -r" not in why
    alice.remove_object("f1")
    assert alice("import", "--deletions").status == 0
    assert alice("trash", "--empty-older-than", "0d").status == 0
    assert [each.name for each in (alice.library / ".gridwright").glob("known.sqlite")], "state stays"


@pytest.mark.parametrize(
    ("name", "says"), [("q", "has what is no repository's"), ("known.sqlite", "or, when")]
)
def test_root_has_a_way_out_where_somebody_has_planted_the_trash(files: Path, name: str, says: str) -> None:
    planted = files / ".gridwright"
    planted.mkdir()
    (planted / name).write_text("q")
    for each in (planted, planted / name):
        os.chown(each, MALLORY, MALLORY)
    root = os.open(files, os.O_RDONLY | os.O_DIRECTORY)
    why = why_unseen(root) or ""
    assert f".gridwright belongs to {MALLORY}" in why
    assert says in why
    assert "move it out of the library, as root: nothing of it is lost so" in why
    assert "knows of the repository" not in why
    planted.rename(files.parent / "moved")
    assert why_unseen(root) is None
    os.close(root)
    takes(files, "f1")


def test_what_is_not_ones_own_is_said_with_its_owner_and_mode(files: Path) -> None:
    with pytest.raises(OSError, match=f"directory {files} belongs to {ALICE} and has mode 0755"):
        open_own(files)
    (files / "closed").mkdir(mode=0o700)

    def opens() -> None:
        with pytest.raises(OSError, match=r"directory .*closed belongs to root and has mode 0700"):
            open_own(files / "closed")

    as_user(ALICE, opens)


def test_what_the_system_refuses_has_one_remedy_for_all_files() -> None:
    report = RepositoryReport("archive", "import")
    for name in (b"f1", b"f2"):
        report.refused(name, "written", PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    report.refused(b"f3", "written", OSError(errno.ESTALE, "another file has come in its place"))
    text = report.text()
    assert "f1, f2: cannot be written: Permission denied: run as a user who may, or change" in text
    assert text.count("Permission denied") == 1
    assert "f3: it cannot be written: another file has come in its place" in text
    assert "mount it again" not in text


def test_files_of_another_user_are_named_together_with_who_may_write_them(alice: Alice) -> None:
    closed = alice.library / "others"
    closed.mkdir()
    os.chown(closed, MALLORY, MALLORY)
    for number in range(7):
        alice.put_object(f"others/f{number}")
    ended = alice("import")
    told = [line for line in ended.out.splitlines() if "others" in line]
    assert ended.status == 1
    assert len(told) == 1, ended.out
    assert f"of user {MALLORY}, cannot be written by user {ALICE}: run the command as user" in told[0]
    assert "Permission denied" not in ended.out
    assert "Operation not permitted" not in ended.out


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_directories_of_another_user_that_are_here_stay_as_they_are(alice: Alice, mode: int) -> None:
    library, sub = alice.library, alice.library / "sub"
    sub.mkdir()
    for each in (library, sub):
        os.chown(each, 0, 0)
        each.chmod(mode)
    alice.as_root("export")
    for each in (library, sub):
        os.utime(each, ns=(0, 10**18))
    sub.chmod(0o2755)
    planned, ended = alice("import", "--dry-run"), alice("import")
    note = "2 directories belong to root: owner, mode and times stay, which only root can change: sub, ."
    for told in (planned, ended):
        assert (told.status, note in " ".join(told.out.split())) == (0, True), told.out + told.err
    assert [each.stat().st_mtime_ns for each in (library, sub)] == [10**18] * 2
    again = alice("import")
    assert (again.status, "nothing to do" in again.out) == (0, True), again.out
    assert "given new attributes" not in alice("export", "--dry-run").out, (
        "what was not taken is not sent back"
    )
    if mode & 0o1000:
        alice.put_object("f1")
        replaced = alice("import")
        assert (replaced.status, (library / "f1").read_text()) == (0, "rows"), replaced.out
        assert alice("release", "--name", "x", "f1").status == 0
        assert alice("import").status == 0


def test_owners_that_only_root_gives_are_told_of_once(alice: Alice) -> None:
    (alice.library / "sub").mkdir()
    (alice.library / "sub/file").write_text("rows")
    alice.as_root("export")
    (alice.library / "sub/file").unlink()
    (alice.library / "sub").rmdir()
    ended = alice("import")
    assert (ended.status, (alice.library / "sub/file").read_text()) == (0, "rows"), ended.out
    assert ended.out.count("owners and groups were left") == 1, ended.out
