"""Several machines work on one library, each with what it knows of it: the manifest tells each the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_names
from gridwright.repository.release import ReleaseOptions, release
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.state_directory import VARIABLE
from gridwright.repository.status import RepositoryStatus, repository_status
from gridwright.repository.verify import verify
from tests.support.object_store import BUCKET, StoreServer, prefix_of
from tests.support.repositories import run


class Node:
    """A machine that mounts the library."""

    def __init__(
        self, state: Path, library: Path, server: StoreServer, url: str, patch: pytest.MonkeyPatch
    ) -> None:
        self._state, self._library, self._server, self._url, self._patch = state, library, server, url, patch

    def _run(self, what: Callable[[OpenRepository], object]) -> object:
        self._patch.setenv(VARIABLE, str(self._state))
        return run(self._library, self._server, what, self._url)

    def export(self, *, deletions: bool = False) -> dict[str, int]:
        """What was done; nothing was wrong."""
        return done(self._run(lambda each: export(each, ExportOptions(deletions=deletions))))

    def bring(self, *, deletions: bool = False) -> dict[str, int]:
        """Import, with contents."""

        def both(opened: OpenRepository) -> object:
            names = import_names(opened, ImportOptions(deletions=deletions, contents=True))
            contents = import_contents(opened, ContentOptions())
            names.done |= contents.done
            names.failed.take(contents.failed)
            return names

        return done(self._run(both))

    def refused(self, *, deletions: bool = False) -> list[str]:
        """Export; the names of what could not be done."""
        found = self._run(lambda each: export(each, ExportOptions(deletions=deletions)))
        assert isinstance(found, RepositoryReport)
        return [name for name, _ in found.problems]

    def release(self) -> dict[str, int]:
        """What was released; nothing was wrong."""
        return done(self._run(lambda each: release(each, ReleaseOptions())))

    def status(self) -> RepositoryStatus:
        """How it stands."""
        found = self._run(repository_status)
        assert isinstance(found, RepositoryStatus)
        return found

    def verify(self) -> dict[str, int]:
        """What was compared; nothing was wrong."""
        return done(self._run(verify))


def seen(library: Path) -> dict[str, tuple[int, int]]:
    """The files, and whether they are the same ones."""
    return {each.name: (each.stat().st_ino, each.stat().st_mtime_ns) for each in library.iterdir()}


def wait_a_second() -> None:
    """Objects have times of whole seconds."""
    time.sleep(1.1)


def done(report: object) -> dict[str, int]:
    assert isinstance(report, RepositoryReport)
    assert report.problems == []
    return {name: each.count for name, each in report.done.items() if each.count}


def test_what_one_machine_did_the_other_knows(
    library: Path, server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    url = prefix_of(request.node.name)
    one, other = (Node(tmp_path / name, library, server, url, monkeypatch) for name in ("one", "other"))
    for name in ("kept", "changed", "removed"):
        (library / name).write_text(name)
    assert one.export()["sent"] == 4
    first = other.status()
    assert (first.changed_files, first.changed_objects, first.gone_files) == (0, 0, 0)
    assert first.last_export is not None
    before = seen(library)
    other.bring()
    assert seen(library) == before, "what is there already is not made again"
    assert other.bring() == {}

    (library / "changed").write_text("changed once more")
    (library / "removed").unlink()
    (library / "new").write_text("new")
    assert other.status().changed_files >= 2
    before = seen(library)
    assert one.export(deletions=True)["deleted from the bucket"] == 1
    later = other.status()
    assert (later.changed_files, later.changed_objects, later.gone_objects) == (0, 0, 0)
    assert other.export(deletions=True).get("sent", 0) == 0
    other.bring(deletions=True)
    assert seen(library) == before
    assert other.verify()["equal"] == 4

    # The other one brings what a third party has written, and the first takes both for what they are.
    key = f"{url.removeprefix(f's3://{BUCKET}/')}/changed"
    server.client().put_object(Bucket=BUCKET, Key=key, Body=b"by somebody else")
    other.bring()
    assert (library / "changed").read_bytes() == b"by somebody else"
    one.export(deletions=True)
    body = server.client().get_object(Bucket=BUCKET, Key=key)["Body"].read()
    assert body == b"by somebody else"
    assert one.verify()["equal"] == 4


def body(server: StoreServer, url: str, name: str) -> bytes:
    key = f"{url.removeprefix(f's3://{BUCKET}/')}/{name}"
    return bytes(server.client().get_object(Bucket=BUCKET, Key=key)["Body"].read())


def test_an_older_file_of_another_library_takes_the_place_of_no_newer_object(
    library: Path, server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    url = prefix_of(request.node.name)
    second = tmp_path / "second"
    second.mkdir()
    one = Node(tmp_path / "one", library, server, url, monkeypatch)
    other, third = (Node(tmp_path / name, second, server, url, monkeypatch) for name in ("other", "third"))
    for name in ("same", "both"):
        (library / name).write_bytes(b"first")
    one.export()
    other.bring()
    other.export()
    third.export()
    wait_a_second()
    for name in ("same", "both"):
        (library / name).write_bytes(b"later")
    one.export()

    assert "sent" not in other.export() | third.export()
    (second / "both").write_bytes(b"third")
    assert other.refused() == third.refused() == ["both"]
    assert {body(server, url, name) for name in ("same", "both")} == {b"later"}
    (second / "same").unlink()
    assert sorted(third.refused(deletions=True)) == ["both", "same"]
    assert body(server, url, "same") == b"later"
    assert one.export() == {}
    assert one.verify()["equal"] == 3

    # What the first one made, and nobody here has seen, is no object of a file of that name.
    (library / "new").write_bytes(b"of the first")
    one.export()
    (second / "new").write_bytes(b"of the second")
    assert sorted(other.refused()) == ["both", "new"]
    assert body(server, url, "new") == b"of the first"


def test_what_one_machine_has_released_another_one_neither_overwrites_nor_deletes(
    library: Path, server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    url = prefix_of(request.node.name)
    one, other = (Node(tmp_path / name, library, server, url, monkeypatch) for name in ("one", "other"))
    for name in ("gone", "anew", "removed"):
        (library / name).write_text(name)
    (library / "stays").write_text("stays")
    (library / "stays, too").hardlink_to(library / "stays")
    one.export()
    other.export()
    (library / "removed").unlink()
    assert one.release()["released"] == 2
    (library / "anew").write_bytes(b"another")
    assert other.refused(deletions=True) == ["anew"]
    assert (body(server, url, "gone"), body(server, url, "anew")) == (b"gone", b"anew")
    assert other.status().objects == 5, "what a user has removed is deleted"
    (library / "gone").mkdir()
    for machine in (one, other):
        assert sorted(machine.refused(deletions=True)) == ["anew", "gone"]
    assert body(server, url, "gone") == b"gone"


def test_a_release_that_is_killed_leaves_files_that_are_compared_and_known_again(
    library: Path, server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    url = prefix_of(request.node.name)
    one, other = (Node(tmp_path / name, library, server, url, monkeypatch) for name in ("one", "other"))
    for name in ("file", "left"):
        (library / name).write_text(name)
    one.export()
    other.export()

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("gridwright.repository.release._LocalRelease._try", killed)
        one.release()
    for machine in (other, one):
        assert "sent" not in machine.export()
        assert machine.verify()["equal"] == 3
    (library / "file").unlink()
    assert other.export(deletions=True)["deleted from the bucket"] == 1
