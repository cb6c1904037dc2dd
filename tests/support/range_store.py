"""A store that counts what is read of its objects, and can be cut off: S3's GET of ranges over HTTP."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Protocol
from urllib.parse import unquote, urlsplit

import numpy as np

from gridwright.repository.references import ObjectReference
from tests.support.http_service import QuietHandler, http_server, running, url_of

BUCKET = "site"
ETAG = "0123456789abcdef0123456789abcdef"


class Content(Protocol):
    """The bytes of an object, or what gives them."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> bytes: ...


@dataclass
class RangeStore:
    """Objects by key. `ranges` are those that were asked for, as offset and length, in order."""

    url: str = ""
    objects: dict[str, Content] = field(default_factory=dict)
    ranges: list[tuple[str, int, int]] = field(default_factory=list)
    is_cut: bool = False
    """Whether it takes requests and answers none, as a network does that loses packets."""
    delay_s: float = 0.0
    is_asked: int = 0
    """Requests that came and are not answered yet."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, key: str, content: Content) -> ObjectReference:
        """Have an object."""
        self.objects[key] = content
        return ObjectReference(f"s3://{BUCKET}", key, ETAG, None, len(content))

    def bytes_read(self, key: str) -> int:
        """How much was read of an object, what was read twice counted twice."""
        return sum(length for name, _, length in self.ranges if name == key)

    @property
    def environment(self) -> dict[str, str]:
        """What a client finds it by."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@contextmanager
def range_store() -> Iterator[RangeStore]:
    """A store on this machine, on a free port."""
    store = RangeStore()

    class Handler(QuietHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            _answer(store, self)

    server = http_server(Handler)
    store.url = url_of(server)
    with running(server):
        yield store


def _answer(store: RangeStore, handler: BaseHTTPRequestHandler) -> None:
    store.is_asked += 1
    try:
        _give(store, handler)
    finally:
        store.is_asked -= 1


def _give(store: RangeStore, handler: BaseHTTPRequestHandler) -> None:
    while store.is_cut:
        time.sleep(0.02)
    time.sleep(store.delay_s)
    key = unquote(urlsplit(handler.path).path).removeprefix(f"/{BUCKET}/")
    content = store.objects.get(key)
    if content is None:
        _send(handler, 404, b"<Error><Code>NoSuchKey</Code><Message>not there</Message></Error>")
        return
    if handler.headers.get("If-Match", f'"{ETAG}"') != f'"{ETAG}"':
        _send(handler, 412, b"<Error><Code>PreconditionFailed</Code><Message>changed</Message></Error>")
        return
    found = re.fullmatch(r"bytes=(\d+)-(\d+)", handler.headers.get("Range", ""))
    start, last = (int(found[1]), int(found[2])) if found else (0, len(content) - 1)
    part = content[start : last + 1]
    with store.lock:
        store.ranges.append((key, start, len(part)))
    extra = {"Content-Range": f"bytes {start}-{last}/{len(content)}"} if found else {}
    _send(handler, 206 if found else 200, part, extra)


def _send(
    handler: BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str] | None = None
) -> None:
    handler.send_response(status)
    for name, value in {"ETag": f'"{ETAG}"', "Content-Length": str(len(body)), **(headers or {})}.items():
        handler.send_header(name, value)
    handler.end_headers()
    try:
        handler.wfile.write(body)
    except OSError:
        handler.close_connection = True


@dataclass(frozen=True)
class Numbered:
    """Content of any size at no cost: each 8 bytes are a number that no other place has."""

    size: int

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self.size)
        first = start // 8
        words = np.arange(first, -(-stop // 8), dtype="<u8") * np.uint64(0x9E3779B97F4A7C15)
        return words.tobytes()[start - 8 * first : stop - 8 * first]
