"""What others write in the very moment of an export stays, with each store; and what stores want with it.

Where no store of the tests does what S3 does, a proxy does, as the Amazon S3 API Reference has it for
PutObject and UploadPart (`Content-MD5`, `x-amz-checksum-*`).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gridwright.repository.export import ExportOptions, export
from gridwright.repository.scan import Action
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.verify import verify
from tests.support.lying_store import Answer, LyingStore
from tests.support.object_store import BUCKET, StoreServer, prefix_of, store_server
from tests.support.repositories import run

LARGE = (9 << 20) + 3
"""Two parts."""
THEIRS = b"written by somebody else"
KINDS = ("moto", "versitygw", "seaweedfs")


@pytest.fixture
def library(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    place.mkdir()
    return place


@pytest.fixture(autouse=True)
def url(request: pytest.FixtureRequest) -> str:
    """A prefix of the test's own: moto keeps what it has between tests."""
    return re.sub(r"[^a-z0-9:/-]+", "-", prefix_of(request.node.name).lower())


def key_of(url: str, name: str) -> str:
    return f"{url.removeprefix(f's3://{BUCKET}/')}/{name}"


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreServer]:
    with Served(tmp_path, request.param) as found:
        yield found


class Served:
    """A store that the environment has credentials for."""

    def __init__(self, tmp_path: Path, kind: str, *, keeps_versions: bool = False) -> None:
        self._store = store_server(tmp_path / "store", kind, keeps_versions=keeps_versions)
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> StoreServer:
        found = self._store.__enter__()
        for name, value in found.environment.items():
            self._patch.setenv(name, value)
        return found

    def __exit__(self, *what: object) -> None:
        self._patch.undo()
        self._store.__exit__(None, None, None)


def send(opened: OpenRepository) -> RepositoryReport:
    return export(opened, ExportOptions())


def send_deletions(opened: OpenRepository) -> RepositoryReport:
    return export(opened, ExportOptions(deletions=True))


def content_of(server: StoreServer, url: str, name: str) -> bytes:
    found: bytes = server.client().get_object(Bucket=BUCKET, Key=key_of(url, name))["Body"].read()
    return found


def somebody_else(
    server: StoreServer, url: str, name: str, is_moment: Callable[[Answer], bool]
) -> Callable[[Answer], None]:
    """Write an object just before the store gets the first request of that kind for its key."""
    done: list[bool] = []

    def write(answer: Answer) -> None:
        if not done and answer.path.partition("?")[0].endswith(f"/{name}") and is_moment(answer):
            done.append(True)
            server.client().put_object(Bucket=BUCKET, Key=key_of(url, name), Body=THEIRS)

    return write


def makes_an_object(answer: Answer) -> bool:
    query = answer.path.partition("?")[2]
    is_whole = answer.method == "PUT" and "partNumber" not in query
    return is_whole or (answer.method == "POST" and "uploadId" in query)


@pytest.mark.few(4)
@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("size", [1000, LARGE])
def test_a_rename_copies_over_nothing_that_somebody_else_writes_meanwhile(
    library: Path, url: str, server: StoreServer, monkeypatch: pytest.MonkeyPatch, size: int, in_parts: bool
) -> None:
    if in_parts:
        # As objects of more than 5 GB are copied.
        monkeypatch.setattr("gridwright.repository.s3.s3_store.MOST_TO_COPY", 100)
    (library / "old").write_bytes(os.urandom(size))
    with LyingStore(server.endpoint_url) as liar:
        asked = StoreServer(liar.endpoint_url, server.kind, server.environment)
        assert run(library, asked, send, url).problems == []
        (library / "old").rename(library / "new")
        liar.instead = somebody_else(server, url, "new", makes_an_object)
        report = run(library, asked, send, url)
        assert content_of(server, url, "new") == THEIRS
        assert [name for name, _ in report.problems] == ["new"]
        assert Action.RENAME not in report.done
        # It is a conflict from now on, too.
        assert run(library, asked, send, url).problems
        assert content_of(server, url, "new") == THEIRS


@pytest.mark.few(1)
def test_what_somebody_else_writes_just_after_a_copy_is_not_taken_for_it(
    library: Path, url: str, server: StoreServer
) -> None:
    (library / "old").write_bytes(os.urandom(LARGE))
    assert run(library, server, send, url).problems == []
    (library / "old").rename(library / "new")
    assert run(library, server, send, url).problems == []
    server.client().put_object(Bucket=BUCKET, Key=key_of(url, "new"), Body=THEIRS)
    (library / "new").write_bytes(b"ours")
    assert [name for name, _ in run(library, server, send, url).problems] == ["new"]
    assert content_of(server, url, "new") == THEIRS


@pytest.mark.few(1)
def test_a_rename_sends_what_is_small_and_copies_what_is_large(
    library: Path, url: str, server: StoreServer
) -> None:
    before = {"small": os.urandom(1000), "large": os.urandom(LARGE), "empty": b""}
    for name, data in before.items():
        (library / name).write_bytes(data)
    assert run(library, server, send, url).problems == []
    for name in before:
        (library / name).rename(library / f"new-{name}")
    with LyingStore(server.endpoint_url) as liar:
        report = run(library, StoreServer(liar.endpoint_url, server.kind, server.environment), send, url)
        of_large = [method for method, path in liar.asked if "/new-large" in path]
        of_small = [method for method, path in liar.asked if "/new-small" in path]
    assert report.problems == []
    assert (report.done[Action.RENAME].count, report.done[Action.RENAME].bytes) == (1, 0)
    # Begun, copied and ended, or all at once; moto says no CRC-64 of what was sent, so that it is asked.
    assert of_large in (["PUT"], ["POST", "PUT", "POST"])
    assert of_small == (["PUT", "HEAD"] if server.kind == "moto" else ["PUT"])
    for name, data in before.items():
        (library / f"new-{name}").chmod(0o640)
        assert content_of(server, url, f"new-{name}") == data
    assert run(library, server, send_deletions, url).problems == []
    assert run(library, server, verify, url).problems == []


@pytest.mark.few(2)
def test_a_deletion_leaves_what_somebody_else_writes_meanwhile(
    library: Path, url: str, server: StoreServer
) -> None:
    for number in range(3):
        (library / f"file{number}").write_bytes(os.urandom(1000))
    with LyingStore(server.endpoint_url) as liar:
        asked = StoreServer(liar.endpoint_url, server.kind, server.environment)
        assert run(library, asked, send, url).problems == []
        (library / "file1").unlink()
        liar.instead = somebody_else(server, url, "file1", lambda answer: answer.method == "DELETE")
        report = run(library, asked, send_deletions, url)
        assert [(name, "was changed" in why) for name, why in report.problems] == [("file1", True)]
        assert content_of(server, url, "file1") == THEIRS
        (library / "file2").unlink()
        report = run(library, asked, send_deletions, url)
        assert report.done[Action.DELETE].count == 1


@pytest.mark.few(1)
def test_a_deletion_whose_answer_was_lost_is_done(library: Path, url: str, server: StoreServer) -> None:
    for number in range(3):
        (library / f"file{number}").write_bytes(os.urandom(1000))
    with LyingStore(server.endpoint_url) as liar:
        asked = StoreServer(liar.endpoint_url, server.kind, server.environment)
        assert run(library, asked, send, url).problems == []
        (library / "file1").unlink()
        lost: list[bool] = []

        def lose(answer: Answer) -> None:
            if answer.method == "DELETE" and answer.path.endswith("/file1") and not lost:
                lost.append(True)
                answer.status = 500

        liar.lie = lose
        report = run(library, asked, send_deletions, url)
        assert lost
        assert report.problems == []
        assert report.done[Action.DELETE].count == 1


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["seaweedfs", "versitygw"])
def test_what_was_deleted_is_made_anew_where_versions_are_kept(
    library: Path, url: str, tmp_path: Path, kind: str
) -> None:
    with Served(tmp_path, kind, keeps_versions=True) as server:
        names = {"kept": 100, "small": 1000, "large": LARGE, "place": 2000}
        for name, size in names.items():
            (library / name).write_bytes(os.urandom(size))
        assert run(library, server, send, url).problems == []
        # The lease was deleted, and is made anew.
        assert run(library, server, send, url).problems == []
        for name in ("small", "large", "place"):
            (library / name).unlink()
        assert run(library, server, send_deletions, url).done[Action.DELETE].count == 3
        for name in ("small", "large"):
            (library / name).write_bytes(os.urandom(names[name]))
        (library / "kept").rename(library / "place")
        report = run(library, server, send, url)
        assert report.problems == []
        for name in ("small", "large", "place"):
            assert content_of(server, url, name) == (library / name).read_bytes()
        assert run(library, server, send_deletions, url).problems == []
        assert run(library, server, verify, url).problems == []


def test_over_a_delete_marker_nothing_is_written_that_somebody_else_made(
    library: Path, url: str, tmp_path: Path
) -> None:
    with Served(tmp_path, "versitygw", keeps_versions=True) as server:
        (library / "kept").write_bytes(b"kept")
        (library / "file").write_bytes(b"first")
        with LyingStore(server.endpoint_url) as liar:
            asked = StoreServer(liar.endpoint_url, server.kind, server.environment)
            assert run(library, asked, send, url).problems == []
            (library / "file").unlink()
            assert run(library, asked, send_deletions, url).problems == []
            (library / "file").write_bytes(b"second")
            liar.instead = somebody_else(
                server, url, "file", lambda answer: answer.method == "PUT" and "if-match" in answer.wanted
            )
            report = run(library, asked, send, url)
        assert [name for name, _ in report.problems] == ["file"]
        assert content_of(server, url, "file") == THEIRS


def locks_objects(knows: tuple[str, ...]) -> Callable[[Answer], None]:
    """What S3 says where Object Lock has a default retention; `knows` are headers of checksums."""
    with_sums: list[str] = []

    def refuse(answer: Answer, message: str) -> None:
        answer.status = 400
        answer.body = f"<Error><Code>InvalidRequest</Code><Message>{message}</Message></Error>".encode()

    def instead(answer: Answer) -> None:
        path, _, query = answer.path.partition("?")
        sums = [each for each in answer.wanted if each.startswith(("content-md5", "x-amz-checksum-"))]
        if answer.method == "POST" and query == "uploads" and "x-amz-checksum-algorithm" in answer.wanted:
            with_sums.append(path)
        if answer.method != "PUT" or "x-amz-copy-source" in answer.wanted:
            return
        if any(each not in knows for each in sums):
            refuse(answer, "Value for x-amz-checksum-crc64nvme header is invalid.")
        elif not sums:
            refuse(
                answer, "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with "
                "Object Lock parameters",
            )  # fmt: skip
        elif "partNumber" in query and "x-amz-checksum-crc64nvme" in sums and path not in with_sums:
            refuse(answer, "Checksum Type mismatch occurred, expected checksum Type: null, actual: crc64nvme")

    return instead


@pytest.mark.parametrize("knows", [("x-amz-checksum-crc64nvme", "content-md5"), ("content-md5",)])
def test_a_bucket_that_locks_objects_gets_checksums(
    library: Path, url: str, tmp_path: Path, knows: tuple[str, ...]
) -> None:
    sizes = {"empty": 0, "small": 1000, "middle": 300_000, "large": LARGE}
    for name, size in sizes.items():
        (library / name).write_bytes(os.urandom(size))
    with Served(tmp_path, "versitygw") as server, LyingStore(server.endpoint_url) as liar:
        liar.instead = locks_objects(knows)
        asked = StoreServer(liar.endpoint_url, server.kind, server.environment)
        assert run(library, asked, send, url).problems == []
        # What was found is known by the next one, too.
        (library / "small").write_bytes(os.urandom(2000))
        report = run(library, asked, send, url)
        assert report.problems == []
        assert "probe" not in report.requests
        for name in sizes:
            found = hashlib.sha256(content_of(server, url, name)).digest()
            assert found == hashlib.sha256((library / name).read_bytes()).digest()
        assert run(library, asked, verify, url).problems == []


def test_a_store_that_has_only_checksums_that_are_sent_has_them(
    library: Path, url: str, tmp_path: Path
) -> None:
    for name, size in {"small": 1000, "middle": 300_000, "large": LARGE}.items():
        (library / name).write_bytes(os.urandom(size))
    with Served(tmp_path, "seaweedfs") as server:
        assert run(library, server, send, url).problems == []
        for name in ("small", "middle", "large"):
            head = server.client().head_object(Bucket=BUCKET, Key=key_of(url, name), ChecksumMode="ENABLED")
            assert head.get("ChecksumCRC64NVME"), name
        assert run(library, server, verify, url).problems == []
