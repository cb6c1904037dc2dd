"""Mallory owns a library, and so may rename what root has made in it: that opens and removes nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gridwright.repository.below import RELEASING
from gridwright.repository.known import Known
from tests.support.as_user import ALICE, MALLORY, as_user, open_to_all
from tests.support.command import Command, Ended
from tests.support.object_store import BUCKET, StoreServer, prefix_of

pytestmark = pytest.mark.root
CONTENT = "ALICE-SECRET"


class Trashed:
    """A library of mallory's, where a file of alice's closed directory went to the trash of root."""

    def __init__(self, server: StoreServer, gridwright: Command, url: str, library: Path) -> None:
        self.library = library
        self._client, self._gridwright = server.client(), gridwright
        self._prefix = url.removeprefix(f"s3://{BUCKET}/")
        self._flags = ("--bucket", url, "--directory", library)
        open_to_all(library.parent)
        closed = library / "alice"
        closed.mkdir()
        for name in ("secret", "other", "third", "last"):
            (closed / name).write_text(CONTENT if name == "secret" else name)
            (closed / name).chmod(0o644)
        for path, owner, mode in ((closed, ALICE, 0o700), (library, MALLORY, 0o755)):
            os.chown(path, owner, owner)
            path.chmod(mode)
        assert self("export").status == 0
        self.remove_object("alice/secret")
        assert self("import", "--deletions").status == 0
        assert not (closed / "secret").exists()

    def __call__(self, verb: str, *arguments: str) -> Ended:
        ended = self._gridwright("repo", verb, *arguments, *self._flags)
        assert "Traceback" not in ended.err, ended.err
        return ended

    def remove_object(self, path: str) -> None:
        """Take a file out of the bucket."""
        self._client.delete_object(Bucket=BUCKET, Key=f"{self._prefix}/{path}")

    @property
    def is_exported(self) -> bool:
        """Whether anything of the trash is in the bucket."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=self._prefix)
        return any("/trash/" in each["Key"] for page in pages for each in page.get("Contents", ()))

    def rename(self, name: str, new: str) -> None:
        """As mallory does it."""
        as_user(MALLORY, lambda: os.rename(self.library / name, self.library / new))  # noqa: PTH104


@pytest.fixture
def trashed(
    server: StoreServer, gridwright: Command, library: Path, request: pytest.FixtureRequest
) -> Trashed:
    return Trashed(server, gridwright, prefix_of(request.node.name), library)


def reads(library: Path) -> bool:
    """Whether mallory comes by alice's secret: in all that she can enter."""

    def look() -> None:
        for directory, _, names in os.walk(library):
            for name in names:
                assert CONTENT not in Path(directory, name).read_text(errors="replace")

    try:
        as_user(MALLORY, look)
    except AssertionError:
        return True
    return False


def of_old(known: Known) -> None:
    """What an older release noted before it began."""
    known.set_fact(RELEASING, "1")


def of_now(known: Known) -> None:
    """What one notes now."""
    known.set_fact(RELEASING, "0123456789abcdef" * 2)


@pytest.mark.few(1)
@pytest.mark.parametrize("noted", [of_old, of_now])
def test_the_trash_is_never_put_back_as_what_a_release_left(
    trashed: Trashed, noted: Callable[[Known], None]
) -> None:
    known = Known(trashed.library)
    noted(known)
    known.close()
    new = ".gridwright-part-aside-zz1"
    for each in (".gridwright", "trash", "alice"):
        if (trashed.library / each).exists() and each != "alice":
            trashed.rename(each, new)
        trashed("export")
        assert sorted(path.name for path in trashed.library.iterdir()) == [new, "alice"]
    assert not reads(trashed.library)
    assert not trashed.is_exported


@pytest.mark.few(1)
@pytest.mark.parametrize("new", ["x", ".gridwright-part-x"])
def test_the_trash_is_known_under_any_name_and_stays_here(trashed: Trashed, new: str) -> None:
    trashed.rename(".gridwright", new)
    ended = trashed("export", "--json")
    (problem,) = ended.json["problems"]
    assert (ended.status, problem["name"]) == (1, new)
    assert "rename it to .gridwright again" in problem["why"]
    (time,) = (trashed.library / new / "trash").iterdir()
    for chosen in (f"{new}/trash", f"{new}/trash/{time.name}/alice/secret"):
        trashed("export", chosen)
    assert not trashed.is_exported
    shown = trashed("trash")
    assert (shown.status, f"{new}: it is .gridwright" in shown.out) == (1, True)
    trashed.rename(new, ".gridwright")
    assert trashed("export").status == 0
    assert "1 file (" in trashed("trash").out


def test_another_directory_of_root_is_no_trash_for_its_name(trashed: Trashed) -> None:
    place = trashed.library / "archive"
    precious = place / "trash" / "20250101T000000Z" / "precious"
    precious.parent.mkdir(parents=True)
    precious.write_text("precious")
    (place / "more").write_text("more")
    place.chmod(0o700)
    trashed.rename(".gridwright", "x")
    trashed.rename("archive", ".gridwright")
    trashed("trash", "--empty-older-than", "0s")
    trashed("import", "--deletions")
    assert (trashed.library / ".gridwright" / "trash" / "20250101T000000Z" / "precious").exists()


def test_a_trash_of_an_older_release_gets_its_mark_in_time(trashed: Trashed) -> None:
    (trashed.library / ".gridwright" / ".gridwright-mark").unlink(missing_ok=True)
    assert trashed("export").status == 0
    trashed.rename(".gridwright", "x")
    assert trashed("export").status == 1
    assert not trashed.is_exported
