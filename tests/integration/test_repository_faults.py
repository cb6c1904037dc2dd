"""Stores that lie or fail, killed commands, files that change, disks that are full: nothing is lost."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gridwright import _native
from gridwright.errors import GridwrightError
from gridwright.repository.export import ExportOptions, export
from gridwright.repository.importing import ImportOptions, import_objects
from gridwright.repository.release import ReleaseOptions, release
from gridwright.repository.scan import find_changes
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.verify import verify
from tests.support.as_user import open_to_all
from tests.support.command import GRIDWRIGHT, wait_until
from tests.support.file_trees import as_it_travels, look_at, make_tree
from tests.support.lying_store import SLOW_DOWN, Answer, LyingStore
from tests.support.object_store import (
    BUCKET,
    StoreServer,
    names_for,
    store_server,
)
from tests.support.repositories import forget, run
from tests.support.skips import root_only

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHi", *each)
    for each in ((0x01, 6, -1), (0x02, 4, 1234), (0x04, 4, -1), (0x10, 4, -1), (0x20, 0, -1))
)
"""User 1234 may read it, too (include/uapi/linux/posix_acl_xattr.h)."""


@pytest.fixture
def liar(server: StoreServer) -> Iterator[LyingStore]:
    with LyingStore(server.endpoint_url) as between:
        yield between


def all_contents(opened: OpenRepository) -> RepositoryReport:
    return import_objects(opened, ImportOptions())


def objects(server: StoreServer, url: str) -> dict[str, int]:
    """Keys and sizes of a prefix, without Gridwright's own."""
    prefix = url.removeprefix(f"s3://{BUCKET}/") + "/"
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
    found = {each["Key"]: each["Size"] for page in pages for each in page.get("Contents", ())}
    return {key.removeprefix(prefix): size for key, size in found.items() if "/.gridwright/" not in key}


def through(liar: LyingStore, server: StoreServer) -> StoreServer:
    return StoreServer(liar.endpoint_url, server.kind, server.environment)


def is_content(answer: Answer) -> bool:
    return answer.method == "GET" and answer.path.endswith("/file") and answer.status in (200, 206)


def test_other_bytes_than_were_exported_never_become_a_file(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    (library / "file").write_bytes(b"x" * 100_000)
    run(library, server, lambda each: export(each, ExportOptions()), url)
    shutil.rmtree(library)
    library.mkdir()

    def change_a_byte(answer: Answer) -> None:
        if is_content(answer):
            answer.body = b"y" + answer.body[1:]

    liar.lie = change_a_byte
    report = run(library, through(liar, server), all_contents, url)
    assert "CRC" in report.problems[0][1]
    assert list(library.iterdir()) == []
    liar.lie = lambda _: None
    run(library, through(liar, server), all_contents, url)
    assert (library / "file").read_bytes() == b"x" * 100_000


def test_a_file_that_appears_while_its_object_is_fetched_stays(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    (library / "below").mkdir()
    (library / "below/file").write_bytes(b"x" * 100_000)
    run(library, server, lambda each: export(each, ExportOptions()), url)
    shutil.rmtree(library / "below")
    forget(library)

    def somebody_writes(answer: Answer) -> None:
        if is_content(answer):
            (library / "below/file").write_bytes(b"mine")

    liar.lie = somebody_writes
    report = run(library, through(liar, server), all_contents, url)
    assert [name for name, _ in report.problems] == ["below/file"]
    assert (library / "below/file").read_bytes() == b"mine"
    assert [each.name for each in (library / "below").iterdir()] == ["file"]


def test_a_short_answer_and_a_wrong_etag_are_named(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    (library / "file").write_bytes(b"x" * 100_000)
    run(library, server, lambda each: export(each, ExportOptions()), url)
    shutil.rmtree(library)
    library.mkdir()

    def short(answer: Answer) -> None:
        if is_content(answer):
            answer.body = answer.body[:5000]

    def other_etag(answer: Answer) -> None:
        if is_content(answer):
            answer.headers = {**answer.headers, "ETag": '"0123"'}

    for lie, said in ((short, "5000 bytes of 100000"), (other_etag, "ETag is 0123")):
        liar.lie = lie
        report = run(library, through(liar, server), all_contents, url)
        assert said in report.problems[0][1]
        assert list(library.iterdir()) == []


def test_a_large_object_whose_connections_break_comes_whole_and_a_changed_one_never(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    content = random.Random(1).randbytes((40 << 20) + 7)  # noqa: S311
    (library / "file").write_bytes(content)
    run(library, server, lambda each: export(each, ExportOptions()), url)
    shutil.rmtree(library)
    library.mkdir()
    asked: list[int] = []

    def break_twice(answer: Answer) -> None:
        if is_content(answer):
            asked.append(len(answer.body))
            answer.sent = len(answer.body) // 2 if len(asked) <= 2 else None

    def change_a_byte(answer: Answer) -> None:
        if is_content(answer) and len(answer.body) < 20 << 20:
            answer.body = answer.body[:-1] + b"?"

    def be_another(answer: Answer) -> None:
        if is_content(answer):
            answer.headers = {**answer.headers, "ETag": '"0123"'}

    for lie, said in ((change_a_byte, "CRC"), (be_another, "ETag is 0123")):
        liar.lie = lie
        report = run(library, through(liar, server), all_contents, url)
        assert said in report.problems[0][1]
        assert list(library.iterdir()) == []
    liar.lie = break_twice
    assert run(library, through(liar, server), all_contents, url).problems == []
    assert (library / "file").read_bytes() == content
    # What had arrived was not asked for again.
    assert sum(asked) < 2 * len(content)


def test_a_store_that_falls_silent_holds_nobody_who_gives_up(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    (library / "file").write_bytes(b"x" * (9 << 20))
    run(library, server, lambda each: export(each, ExportOptions()), url)
    asked, go_on = threading.Event(), threading.Event()

    def be_silent(answer: Answer) -> None:
        if is_content(answer):
            asked.set()
            go_on.wait(60)

    def give_up(opened: OpenRepository) -> BaseException | None:
        (row,) = opened.known.rows("path = ?", b"file")
        with tempfile.TemporaryFile() as file:
            future = opened.store.fetch(row.reference(url), file.fileno())
            assert asked.wait(60)
            opened.store.close()
            return future.exception(timeout=20)

    liar.lie = be_silent
    try:
        error = run(library, through(liar, server), give_up, url)
    finally:
        go_on.set()
    assert "given up" in str(error)


def test_a_busy_store_is_asked_again_and_a_cut_connection_too(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    for place in range(20):
        (library / f"file{place}").write_bytes(b"x" * 1000)
    times: dict[str, int] = {}

    def busy(answer: Answer) -> None:
        times[answer.path] = times.get(answer.path, 0) + 1
        if "/file" in answer.path and times[answer.path] == 1:
            if len(times) % 2:
                answer.status, answer.body = 503, SLOW_DOWN
            else:
                answer.sent = 0

    liar.lie = busy
    report = run(library, through(liar, server), lambda each: export(each, ExportOptions()), url)
    assert report.problems == []
    assert len(objects(server, url)) == 21
    assert run(library, server, verify, url).problems == []


def test_a_store_that_only_fails_ends_the_export_and_the_next_one_goes_on(
    library: Path, server: StoreServer, liar: LyingStore, url: str
) -> None:
    for place in range(30):
        (library / f"file{place}").write_bytes(b"x" * 1000)

    def fail(answer: Answer) -> None:
        if "/file" in answer.path:
            answer.status, answer.body = 403, b"<Error><Code>AccessDenied</Code></Error>"

    liar.lie = fail
    report = run(library, through(liar, server), lambda each: export(each, ExportOptions()), url)
    assert len(report.problems) == 30
    assert "forbidden" in report.problems[0][1]
    assert run(library, server, lambda each: export(each, ExportOptions()), url).problems == []


def command(verb: str, library: Path, url: str, *more: str) -> list[str]:
    return [GRIDWRIGHT, "repo", verb, "--directory", str(library), "--bucket", url, *more]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_killed_export_and_a_killed_import_lose_and_double_nothing(
    library: Path, tmp_path: Path, url: str, seed: int
) -> None:
    """In a bucket with versions: an object that was sent twice would have two."""
    chance = random.Random(seed)  # noqa: S311 - moments of kills
    with store_server(tmp_path / "versions", "moto") as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        client = server.client()
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        make_tree(library, seed, 60, names=names_for(server))
        before = as_it_travels(look_at(library))
        kills = _kill_until_done(command("export", library, url), chance)
        assert kills > 0
        prefix = url.removeprefix(f"s3://{BUCKET}/") + "/"
        versions = client.list_object_versions(Bucket=BUCKET, Prefix=prefix)["Versions"]
        files = [each["Key"] for each in versions if "/.gridwright/" not in each["Key"]]
        assert len(files) == len(set(files)) == len(before) + 1
        assert run(library, server, verify, url).problems == []

        shutil.rmtree(library)
        library.mkdir()
        assert _kill_until_done(command("import", library, url, "--contents"), chance) > 0
        assert look_at(library) == before
        assert run(library, server, verify, url).problems == []


def _kill_until_done(words: list[str], chance: random.Random) -> int:
    """Kill a command at random moments, each time a little later, until it is done; how often."""
    kills, patience = 0, 0.35
    while True:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            out, _ = process.communicate(timeout=patience + chance.random() * 0.1)
            assert process.returncode == 0, out.decode()
            return kills
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            patience *= 1.5


@pytest.fixture
def killed(
    library: Path, liar: LyingStore, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> Killed:
    monkeypatch.setenv("AWS_ENDPOINT_URL", liar.endpoint_url)
    return Killed(library, liar, server, url)


@dataclass(frozen=True)
class Killed:
    """Commands with a store that keeps its answers back."""

    library: Path
    liar: LyingStore
    server: StoreServer
    url: str

    def __call__(self, verb: str, *more: str) -> dict[str, Any]:
        ended = subprocess.run(
            command(verb, self.library, self.url, "--json", *more), check=False, capture_output=True
        )
        return dict(json.loads(ended.stdout))

    def export(self, count: int) -> None:
        """Export, and be killed when the store has so many files' objects and has told of half of them."""
        sent, hold, all_sent = set[str](), threading.Event(), threading.Event()

        def keep_answers(answer: Answer) -> None:
            if answer.method != "PUT" or "/.gridwright" in answer.path or answer.path.endswith("/"):
                return
            sent.add(answer.path)
            if len(sent) == count:
                all_sent.set()
            if len(sent) > count // 2:
                hold.wait(60)

        self.liar.lie = keep_answers
        process = subprocess.Popen(command("export", self.library, self.url), stdout=subprocess.DEVNULL)
        try:
            assert all_sent.wait(60)
        finally:
            process.kill()
            process.wait()
            hold.set()
            self.liar.lie = lambda _answer: None


def test_what_a_killed_export_has_sent_is_known_whatever_becomes_of_the_files(killed: Killed) -> None:
    library = killed.library
    names = [f"{what}{place}" for what in ("edited", "removed", "same", "chmod") for place in range(4)]
    killed("export")
    for name in names:
        (library / name).write_bytes(name.encode())
    killed.export(len(names))
    for place in range(4):
        (library / f"edited{place}").write_bytes(b"edited since")
        (library / f"removed{place}").unlink()
        (library / f"chmod{place}").chmod(0o600)
    (library / "edited0").unlink()
    (library / "edited0").symlink_to("same0")

    assert any(
        "4 objects are of files that are gone" in each for each in killed("export", "--dry-run")["notes"]
    )
    said = killed("export")
    assert said["problems"] == []
    assert any("4 objects are of files that are gone" in each for each in said["notes"])
    assert killed("export", "--deletions")["problems"] == []
    assert not [name for name in objects(killed.server, killed.url) if "removed" in name]
    said = killed("verify")
    assert (said["problems"], said["done"]["equal"]["count"]) == ([], 13)


@pytest.mark.thorough
def test_what_a_killed_export_has_sent_over_its_own_objects_is_no_conflict(killed: Killed) -> None:
    for name in "abcd":
        (killed.library / name).write_bytes(b"first")
    assert killed("export")["problems"] == []
    for name in "ab":
        (killed.library / name).write_bytes(b"second")
    for name in "cd":
        (killed.library / name).chmod(0o640)
    killed.export(4)
    (killed.library / "a").write_bytes(b"third")
    (killed.library / "c").chmod(0o600)
    assert killed("export")["problems"] == []
    said = killed("verify")
    assert (said["problems"], said["done"]["equal"]["count"]) == ([], 5)


@pytest.mark.few(1)
@pytest.mark.parametrize("others_import", [False, True])
def test_what_the_manifest_alone_has_outlives_a_killed_export_and_an_import(
    killed: Killed, others_import: bool
) -> None:
    """Extended attributes, ACLs and other names of files and directories, which no object says."""
    library, other = killed.library, replace(killed, library=killed.library.parent / "other")
    other.library.mkdir()
    for number in range(20):
        place = library / f"d{number}"
        place.mkdir()
        for name in ("file", "with-acl"):
            (place / name).write_text(f"{name} {number}")
        for each in (place, place / "file"):
            os.setxattr(each, "user.project", b"sales")
        if not others_import:  # Of a directory that is there no import changes who may enter it.
            os.setxattr(place, DEFAULT, ACL)
        os.setxattr(place / "with-acl", ACCESS, ACL)
        os.link(place / "file", place / "name")
    before = as_it_travels(look_at(library))
    killed.export(16)
    if others_import:
        assert other("import")["problems"] == []
    for _ in range(2):
        assert killed("import")["problems"] == []
    assert as_it_travels(look_at(library)) == before
    assert killed("export")["problems"] == []
    for _ in range(2):
        assert other("import")["problems"] == []
    found = as_it_travels(look_at(other.library))
    if others_import:  # What came as two files stays two.
        before, found = (
            {path: replace(each, links=1) for path, each in seen.items()} for seen in (before, found)
        )
    assert found == before


def test_an_edit_that_keeps_size_and_time_is_no_conflict_after_a_killed_export(killed: Killed) -> None:
    names = [f"{what}{place}" for what in ("again", "new") for place in range(4)]
    for name in names[:4]:
        (killed.library / name).write_bytes(b"first")
    assert killed("export")["problems"] == []
    for name in names:
        (killed.library / name).write_bytes(b"second")
    os.link(killed.library / "new0", killed.library / "other")
    killed.export(len(names) + 1)
    for name in names:
        status = (killed.library / name).stat()
        (killed.library / name).write_bytes(b"thirds")
        os.utime(killed.library / name, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert killed("export")["problems"] == []
    said = killed("verify")
    assert (said["problems"], said["done"]["equal"]["count"]) == ([], len(names) + 2)


@pytest.mark.few(1)
@pytest.mark.parametrize("when", ["list-type=2", "/a"])
def test_an_edit_during_the_next_export_makes_no_conflict_that_stays(killed: Killed, when: str) -> None:
    """After what a killed one has sent was looked at, and before, or while, it is sent again."""
    (killed.library / "a").write_bytes(b"first")
    killed.export(1)
    edits: list[str] = []

    def edit(answer: Answer) -> None:
        if when in answer.path and not edits:
            edits.append(answer.path)
            (killed.library / "a").write_bytes(b"edited")

    killed.liar.lie = edit
    killed("export")
    killed.liar.lie = lambda _answer: None
    assert edits
    assert killed("export")["problems"] == []
    said = killed("verify")
    assert (said["problems"], said["done"]["equal"]["count"]) == ([], 2)


@pytest.mark.thorough
def test_what_a_store_makes_of_a_killed_export_after_a_look_is_no_conflict(killed: Killed) -> None:
    """The last bytes of a PUT were on their way: the next export asks before they have come."""
    (killed.library / "a").write_bytes(b"first")
    killed.export(1)
    client, key = killed.server.client(), killed.url.removeprefix(f"s3://{BUCKET}/") + "/a"
    late = client.get_object(Bucket=BUCKET, Key=key)
    client.delete_object(Bucket=BUCKET, Key=key)
    body, came = late["Body"].read(), list[str]()

    def comes(answer: Answer) -> None:
        if "list-type=2" in answer.path and not came:
            came.append(answer.path)
            client.put_object(Bucket=BUCKET, Key=key, Body=body, Metadata=late["Metadata"])

    (killed.library / "a").write_bytes(b"edited")
    killed.liar.lie = comes
    assert killed("export")["problems"] == []
    killed.liar.lie = lambda _answer: None
    assert came
    assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"edited"


def test_what_somebody_else_wrote_after_a_killed_export_stays(killed: Killed) -> None:
    (killed.library / "file").write_bytes(b"first")
    killed.export(1)
    client, key = killed.server.client(), killed.url.removeprefix(f"s3://{BUCKET}/") + "/file"
    client.put_object(Bucket=BUCKET, Key=key, Body=b"other")
    (killed.library / "file").write_bytes(b"edited")
    for _ in range(2):
        assert [each["name"] for each in killed("export")["problems"]] == ["file"]
    assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == b"other"


def test_a_file_that_changes_is_never_torn(library: Path, server: StoreServer, url: str) -> None:
    file, ended = library / "busy", threading.Event()
    size = 24 << 20
    file.write_bytes(b"a" * size)

    def write() -> None:
        turn = 0
        with file.open("r+b") as opened:
            while not ended.is_set():
                turn += 1
                opened.seek(0)
                for _ in range(size >> 20):
                    opened.write(bytes([97 + turn % 26]) * (1 << 20))
                opened.flush()
                time.sleep(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        report = run(library, server, lambda each: export(each, ExportOptions()), url)
    finally:
        ended.set()
        writer.join()
    if report.problems:
        assert "it changed each of the 3 times" in report.problems[0][1]
        assert "busy" not in objects(server, url)
    assert run(library, server, lambda each: export(each, ExportOptions()), url).problems == []
    assert run(library, server, verify, url).problems == []


@contextmanager
def small_disk(directory: Path, size: int) -> Iterator[Path]:
    """An ext4 of its own."""
    image, mount = directory / "image", directory / "disk"
    with image.open("wb") as file:
        file.truncate(size)
    mount.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True, timeout=60)
    subprocess.run(["mount", "-o", "loop", image, mount], check=True, timeout=60)
    try:
        (mount / "lost+found").rmdir()
        yield mount
    finally:
        subprocess.run(["umount", "-l", mount], check=True, timeout=60)


@root_only
def test_what_does_not_fit_is_refused_and_no_file_is_half_written(
    library: Path, server: StoreServer, url: str, tmp_path: Path
) -> None:
    for place in range(8):
        (library / f"file{place}").write_bytes(os.urandom(4 << 20))
    run(library, server, lambda each: export(each, ExportOptions()), url)
    with small_disk(tmp_path, 24 << 20) as disk:
        noted = run(disk, server, lambda each: import_objects(each, ImportOptions(names=True)), url)
        assert (noted.problems, list(disk.glob("file*"))) == ([], [])
        with pytest.raises(GridwrightError, match=r"32 MiB, and the disk has"):
            run(disk, server, all_contents, url)
        some = ImportOptions(paths=(b"file1", b"file2"))
        assert run(disk, server, lambda each: import_objects(each, some), url).problems == []
        assert (disk / "file1").read_bytes() == (library / "file1").read_bytes()
        assert not (disk / "file3").exists()
        # Somebody else takes the room meanwhile.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gridwright.repository.contents.check_room", lambda *_: None)
            with pytest.raises(GridwrightError, match="the disk is full"):
                run(disk, server, all_contents, url)
        assert not list(disk.glob(".gridwright-part-*"))
        for file in disk.glob("file*"):
            assert file.read_bytes() == (library / file.name).read_bytes()
        assert run(disk, server, verify, url).problems == []


def test_only_what_is_safe_is_released(library: Path, server: StoreServer, url: str) -> None:
    for name in ("idle", "open", "changed", "replaced"):
        (library / name).write_bytes(name.encode() * 10_000)
    run(library, server, lambda each: export(each, ExportOptions()), url)
    (library / "changed").write_bytes(b"other")
    key = f"{url.removeprefix(f's3://{BUCKET}/')}/replaced"
    server.client().put_object(Bucket=BUCKET, Key=key, Body=b"theirs")
    before = look_at(library)[b"idle"]
    with (library / "open").open("rb"):
        report = run(library, server, lambda each: release(each, ReleaseOptions()), url)
    assert {name: each.count for name, each in report.done.items()} == {
        "released": 1, "left, as they are open": 1, "left, as they were changed": 1,
    }  # fmt: skip
    assert [name for name, _ in report.problems] == ["replaced"]
    assert not (library / "idle").exists()
    idle = ImportOptions(paths=(b"idle",))
    assert run(library, server, lambda each: import_objects(each, idle), url).problems == []
    assert look_at(library)[b"idle"] == before


def test_what_was_edited_with_its_time_set_back_is_not_released(
    library: Path, server: StoreServer, url: str
) -> None:
    """The row believes in the file, by size, time and ctime: only its content tells."""
    file = library / "file"
    file.write_bytes(b"x" * 10_000)
    run(library, server, lambda each: export(each, ExportOptions()), url)
    times = file.stat()
    file.write_bytes(b"y" * 10_000)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    def believe(opened: OpenRepository) -> RepositoryReport:
        (row,) = opened.known.rows("path = ?", b"file")
        row.ctime_ns = file.stat().st_ctime_ns
        opened.known.put(row)
        return release(opened, ReleaseOptions())

    report = run(library, server, believe, url)
    assert report.done["left, as they were changed"].count == 1
    assert file.read_bytes() == b"y" * 10_000


@pytest.mark.parametrize("magic", [0x6969, 0x0BD00BD0])
def test_where_no_lock_holds_for_all_clients_nothing_is_released(
    library: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch, magic: int
) -> None:
    (library / "file").write_bytes(b"x")
    run(library, server, lambda each: export(each, ExportOptions()), url)
    monkeypatch.setattr("gridwright.repository.file_locks._file_system_type", lambda _: magic)
    with pytest.raises(GridwrightError, match="no lock tells whether another client writes"):
        run(library, server, lambda each: release(each, ReleaseOptions()), url)
    assert (library / "file").read_bytes() == b"x"


def test_an_order_to_stop_ends_an_export_at_once(
    library: Path, server: StoreServer, url: str, liar: LyingStore
) -> None:
    (library / "file").write_bytes(b"x")
    held, let_go = threading.Event(), threading.Event()

    def hold(answer: Answer) -> None:
        if answer.path.endswith("/file"):
            held.set()
            let_go.wait(30)

    liar.lie = hold
    environment = {**os.environ, **server.environment, "AWS_ENDPOINT_URL": liar.endpoint_url}
    process = subprocess.Popen(command("export", library, url), env=environment, stderr=subprocess.PIPE)
    assert held.wait(30)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    let_go.set()
    assert b"Traceback" not in said, said.decode()
    assert process.returncode in (130, 143, -15), said.decode()


def test_a_file_that_is_there_again_keeps_its_object(
    library: Path, server: StoreServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (library / "again").write_bytes(b"content")
    (library / "other").touch()
    run(library, server, lambda each: export(each, ExportOptions()), url)
    (library / "again").rename(library.parent / "elsewhere")

    def found_and_back(*args: Any, **more: Any) -> object:
        found = find_changes(*args, **more)
        (library.parent / "elsewhere").rename(library / "again")
        return found

    monkeypatch.setattr("gridwright.repository.export.find_changes", found_and_back)
    report = run(library, server, lambda each: export(each, ExportOptions(deletions=True)), url)
    assert "deleted from the bucket" not in report.done
    assert any("there again" in note and note.endswith(": again") for note in report.all_notes)
    assert objects(server, url)["again"] == 7


@root_only
def test_the_documented_release_needs_no_other_flag(library: Path, server: StoreServer, url: str) -> None:
    (library / "file").write_bytes(b"x" * 100_000)
    run(library, server, lambda each: export(each, ExportOptions()), url)
    environment = {**os.environ, **server.environment}
    for more in (["--until-free", "99%"], ["--until-free", "1%"], []):
        ended = subprocess.run(
            command("release", library, url, *more), env=environment, capture_output=True, check=False
        )
        assert ended.returncode == (1 if "99%" in more else 0), ended.stderr.decode()
        assert b"Traceback" not in ended.stderr


@pytest.mark.few(1)
@root_only
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY])
def test_who_opens_a_file_ends_no_release(
    library: Path, server: StoreServer, liar: LyingStore, url: str, flags: int
) -> None:
    """Mallory opens a file of alice that she may read, while its object is asked for under the lease."""
    open_to_all(library)
    (library / "file").write_bytes(b"x" * 100_000)
    (library / "file").chmod(0o666)
    environment = {**os.environ, **server.environment, "AWS_ENDPOINT_URL": liar.endpoint_url}
    subprocess.run(command("export", library, url), env=environment, check=True, timeout=60)
    held, came = threading.Event(), threading.Event()

    def hold(answer: Answer) -> None:
        if answer.method == "HEAD" and answer.path.endswith("/file"):
            held.set()
            came.wait(30)

    liar.lie = hold
    releasing = subprocess.Popen(
        command("release", library, url), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert held.wait(30), releasing.communicate(timeout=30)
    opens = f"import os; os.read(0, 1); os.close(os.open({str(library / 'file')!r}, {flags}))"
    mallory = subprocess.Popen(
        ["setpriv", "--reuid=2002", "--regid=2002", "--clear-groups", sys.executable, "-c", opens],
        stdin=subprocess.PIPE,
    )
    assert mallory.stdin
    mallory.stdin.write(b"!")
    mallory.stdin.close()
    locks = Path("/proc/locks")
    inode = f":{(library / 'file').stat().st_ino} "
    wait_until(
        lambda: any("BREAKING" in each and inode in each for each in locks.read_text().splitlines()) or None,
        seconds=10, what="a reader who waits", last=locks.read_text,
    )  # fmt: skip
    came.set()
    out, said = releasing.communicate(timeout=60)
    assert (releasing.returncode, said) == (0, b"")
    assert b"left, as they are open: 1" in out
    assert mallory.wait(30) == 0
    assert (library / "file").read_bytes() == b"x" * 100_000


KILLED_IN_BODY = """
import os, signal
from gridwright.repository.s3.plain import PlainConnection
send, sent = PlainConnection.send, []
def sends(self, data, *, is_last):
    send(self, data, is_last=is_last)
    sent.append(len(data))
    if sum(sent) > 500_000:
        os.kill(os.getpid(), signal.SIGKILL)
PlainConnection.send = sends
from gridwright.cli.start import run
run()
"""


def test_an_upload_that_a_kill_breaks_off_leaves_the_object_that_was_there(
    server: StoreServer, library: Path, url: str
) -> None:
    """Versitygw takes what has come until a FIN for all of a body without a checksum."""
    old, new = (os.urandom(3_000_000) for _ in range(2))
    client, key = server.client(), url.removeprefix(f"s3://{BUCKET}/") + "/file"
    for content in (old, new):
        (library / "file").write_bytes(content)
        words = command("export", library, url)
        if content is new:
            killed = [sys.executable, "-c", KILLED_IN_BODY, *words[1:]]
            assert subprocess.run(killed, check=False).returncode == -signal.SIGKILL
            assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == old
        assert subprocess.run(words, check=False, stdout=subprocess.DEVNULL).returncode == 0
    assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == new


@pytest.mark.parametrize("size", [300_000, 1_611_108])
def test_no_object_is_made_of_a_file_that_changes_as_it_is_sent(
    server: StoreServer, library: Path, url: str, size: int
) -> None:
    file, ended, content = library / "touched", threading.Event(), os.urandom(size)
    file.write_bytes(content)

    def touches() -> None:
        while not ended.wait(0.0005):
            os.utime(file)

    thread = threading.Thread(target=touches)
    thread.start()
    client, key = server.client(), url.removeprefix(f"s3://{BUCKET}/") + "/touched"
    try:
        for _ in range(3):
            subprocess.run(command("export", library, url), check=False, stdout=subprocess.DEVNULL)
            with suppress(client.exceptions.NoSuchKey):
                assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == content
    finally:
        ended.set()
        thread.join()


@pytest.mark.parametrize("how", ["closed", "broken off"])
def test_a_connection_that_ends_early_is_reset(how: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        made = socket.socket(fileno=_native.connect("127.0.0.1", listening.getsockname()[1], 5, 5))
        came, _ = listening.accept()
        with came:
            made.sendall(b"half of a body")
            assert came.recv(100) == b"half of a body"
            made.close() if how == "closed" else _native.break_off(made.fileno())
            with pytest.raises(ConnectionResetError):
                came.recv(100)
        made.close()
