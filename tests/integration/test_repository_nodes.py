"""Several machines work on one library, each with what it knows of it: the manifest tells each the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_names
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.state_directory import VARIABLE
from gridwright.repository.status import RepositoryStatus, repository_status
from gridwright.repository.verify import verify
from tests.support.object_store import BUCKET, StoreServer, prefix_of, store_of_environment
from tests.support.repositories import run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with store_of_environment(tmp_path_factory.mktemp("store")) as served:
        yield served


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
            names.problems += contents.problems
            return names

        return done(self._run(both))

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
