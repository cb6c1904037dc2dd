"""A store of anybody holds no command for ever, and takes no memory without bound."""

from __future__ import annotations

import itertools
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gridwright.repository.references import ObjectReference
from gridwright.repository.s3 import patience, plain, s3_store
from gridwright.repository.s3.connection import connect
from gridwright.repository.s3.s3_store import S3Store
from gridwright.repository.store import StoreError
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
    for module in (patience, plain):
        monkeypatch.setattr(module, "LONGEST_BODY", 1 << 20)
    monkeypatch.setattr(patience, "PATIENCE_S", 0.3)
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


def test_a_body_in_many_pieces_takes_few_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel waits for the rest of a piece: who asks again after each packet waits for all threads."""
    size, calls = 200_000, list[int]()
    receive = plain.PlainConnection.receive

    def noted(self: plain.PlainConnection, start: int, end: int, **more: bool) -> int:
        calls.append(receive(self, start, end, **more))
        return calls[-1]

    def in_pieces(_head: bytes) -> Iterator[bytes]:
        yield f'HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nETag: "{ETAG}"\r\n\r\n'.encode()
        for _ in range(size // 1000):
            time.sleep(0.0005)
            yield b"x" * 1000

    monkeypatch.setattr(plain.PlainConnection, "receive", noted)
    with store_that(in_pieces) as url, (tmp_path / "file").open("w+b") as file:
        store = S3Store(connect("site-sas", endpoint_url=url))
        try:
            reference = ObjectReference("s3://site-sas", "key", ETAG, None, size)
            assert store.fetch(reference, file.fileno()).result(timeout=60) is not None
        finally:
            store.close()
        file.seek(0)
        assert file.read() == b"x" * size
    assert len(calls) <= 2 + -(-size // plain.BUFFER_BYTES)
