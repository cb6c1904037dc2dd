"""A file is equal to its object only where somebody has looked: on real file systems, against real stores."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_names
from gridwright.repository.sending import MOST_SENT_ANEW
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.verify import verify
from tests.support.disks import loop_mount, other_mount
from tests.support.lying_store import Answer, LyingStore
from tests.support.object_store import (
    BUCKET,
    StoreServer,
    prefix_of,
)
from tests.support.repositories import forget, run
from tests.support.skips import root_only

pytestmark = root_only
KINDS = ("whole seconds", "ext4", "xfs", "tmpfs")


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return prefix_of(re.sub(r"[^a-z0-9_]", "_", request.node.name))


@contextmanager
def disk(kind: str, place: Path) -> Iterator[Path]:
    """A file system of a kind; ext4 with inodes of 128 bytes keeps whole seconds, as Lustre does."""
    if kind == "tmpfs":
        with other_mount(place / "memory", "tmpfs") as mounted:
            yield mounted
        return
    options = ("-I", "128") if kind == "whole seconds" else ()
    size, made = (320, "xfs") if kind == "xfs" else (96, "ext4")
    with loop_mount(place, mib=size, kind=made, options=options) as mounted:
        yield mounted


@pytest.fixture(params=KINDS)
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with disk(request.param, tmp_path) as mounted:
        (mounted / "library").mkdir()
        yield mounted / "library"


@pytest.fixture
def any_disk(tmp_path: Path) -> Path:
    (tmp_path / "library").mkdir()
    return tmp_path / "library"


def do_export(directory: Path, server: StoreServer, url: str, **options: object) -> RepositoryReport:
    return run(directory, server, lambda each: export(each, ExportOptions(**options)), url)  # type: ignore[arg-type]


def bring(opened: OpenRepository) -> list[tuple[str, str]]:
    """Import files with their contents; what could not be done."""
    names = import_names(opened, ImportOptions(contents=True))
    return names.problems + import_contents(opened, ContentOptions()).problems


def done(report: RepositoryReport) -> dict[str, int]:
    return {name: each.count for name, each in report.done.items() if each.count}


def body(server: StoreServer, url: str, path: str) -> bytes:
    key = f"{url.removeprefix(f's3://{BUCKET}/')}/{path}"
    content: bytes = server.client().get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return content


def rewrite(file: Path, content: bytes) -> None:
    """Change the content in place, and set the mtime back, as tools do."""
    before = file.stat()
    with file.open("r+b") as opened:
        opened.write(content)
        opened.truncate()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def begin_a_second() -> None:
    time.sleep(1.0 - time.time() % 1.0)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "content", [b"another one!", b"longer than it was before"], ids=["same size", "other"]
)
def test_what_changes_right_after_an_export_is_sent(
    library: Path, server: StoreServer, url: str, content: bytes
) -> None:
    file = library / "file"
    for _ in range(5):
        file.write_bytes(b"the content!")
        begin_a_second()
        file.chmod(0o640)
        assert do_export(library, server, url).problems == []
        exported = file.stat().st_ctime_ns
        rewrite(file, content)
        same_ctime = file.stat().st_ctime_ns == exported
        assert do_export(library, server, url).problems == []
        assert body(server, url, "file") == content
        if same_ctime or exported % 10**9:
            return
        # The machine was too busy for both in one second.
        file.unlink()
        do_export(library, server, url, deletions=True)


def test_a_library_that_nobody_touched_is_not_read(
    library: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (library / "directory").mkdir()
    (library / "directory/file").write_bytes(b"content" * 1000)
    (library / "link").symlink_to("directory/file")
    os.link(library / "directory/file", library / "other name")
    # Longer than clocks of a shared file system may be apart.
    time.sleep(3.1)
    ctimes = [each.lstat().st_ctime_ns for each in sorted(library.rglob("*"))]
    assert do_export(library, server, url).problems == []
    # An export is no change of the files: backups would take them all again.
    assert [each.lstat().st_ctime_ns for each in sorted(library.rglob("*"))] == ctimes
    monkeypatch.setattr("gridwright.repository.export.crc64_of", lambda _: pytest.fail("a file was read"))
    report = do_export(library, server, url)
    assert (done(report), report.problems) == ({}, [])


@pytest.mark.parametrize("kind", ["whole seconds", "ext4", "xfs"])
def test_a_program_that_has_mapped_a_file_changes_it_seen(
    kind: str, tmp_path: Path, server: StoreServer, url: str
) -> None:
    # On tmpfs, whose pages are never written, such a change has no time at all.
    with disk(kind, tmp_path) as mounted:
        library = mounted / "library"
        library.mkdir()
        file = library / "mapped"
        file.write_bytes(b"-" * mmap.PAGESIZE)
        with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as pages:
            pages[:5] = b"first"
            assert do_export(library, server, url).problems == []
            pages[:5] = b"later"
            assert do_export(library, server, url).problems == []
            assert body(server, url, "mapped")[:5] == b"later"


def test_an_edit_under_a_put_with_its_time_set_back_is_seen(
    any_disk: Path, server: StoreServer, url: str
) -> None:
    file, size = any_disk / "file", 20 << 20
    file.write_bytes(b"a" * size)
    with LyingStore(server.endpoint_url) as liar:
        edits = 0

        def edit(answer: Answer) -> None:
            nonlocal edits
            if answer.method == "PUT" and "partNumber" in answer.path and not edits:
                edits += 1
                rewrite(file, b"b" * size)

        liar.lie = edit
        through = StoreServer(liar.endpoint_url, server.kind, server.environment)
        assert do_export(any_disk, through, url).problems == []
    assert do_export(any_disk, server, url).problems == []
    assert edits == 1
    assert set(body(server, url, "file")) == {ord("b")}


@pytest.mark.parametrize("way", ["export", "import"])
def test_a_lost_state_is_no_proof(any_disk: Path, server: StoreServer, url: str, way: str) -> None:
    (any_disk / "same").write_bytes(b"same")
    (any_disk / "changed").write_bytes(b"before")
    assert do_export(any_disk, server, url).problems == []
    rewrite(any_disk / "changed", b"after!")
    forget(any_disk)
    if way == "import":
        names = run(any_disk, server, lambda each: import_names(each, ImportOptions()), url)
        assert [name for name, _ in names.problems] == ["changed"]
    else:
        report = do_export(any_disk, server, url)
        assert report.problems == []
        assert done(report)["sent"] == 1
        assert body(server, url, "changed") == b"after!"
    assert (any_disk / "changed").read_bytes() == b"after!"


def test_a_renamed_file_is_sent_where_it_was_edited_too(
    any_disk: Path, server: StoreServer, url: str
) -> None:
    (any_disk / "old").write_bytes(b"before")
    (any_disk / "other").write_bytes(content := os.urandom(MOST_SENT_ANEW + 1))
    assert do_export(any_disk, server, url).problems == []
    (any_disk / "old").rename(any_disk / "new")
    (any_disk / "other").rename(any_disk / "others")
    rewrite(any_disk / "new", b"after!")
    report = do_export(any_disk, server, url, deletions=True)
    assert report.problems == []
    assert done(report)["renamed in the bucket"] == 1
    assert body(server, url, "new") == b"after!"
    assert body(server, url, "others") == content


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
def test_times_come_back_as_their_file_system_keeps_them(
    kind: str, tmp_path: Path, server: StoreServer, url: str
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(3):
        file = source / f"file{number}"
        file.write_bytes(b"content")
        os.utime(file, ns=(10**18, 1_234_567_890_123_456_789 + number))
    os.link(source / "file0", source / "link0")
    assert do_export(source, server, url).problems == []
    with disk(kind, tmp_path) as mounted:
        library = mounted / "library"
        library.mkdir()
        assert run(library, server, bring, url) == []
        assert (library / "file0").stat().st_nlink == 2
        for _ in range(2):
            report = do_export(library, server, url)
            assert report.problems == []
            assert not {"sent", "given new attributes"} & set(done(report)), report.text()
        names = run(library, server, lambda each: import_names(each, ImportOptions()), url)
        assert (done(names), names.problems) == ({}, [])


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("accessed", "modified"),
    [
        ("2400-01-01", "2400-01-01"),
        ("2262-04-12", "2020-01-01"),
        ("2020-01-01", "2262-04-12"),
        ("1600-01-01", "1600-01-01"),
        ("2020-01-01", "9999-01-01"),
    ],
)
def test_a_file_of_another_age_ends_no_export(
    library: Path, server: StoreServer, url: str, accessed: str, modified: str
) -> None:
    for name in ("bad", "good"):
        (library / name).write_bytes(b"content")
    (library / "bad directory").mkdir()
    for name in ("bad", "bad directory"):
        subprocess.run(["touch", "-a", "-d", accessed, library / name], check=True, timeout=10)
        subprocess.run(["touch", "-m", "-d", modified, library / name], check=True, timeout=10)
    report = do_export(library, server, url)
    assert report.problems == []
    assert body(server, url, "bad") == body(server, url, "good") == b"content"
    again = do_export(library, server, url)
    assert again.problems == []
    assert "sent" not in done(again)
    assert run(library, server, bring, url) == []
    assert run(library, server, verify, url).problems == []


def test_attributes_of_any_size_end_no_command(tmp_path: Path, server: StoreServer, url: str) -> None:
    with disk("xfs", tmp_path) as mounted:
        library, other = mounted / "library", mounted / "other"
        for each in (library, other):
            each.mkdir()
        for name in ("many", "plain"):
            (library / name).write_bytes(b"content")
        for number in range(4):
            os.setxattr(library / "many", f"user.{number}", os.urandom(60_000))
        report = do_export(library, server, url)
        assert [name for name, _ in report.problems] == ["many"]
        assert "extended attributes" in report.problems[0][1]
        for _ in range(2):
            assert run(other, server, bring, url) == []
        assert (other / "many").read_bytes() == (other / "plain").read_bytes() == b"content"
