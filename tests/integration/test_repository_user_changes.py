"""What a user changes while an import looks at objects stays known as changed, and is exported."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from gridwright.repository import making
from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_names
from gridwright.repository.known_file import KnownFile
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.store import ObjectHead
from tests.support.as_user import ALICE, MALLORY
from tests.support.object_store import BUCKET, StoreServer
from tests.support.repositories import run


def do_export(opened: OpenRepository) -> RepositoryReport:
    return export(opened, ExportOptions())


def bring(opened: OpenRepository) -> list[RepositoryReport]:
    return [import_names(opened, ImportOptions(contents=True)), import_contents(opened, ContentOptions())]


def rewrite(file: Path, content: bytes) -> None:
    """Write other content of the same size, and set the time back."""
    status = file.stat()
    with file.open("r+b") as opened:
        opened.write(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def content_of(server: StoreServer, url: str, name: str) -> bytes:
    key = f"{url.removeprefix(f's3://{BUCKET}/')}/{name}"
    return bytes(server.client().get_object(Bucket=BUCKET, Key=key)["Body"].read())


@pytest.mark.parametrize("is_there_before", [False, True])
def test_what_users_do_to_a_file_once_it_has_its_name_is_theirs(
    library: Path,
    tmp_path: Path,
    server: StoreServer,
    url: str,
    is_there_before: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job that waits for a name is there before the import has noted the file."""
    names = [f"file{place}" for place in range(40)]
    other = tmp_path / "other"
    other.mkdir()
    if is_there_before:
        for name in names:
            (library / name).write_bytes(b"old")
        run(library, server, do_export, url)
        run(other, server, bring, url)
    for name in names:
        (library / name).write_bytes(b"first")
        (library / name).chmod(0o600)
    run(library, server, do_export, url)
    users, place = [], making.Maker.note_named

    def changed_first(self: making.Maker, row: KnownFile, *more: Any) -> None:
        file = other / os.fsdecode(row.path)
        match int(file.name.removeprefix("file")) % 4:
            case 0:  # Where a lease holds the file, this waits.
                users.append(threading.Thread(target=rewrite, args=(file, b"users")))
                users[-1].start()
                users[-1].join(0.05)
            case 1:
                file.chmod(0o640)
            case 2:
                os.setxattr(file, "user.of-a-job", b"x")
        place(self, row, *more)

    monkeypatch.setattr(making.Maker, "note_named", changed_first)
    run(other, server, bring, url)
    monkeypatch.undo()
    for each in users:
        each.join(60)
    assert [(other / name).read_bytes() for name in names] == [
        b"first" if place % 4 else b"users" for place in range(40)
    ]
    report = run(other, server, do_export, url)
    assert report.problems == []
    assert report.done["sent"].count == 10, report.text()
    assert report.done["given new attributes"].count == 20, report.text()
    assert content_of(server, url, "file4") == b"users"
    assert not {"sent", "given new attributes"} & run(other, server, do_export, url).done.keys()


@pytest.mark.root
@pytest.mark.parametrize("sets_time_back", [True, False])
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_a_change_beside_new_attributes_of_the_object_is_exported(
    library: Path, tmp_path: Path, server: StoreServer, url: str, mode: int, sets_time_back: bool
) -> None:
    (library / "file").write_bytes(b"first")
    (library / "file").chmod(0o640)
    run(library, server, do_export, url)
    other = tmp_path / "other"
    other.mkdir()
    run(other, server, bring, url)
    (other / "file").chmod(mode)
    assert run(other, server, do_export, url).done["given new attributes"].count == 1

    # Nothing but the object tells then: it is asked for while the user writes.
    manifest = f"{url.removeprefix(f's3://{BUCKET}/')}/.gridwright/manifest.parquet"
    server.client().delete_object(Bucket=BUCKET, Key=manifest)

    def write_beside(opened: OpenRepository) -> RepositoryReport:
        row = opened.known.get(b"file")
        assert row is not None
        # Stores give times in whole seconds, and these exports were in the same one.
        row.stored_ns = 1
        opened.known.put(row)
        ask = opened.store.head

        def head(key: str, version_id: str | None = None) -> Future[ObjectHead]:
            if key.endswith("/file") and sets_time_back:
                rewrite(library / "file", b"users")
            elif key.endswith("/file"):
                (library / "file").write_bytes(b"users")
            return ask(key, version_id)

        opened.store.head = head  # type: ignore[method-assign]
        return import_names(opened, ImportOptions())

    report = run(library, server, write_beside, url)
    assert [name for name, _ in report.problems] == ["file"], report.text()
    assert (library / "file").read_bytes() == b"users"
    run(library, server, lambda opened: export(opened, ExportOptions(prefer="files")), url)
    assert content_of(server, url, "file") == b"users"


@pytest.mark.root
@pytest.mark.parametrize("act", ["edit", "edit with its time set back", "chmod", "nothing"])
def test_a_second_name_makes_no_known_file_of_a_changed_one(
    library: Path, tmp_path: Path, server: StoreServer, url: str, act: str
) -> None:
    (library / "s").write_bytes(b"first")
    run(library, server, do_export, url)
    other = tmp_path / "other"
    other.mkdir()
    run(other, server, bring, url)
    os.link(other / "s", other / "s2")
    run(other, server, do_export, url)
    if act == "edit":
        (library / "s").write_bytes(b"users")
    elif act == "edit with its time set back":
        rewrite(library / "s", b"users")
    elif act == "chmod":
        (library / "s").chmod(0o600)
    run(library, server, bring, url)
    assert (library / "s2").read_bytes() == b"first"
    assert (library / "s").samefile(library / "s2") is (act == "nothing")
    run(library, server, do_export, url)
    changed = b"users" if act.startswith("edit") else b"first"
    assert content_of(server, url, "s") == changed
    assert content_of(server, url, "s2") == b"first"


@pytest.mark.root
@pytest.mark.parametrize(
    ("owner", "mode", "directory_of", "is_linked"),
    [
        (ALICE, 0o600, ALICE, True),
        (ALICE, 0o600, MALLORY, False),
        (MALLORY, 0o600, MALLORY, False),
        (ALICE, 0o644, ALICE, False),
    ],
)
def test_no_file_of_a_user_gets_a_name_that_is_not_his(
    library: Path, server: StoreServer, url: str, owner: int, mode: int, directory_of: int, is_linked: bool
) -> None:
    """Who writes the bucket has a row say that his object is another name of a private file."""
    (library / "alice").mkdir()
    (library / "mal").mkdir()
    (library / "alice" / "s").write_bytes(b"private")
    (library / "alice" / "s").chmod(0o600)
    for path in ("alice", "alice/s"):
        os.chown(library / path, ALICE, ALICE)
    os.chown(library / "mal", directory_of, directory_of)
    run(library, server, do_export, url)

    def link(opened: OpenRepository) -> bool:
        from dataclasses import replace

        from gridwright.repository.making import Maker

        first = opened.known.get(b"alice/s")
        assert first is not None
        row = replace(
            first, path=b"mal/c", key=(first.key or "").replace("alice/s", "mal/c"), link_of=b"alice/s",
            uid=owner, gid=owner, mode=0o100000 | mode,
        )  # fmt: skip
        return Maker(opened, RepositoryReport("archive", "import")).hard_link(row)

    assert run(library, server, link, url) is is_linked
    assert (library / "mal" / "c").exists() is is_linked
    assert (library / "alice" / "s").stat().st_nlink == 1 + is_linked
