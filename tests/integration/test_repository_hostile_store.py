"""A store of anybody holds no command for ever, and takes no memory without bound."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gridwright import _native
from gridwright.repository.content import FileContent
from gridwright.repository.references import ObjectReference
from gridwright.repository.s3 import connection, plain, s3_store
from gridwright.repository.s3.connection import connect
from gridwright.repository.s3.s3_store import S3Store
from gridwright.repository.store import StoreError, crc64
from tests.support.command import Command

ETAG = "0" * 32
PAGE = (
    "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>"
    "{contents}</ListBucketResult>"
)
OBJECT = (
    "<Contents><Key>{key}</Key><LastModified>2026-11-25T12:00:00.000Z</LastModified>"
    f"<ETag>&quot;{ETAG}&quot;</ETag><Size>{{size}}</Size></Contents>"
)
Answers = Callable[[bytes], Iterator[bytes]]


@contextmanager
def store_that(answers: Answers) -> Iterator[str]:
    """A server that answers each request so; its URL."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (some := connection.recv(65536)):
                head += some
            for piece in answers(head):
                connection.sendall(piece)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for module in (connection, plain):
        monkeypatch.setattr(module, "LONGEST_BODY", 1 << 20)
    monkeypatch.setattr(connection, "PATIENCE_S", 0.3)
    monkeypatch.setattr(s3_store, "_EMPTY_PAGES", 20)


def answer(body: str, status: str = "200 OK") -> bytes:
    return f'HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nETag: "{ETAG}"\r\n\r\n{body}'.encode()


def endless(status: str = "200 OK", more: str = "") -> Answers:
    def answers(_head: bytes) -> Iterator[bytes]:
        yield f'HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\nETag: "{ETAG}"\r\n{more}\r\n'.encode()
        yield from itertools.repeat(b"10000\r\n" + b"x" * 65536 + b"\r\n")

    return answers


def endless_line(_head: bytes) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield from itertools.repeat(b"1" * 65536)


def drip(_head: bytes) -> Iterator[bytes]:
    yield f'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: "{ETAG}"\r\n\r\n'.encode()[:-2]
    for _ in range(10_000):
        time.sleep(0.05)
        yield b"X"


def pages(contents: Callable[[int], str], token: Callable[[int], str]) -> Answers:
    numbers = itertools.count()

    def answers(_head: bytes) -> Iterator[bytes]:
        number = next(numbers)
        yield answer(PAGE.format(token=token(number), contents=contents(number)))

    return answers


def same_object(_number: int) -> str:
    return OBJECT.format(key="a", size=1)


@pytest.mark.parametrize(
    "answers",
    [
        endless(), endless("404 Not Found"), endless("500 Internal Server Error"), endless_line, drip,
        pages(same_object, lambda _: "same"), pages(same_object, str), pages(lambda _: "", str),
        pages(lambda number: OBJECT.format(key="abc"[number % 3], size=1), str),
    ],
    ids=[
        "endless", "endless refusal", "endless failure", "endless line", "drip",
        "same token", "same object", "empty", "in a circle",
    ],
)  # fmt: skip
def test_a_listing_ends(answers: Answers) -> None:
    with store_that(answers) as url:
        store = S3Store(connect("bucket", endpoint_url=url), pause_ms=1)
        with pytest.raises(StoreError):
            list(store.list("p/"))
        store.close()


@pytest.mark.parametrize("answers", [endless(), endless("404 Not Found"), endless_line, drip])
def test_an_object_ends(tmp_path: Path, answers: Answers) -> None:
    with store_that(answers) as url, (tmp_path / "file").open("w+b") as file:
        store = S3Store(connect("bucket", endpoint_url=url), pause_ms=1)
        with pytest.raises(StoreError):
            store.get("key")
        reference = ObjectReference("s3://bucket", "key", ETAG, None, 5)
        with suppress(StoreError):
            # Of an answer that is too long, no more is taken than the object has.
            store.fetch(reference, file.fileno()).result(60)
        assert (tmp_path / "file").stat().st_size <= 5
        store.close()


@pytest.mark.parametrize("size", ["9223372036854775808", "-5", "abc", "9" * 5000])
def test_one_object_of_a_senseless_size_hides_no_other(size: str) -> None:
    contents = OBJECT.format(key="a", size=size) + OBJECT.format(key="b", size=7)
    body = PAGE.format(token="", contents=contents).replace(">true<", ">false<")
    with store_that(lambda _head: iter([answer(body)])) as url:
        store = S3Store(connect("bucket", endpoint_url=url), pause_ms=1)
        assert [(each.key, each.size, bool(each.etag)) for each in store.list("")] == [
            ("a", 0, False),
            ("b", 7, True),
        ]
        store.close()


@pytest.mark.parametrize(
    "endpoint",
    [
        "file:///x", "192.0.2.1:80", "http://127.0.0.1:99999", "http://[::1", "https://", "gopher://127.0.0.1",
        "ftp://127.0.0.1", "http://user:PASSW0RD@127.0.0.1:1", "https://user:PASSW0RD@s3.example.org", "x",
    ],
)  # fmt: skip
def test_an_endpoint_that_is_none_is_named(gridwright: Command, tmp_path: Path, endpoint: str) -> None:
    (tmp_path / "library").mkdir()
    ended = gridwright(
        "repo", "export", "--bucket", "s3://bucket/p", "--directory", tmp_path / "library",
        "--endpoint", endpoint,
    )  # fmt: skip
    assert ended.status == 2, ended.text
    assert "Traceback" not in ended.text
    assert re.search("endpoint", ended.text)
    assert "PASSW0RD" not in ended.text


LARGE = bytes(range(251)) * ((9 << 20) // 251) + b"and no whole block"
"""Of one range, and written past the page cache where the kernel says that it can do so."""
SMALL = LARGE[:200_018]
"""Of some pieces, which threads of the native part move."""
BODIES = pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])


def head(size: int = len(LARGE)) -> bytes:
    return f'HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nETag: "{ETAG}"\r\n\r\n'.encode()


@contextmanager
def fetching(
    answers: Answers, file: int, size: int = len(LARGE)
) -> Iterator[tuple[S3Store, Future[str | None]]]:
    """A store, and an object of it on its way into a file."""
    with store_that(answers) as url:
        store = S3Store(connect("bucket", endpoint_url=url), pause_ms=1)
        try:
            yield store, store.fetch(ObjectReference("s3://bucket", "key", ETAG, None, size), file)
        finally:
            store.close()


def after_a_failure(body: bytes, *first: bytes) -> Answers:
    """The whole object, to all but the first who asks: that one is given this, and the connection breaks."""
    asked = itertools.count()

    def answers(_head: bytes) -> Iterator[bytes]:
        if next(asked) == 0:
            yield from first
        else:
            yield head(len(body))
            yield body

    return answers


@pytest.mark.parametrize(
    "first",
    [
        lambda _: (), lambda body: (head(len(body)),), lambda body: (head(len(body)), body[: len(body) // 2]),
        lambda body: (head(len(body)), body[:-1]), lambda body: (head(len(body))[:40],),
        lambda _: (b"HTTP/1.1 200 OK\r\n\r\n",),
    ],
    ids=["nothing", "head", "half", "all but a byte", "half a head", "no length"],
)  # fmt: skip
@BODIES
def test_a_body_that_breaks_off_is_asked_for_again(
    tmp_path: Path, first: Callable[[bytes], tuple[bytes, ...]], body: bytes
) -> None:
    answers = after_a_failure(body, *first(body))
    with (
        (tmp_path / "file").open("w+b") as file,
        fetching(answers, file.fileno(), len(body)) as (_, future),
    ):
        assert future.result(60) == f"{crc64(body):016x}"
    assert (tmp_path / "file").read_bytes() == body


@BODIES
def test_a_body_that_is_too_short_each_time_is_none(tmp_path: Path, body: bytes) -> None:
    answers = [head(len(body)), body[: len(body) // 2]]
    with (
        (tmp_path / "file").open("w+b") as file,
        fetching(lambda _: iter(answers), file.fileno(), len(body)) as (_, future),
    ):
        assert isinstance(future.exception(60), StoreError)


@BODIES
def test_no_more_of_a_body_is_taken_than_the_object_has(tmp_path: Path, body: bytes) -> None:
    answers = [head(len(body)), body + b"X" * 100_000]
    with (
        (tmp_path / "file").open("w+b") as file,
        fetching(lambda _: iter(answers), file.fileno(), len(body)) as (store, future),
    ):
        assert future.result(60) == f"{crc64(body):016x}"
        # What came behind it is no answer to the next request.
        file.truncate(0)
        reference = ObjectReference("s3://bucket", "key", ETAG, None, len(body))
        assert store.fetch(reference, file.fileno()).result(60) == f"{crc64(body):016x}"
    assert (tmp_path / "file").read_bytes() == body


@BODIES
def test_the_sum_of_a_body_is_of_what_came(tmp_path: Path, body: bytes) -> None:
    half = len(body) // 2
    damaged = body[:half] + b"?" + body[half + 1 :]
    answers = [head(len(body)), damaged]
    with (
        (tmp_path / "file").open("w+b") as file,
        fetching(lambda _: iter(answers), file.fileno(), len(body)) as (_, future),
    ):
        assert future.result(60) == f"{crc64(damaged):016x}" != f"{crc64(body):016x}"
    assert (tmp_path / "file").read_bytes() == damaged


@pytest.mark.parametrize("etag", ["", "1" * 32, f"{ETAG}-2"])
def test_another_object_than_was_asked_for_is_none(tmp_path: Path, etag: str) -> None:
    """A store, or a cache on the way, may ignore If-Match."""
    answers = [head(len(SMALL)).replace(ETAG.encode(), etag.encode()), SMALL]
    with (
        (tmp_path / "file").open("w+b") as file,
        fetching(lambda _: iter(answers), file.fileno(), len(SMALL)) as (_, future),
    ):
        assert isinstance(future.exception(60), StoreError)


def test_a_new_file_comes_without_a_name(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    reference = ObjectReference("s3://bucket", "key", ETAG, None, len(SMALL))
    try:
        with store_that(after_a_failure(SMALL, head(len(SMALL)), SMALL[:70_000])) as url:
            store = S3Store(connect("bucket", endpoint_url=url), pause_ms=1)
            # What came of the first answer is written over by the second one.
            for _ in range(2):
                made, crc = store.fetch_new(reference, directory).result(60)
                assert made is not None and crc == f"{crc64(SMALL):016x}"
                assert os.pread(made, len(SMALL) + 1, 0) == SMALL
                assert os.fstat(made).st_nlink == 0 and os.fstat(made).st_mode & 0o777 == 0o600
                os.close(made)
            store.close()
        assert not list(tmp_path.iterdir())
    finally:
        os.close(directory)


@BODIES
def test_a_body_that_drips_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    monkeypatch.setattr(plain, "READ_S", 1)
    monkeypatch.setattr(connection, "SLOWEST", 1 << 20)

    def dripping(_head: bytes) -> Iterator[bytes]:
        yield head(len(body)) + body[:5000]
        for _ in range(10_000):
            time.sleep(0.02)
            yield b"X"

    with (
        (tmp_path / "file").open("w+b") as file,
        fetching(dripping, file.fileno(), len(body)) as (_, future),
    ):
        assert "bytes in" in str(future.exception(30))


@pytest.mark.parametrize("size", [5, len(LARGE)])
def test_a_file_without_room_ends_its_object(size: int) -> None:
    descriptor = os.open("/dev/full", os.O_RDWR)
    try:
        answers = [head(size), LARGE[:size]]
        with fetching(lambda _head: iter(answers), descriptor, size) as (_, future):
            error = future.exception(60)
        assert isinstance(error, OSError) and error.errno == errno.ENOSPC
    finally:
        os.close(descriptor)


@BODIES
def test_a_body_under_way_is_given_up_at_once(tmp_path: Path, body: bytes) -> None:
    is_over, begun = threading.Event(), threading.Event()

    def stalled(_head: bytes) -> Iterator[bytes]:
        yield head(len(body))
        yield body[: len(body) // 2]
        begun.set()
        is_over.wait(60)

    before = set(threading.enumerate())
    with (
        (tmp_path / "file").open("w+b") as file,
        fetching(stalled, file.fileno(), len(body)) as (store, future),
    ):
        assert begun.wait(60)
        since_s = time.monotonic()
        store.close()
        assert isinstance(future.exception(1), StoreError)
        for each in set(threading.enumerate()) - before:
            if each.name in ("requests", "small files"):
                each.join(1)
                assert not each.is_alive()
        assert time.monotonic() - since_s < 1
        is_over.set()


def test_a_file_that_is_opened_past_the_page_cache_has_its_room(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        descriptor = _native.open_direct(file.fileno(), 1 << 20)
        if descriptor < 0:
            # tmpfs, or a kernel before 6.1.
            assert os.fstat(file.fileno()).st_blocks == 0
            return
        try:
            assert fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT
            assert os.fstat(descriptor).st_blocks * 512 >= 1 << 20
            assert os.path.samestat(os.fstat(descriptor), os.fstat(file.fileno()))
        finally:
            os.close(descriptor)
        # ext4 would take all that is free before it said no: this is more than any file may have there.
        blocks = os.fstat(file.fileno()).st_blocks
        assert _native.open_direct(file.fileno(), 1 << 60) == -1
        assert os.fstat(file.fileno()).st_blocks == blocks


def test_a_body_in_many_pieces_takes_few_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel waits for the rest of a piece: who asks again after each packet waits for all threads."""
    size, calls = 2_000_000, list[int]()
    receive = plain.PlainConnection.receive_into_file

    def noted(
        self: plain.PlainConnection, filled: int, file: plain.ContentFile, at: int, end: int, crc: int
    ) -> tuple[int, int, int]:
        calls.append(at)
        return receive(self, filled, file, at, end, crc)

    def in_pieces(_head: bytes) -> Iterator[bytes]:
        yield f'HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nETag: "{ETAG}"\r\n\r\n'.encode()
        for _ in range(size // 10_000):
            time.sleep(0.0005)
            yield b"x" * 10_000

    monkeypatch.setattr(plain.PlainConnection, "receive_into_file", noted)
    with store_that(in_pieces) as url, (tmp_path / "file").open("w+b") as file:
        store = S3Store(connect("site-sas", endpoint_url=url))
        try:
            reference = ObjectReference("s3://site-sas", "key", ETAG, None, size)
            assert store.fetch(reference, file.fileno()).result(timeout=60) is not None
        finally:
            store.close()
        file.seek(0)
        assert file.read() == b"x" * size
    assert len(calls) == 1


def test_an_inode_may_take_all_of_64_bits(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        content = FileContent(file.fileno())
        seen = content.status
        times = {each: getattr(seen, each) for each in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns")}
        content.status = os.stat_result((seen.st_mode, 2**64 - 1, *seen[2:10]), times)
        exchanges = _native.SmallExchanges("127.0.0.1", 9, (1, 1, 1.0, 1), (1, 1))
        exchanges.send(7, b"PUT", *content.open_file)
        assert [each[0] for each in exchanges.take()] == [7]
        exchanges.break_off()
