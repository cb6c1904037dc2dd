"""Root and the owner of a library both import: the trash is of who made it, and the other is told so once."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gridwright.beneath import open_own
from gridwright.repository.reserved import ReservedOfAnother, why_of_another
from gridwright.repository.settings import RepositoryReport
from gridwright.repository.trash import Trash, TrashReport, trashed
from tests.integration.test_renamed_trash import Trashed, server
from tests.integration.test_renamed_trash import trashed as library_with_trash
from tests.support.as_user import ALICE, as_user, open_to_all

__all__ = ["library_with_trash", "server"]
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
    around, _ = Trash(root).take(root, name.encode(), name.encode())
    os.close(around)
    os.close(root)


def is_refused(library: Path, owner: str) -> Callable[[], None]:
    def act() -> None:
        report = RepositoryReport("archive", "import")
        root = os.open(library, os.O_RDONLY | os.O_DIRECTORY)
        for name in (b"f2", b"f3"):
            with pytest.raises(ReservedOfAnother) as caught:
                Trash(root).take(root, name, name)
            report.refused(name, "removed", caught.value)
        text = " ".join(report.text().split())
        assert text.count(f".gridwright belongs to {owner}, who alone sees what lies in its trash") == 1
        assert f"have {owner} remove it when nothing in it is needed: rm -r {library}/.gridwright" in text
        assert any("nothing can go to the trash" in each and "f2, f3" in each for each in report.all_notes)
        told = TrashReport("archive", of_another=why_of_another(root), there=list(trashed(root))).text()
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


def test_what_is_not_ones_own_is_said_with_its_owner_and_mode(files: Path) -> None:
    with pytest.raises(OSError, match=f"the directory belongs to {ALICE} and has mode 0755"):
        open_own(files)
    (files / "closed").mkdir(mode=0o700)

    def opens() -> None:
        with pytest.raises(OSError, match="the directory belongs to root and has mode 0700"):
            open_own(files / "closed")

    as_user(ALICE, opens)


def test_what_the_system_refuses_has_one_remedy_for_all_files() -> None:
    report = RepositoryReport("archive", "import")
    for name in (b"f1", b"f2"):
        report.refused(name, "written", PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
    report.refused(b"f3", "written", OSError(errno.ESTALE, "another file has come in its place"))
    text = report.text()
    assert "f1: it cannot be written: Permission denied" in text
    assert text.count("Permission denied: run as a user who may, or change its owner or mode") == 1
    assert "mount it again" not in text
