"""Requests over sockets that one thread each uses: the way of nearly all that is asked.

For an object of some kilobytes this takes a third of the CPU of clients in which requests pass several
threads and as many buffers (`bench/repository.py`; docs/performance.md). What is known here is success, and
refusals that no try would change. Whatever else comes, an error of the server, a broken connection, a
redirection, is `Unusual` and not judged here: botocore asks once more, which knows proxies and regions.

Requests are signed by the native part (AWS Signature Version 4), as botocore signs them
(`tests/unit/repository/test_signing.py`), in a small part of its time.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

from gridwright import _native
from gridwright.repository.s3 import connection
from gridwright.repository.s3.connection import (
    CONNECT_S,
    LONGEST_BODY,
    READ_S,
    AnswerLimits,
    BucketConnection,
    TooMuch,
    authority_file,
)
from gridwright.repository.s3.faults import refusal
from gridwright.repository.s3.tries import MAY_PASS
from gridwright.repository.store import StoreError, StoreFault

if TYPE_CHECKING:
    import ssl


@lru_cache(maxsize=4)
def _written_moment(now_s: int) -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))


NO_BODY = hashlib.sha256(b"").hexdigest()
"""The hash of no body at all."""
UNSIGNED = "UNSIGNED-PAYLOAD"
"""Says that the body is not signed: TLS protects it, and the CRC that the store gives back is compared."""


class Credentials(Protocol):
    """What requests are signed with, as botocore gives it."""

    access_key: str
    secret_key: str
    token: str | None


class RequestSigner:
    """Signs requests to the store of one region. Threads may share it."""

    def __init__(self, region: str, credentials: Callable[[], Credentials]) -> None:
        """`credentials` is asked for each request, so that they may be rolled over."""
        self._region = region
        self._credentials = credentials

    def head(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body_hash: str = NO_BODY,
        now_s: float | None = None,
    ) -> bytes:
        """The head of a request, up to the empty line, with the headers that sign it.

        `path` and `query` are escaped; `headers` have names in lower case, among them `host`; `now_s` is
        the time since 1970. Raises ValueError for what no header can have.
        """
        found = self._credentials()
        return _native.signed_head(
            method, path, query, list(headers.items()), body_hash,
            (found.access_key, found.secret_key, found.token or None), self._region,
            _written_moment(int(time.time() if now_s is None else now_s)),
        )  # fmt: skip


BUFFER_BYTES = 64 << 10
"""Bytes that are moved at once for small objects; the head of an answer has to fit, too."""
DIRECT_BYTES = 1 << 20
"""From so many bytes on a file is written past the page cache: small ones are flushed many at a time."""
_LONGEST_HEAD = 32 << 10
_LONGEST_LINE = 1024
"""Before a chunk of a body: its size, and extensions that nobody uses."""
_FINAL = frozenset({404, 405, 409, 412, 501})
"""Statuses of refusals that another try would not change, but for those whose code says so."""


class Unusual(Exception):
    """The answer is neither success nor a final refusal."""


class FileFault(Exception):
    """The file could not be written or read, or is not to be sent; its cause says why."""


class ContentFile:
    """A file that ranges of one object are written to, past the page cache where it is a large one.

    What lies in the page cache is copied once more, and waits for its flush. Threads share it.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        """`descriptor` is its own: a thread that is late writes into no other file. Raises OSError."""
        self.descriptor = descriptor
        try:
            self._direct = _native.open_direct(descriptor, size) if size >= DIRECT_BYTES else -1
        except OSError:
            os.close(self.descriptor)
            raise

    @property
    def descriptors(self) -> tuple[int, int]:
        """As `_native.receive_into_file` takes them."""
        return self.descriptor, self._direct

    def write_at(self, data: memoryview, offset: int) -> None:
        """Write all of it. Raises FileFault."""
        try:
            while data:
                written = os.pwrite(self.descriptor, data, offset)
                data, offset = data[written:], offset + written
        except OSError as error:
            raise FileFault from error

    def close(self, *, keep: bool = False) -> None:
        """Close it; with `keep`, the descriptor stays open."""
        if not keep:
            os.close(self.descriptor)
        if self._direct >= 0:
            os.close(self._direct)


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """What is asked for, by S3's name of it. The query is escaped, names of headers are in lower case."""

    method: str
    operation: str
    key: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


def parsed_head(text: str) -> tuple[int, dict[str, str]]:
    """The status of an answer, and its headers by their names in lower case. Raises Unusual, ValueError."""
    first, *lines = text.split("\r\n")
    if not first.startswith("HTTP/1.1 "):
        raise Unusual
    found = [each.partition(":") for each in lines]
    return int(first[9:12]), {name.lower(): value.strip() for name, _, value in found}


class PlainRequests:
    """Makes connections to one bucket, and signs what is asked over them. Threads share it."""

    def __init__(self, connection: BucketConnection) -> None:
        self._bucket = connection
        self._of_bucket = connection.path or "/"
        self.software = ""
        """What the store says it is: the header `Server` of its answers."""
        self._payer = {"x-amz-request-payer": "requester"} if connection.requester_pays else {}
        self._frozen: tuple[int, Credentials | None] = (0, None)
        self._signer = RequestSigner(connection.region, self._credentials)
        self._tls: ssl.SSLContext | None = None
        if connection.scheme == "https":
            import ssl

            self._tls = ssl.create_default_context(cafile=authority_file())
        parts = urlsplit(f"{connection.scheme}://{connection.host}")
        self._address = parts.hostname or "", parts.port or (443 if self._tls else 80)
        is_by_proxy = connection.scheme in getproxies()
        self._is_direct = not is_by_proxy or bool(proxy_bypass(connection.host))
        self._sockets: set[socket.socket] = set()
        self._is_broken_off = False

    @property
    def is_plain(self) -> bool:
        """Whether there is no TLS."""
        return self._tls is None

    def small_exchanges(self, fewest: int, most: int) -> _native.SmallExchanges | None:
        """What moves small objects without the interpreter; None where that cannot be: by TLS or a proxy."""
        if self._tls is not None or not self._is_direct:
            return None
        patience_s = connection.PATIENCE_S
        limits = CONNECT_S, READ_S, patience_s, int(patience_s * connection.SLOWEST)
        return _native.SmallExchanges(*self._address, limits, (fewest, most))

    def head(self, request: StoreRequest, length: int | None = None) -> bytes:
        """The head of a request, signed; `length` is that of its body.

        Raises Unusual without credentials, and ValueError for what no header can have.
        """
        path = f"{self._bucket.path}/{quote(request.key, safe='/~')}" if request.key else self._of_bucket
        all_headers = {"host": self._bucket.host, **self._payer, **request.headers}
        if length is not None:
            all_headers["content-length"] = str(length)
        body_hash = NO_BODY if length is None else UNSIGNED
        return self._signer.head(request.method, path, request.query, all_headers, body_hash)

    def url(self, key: str) -> str:
        """How an object is called in messages."""
        return f"s3://{self._bucket.bucket}/{key}"

    def _credentials(self) -> Credentials:
        """Those of this second: they may be rolled over."""
        of_s, found = self._frozen
        if (now_s := int(time.monotonic())) != of_s or found is None:
            from botocore.exceptions import BotoCoreError

            try:
                found = self._bucket.session.get_credentials().get_frozen_credentials()
            except BotoCoreError as error:
                # Who asks once more says what is wrong with them.
                raise Unusual from error
            self._frozen = now_s, found
        return found

    def connect(self) -> socket.socket:
        """A new connection.

        Raises Unusual where it would lead through a proxy, or all were broken off, and OSError.
        """
        if not self._is_direct or self._is_broken_off:
            raise Unusual
        # The kernel keeps the time: Python would ask it before each call whether there is anything.
        found = socket.socket(fileno=_native.connect(*self._address, CONNECT_S, READ_S))
        if self._tls is not None:
            found.settimeout(READ_S)
            found = _secure(found, self._tls, self._address[0])
        self._sockets.add(found)
        if self._is_broken_off:
            self.end(found)
            raise Unusual
        return found

    def end(self, connection: socket.socket) -> None:
        """Close one."""
        self._sockets.discard(connection)
        connection.close()

    def break_off(self) -> None:
        """End all of them, under whoever waits for them; none is made any more."""
        self._is_broken_off = True
        for each in list(self._sockets):
            _native.break_off(each.fileno())


class PlainConnection:
    """One connection, made anew where the store has ended it. One thread uses it."""

    def __init__(self, requests: PlainRequests, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.requests = requests
        self._socket: socket.socket | None = None
        self._ends = False
        self._unsent = b""
        """Of a request, what goes when its answer is waited for: each call less spares a wait for the
        interpreter."""
        self._limits = AnswerLimits()
        # Of whole pages, as direct writes want it.
        self._buffer = mmap.mmap(-1, buffer_bytes)
        self.view = memoryview(self._buffer)
        """Room for who moves contents; an answer is received into it, too."""

    @property
    def is_connected(self) -> bool:
        """Whether there is one from the request before, which the store may have ended since."""
        return self._socket is not None

    def begin(self, request: StoreRequest, length: int | None = None) -> None:
        """Begin a request; `length` is that of its body. Raises Unusual, OSError."""
        self._unsent = self.requests.head(request, length)
        if self._socket is None:
            self._socket = self.requests.connect()

    def send(self, data: memoryview, *, is_last: bool) -> None:
        """Send a piece of a request's body. Raises Unusual, OSError."""
        if self._socket is None:
            raise Unusual
        if self._unsent:
            self._unsent += data
            if not is_last:
                self._socket.sendall(self._unsent)
                self._unsent = b""
        else:
            self._socket.sendall(data)

    def answer(self, request: StoreRequest, wanted: int = 200) -> tuple[dict[str, str], int, int]:
        """The headers of an answer, by their names in lower case; where its body begins and ends so far.

        Raises StoreError for a refusal that is final, Unusual for another status than is wanted, and OSError.
        """
        self._limits.begin()
        filled = self._ask()
        while (end := self._buffer.find(b"\r\n\r\n", 0, filled)) < 0:
            if filled > _LONGEST_HEAD:
                raise Unusual
            filled += self.receive(filled, len(self.view))
        status, headers = parsed_head(str(self.view[:end], "latin-1"))
        self.requests.software = headers.get("server", "")
        self._ends = headers.get("connection", "").lower() == "close" or "transfer-encoding" in headers
        if status == wanted:
            return headers, end + 4, filled
        if status not in _FINAL:
            raise Unusual
        body = b"" if request.method == "HEAD" else self.body(headers, end + 4, filled)
        self.done()
        refused = refusal(status, body, self.requests.url(request.key), request.operation)
        if refused.fault in MAY_PASS:
            raise Unusual
        raise refused

    def body(self, headers: Mapping[str, str], start: int, filled: int) -> bytes:
        """All of an answer's body, of which the view has the beginning. Raises Unusual, OSError."""
        have = bytearray(self.view[start:filled])
        if "transfer-encoding" in headers:
            found, is_clean = self._chunks(have)
            self._ends = not is_clean or headers.get("connection", "").lower() == "close"
            return found
        length = int(headers.get("content-length", "-1"))
        if not len(have) <= length <= LONGEST_BODY:
            raise Unusual
        while len(have) < length:
            have += self.view[: self.receive(0, min(len(self.view), length - len(have)))]
        return bytes(have)

    def _chunks(self, have: bytearray) -> tuple[bytes, bool]:
        """A body in chunks (RFC 9112, 7.1), and whether nothing came behind it."""
        found = bytearray()
        while True:
            while (end := have.find(b"\r\n")) < 0:
                if len(have) > _LONGEST_LINE:
                    raise Unusual
                have += self.view[: self.receive(0, len(self.view))]
            size = int(have[:end].partition(b";")[0], 16)
            if size < 0 or len(found) + size > LONGEST_BODY:
                raise Unusual
            while len(have) < end + size + 4:
                have += self.view[: self.receive(0, len(self.view))]
            found += have[end + 2 : end + 2 + size]
            if not size:
                return bytes(found), bytes(have[end:]) == b"\r\n\r\n"
            del have[: end + size + 4]

    def _ask(self) -> int:
        """Send what is left of a request, and receive the beginning of its answer, as `receive` does."""
        unsent, self._unsent = self._unsent, b""
        if self._socket is None:
            raise Unusual
        if not self.requests.is_plain:
            self._socket.sendall(unsent)
            return self.receive(0, len(self.view))
        got, waited_s = _native.ask(self._socket.fileno(), unsent, self._buffer)
        if not got:
            raise Unusual
        self._count(got, waited_s)
        return got

    def receive(self, start: int, end: int) -> int:
        """Receive into a part of the view; how much.

        Raises Unusual at the end of the connection, StoreError where it comes too slowly, and OSError.
        """
        since_s = time.monotonic()
        got = self._socket.recv_into(self.view[start:end]) if self._socket is not None else 0
        if not got:
            raise Unusual
        self._count(got, time.monotonic() - since_s)
        return got

    def receive_into_file(
        self, filled: int, file: ContentFile, at: int, end: int, crc: int
    ) -> tuple[int, int, int]:
        """Have some of a body written, of which the view has `filled` bytes that belong to `at`.

        The same three of what is left. Raises FileFault, and as `receive`.
        """
        if self._socket is None:
            raise Unusual
        if not self.requests.is_plain:
            wanted = min(len(self.view), end - at)
            if filled < wanted:
                return filled + self.receive(filled, wanted), at, crc
            # All that is to be written is here: nothing is received past TLS.
            end = at + wanted
        filled, at, crc, got, waited_s, number = _native.receive_into_file(
            self._socket.fileno(), self._buffer, filled, file.descriptors, at, end, crc
        )
        if number:
            raise FileFault from OSError(number, os.strerror(number))
        self._count(got, waited_s)
        return filled, at, crc

    def _count(self, got: int, waited_s: float) -> None:
        try:
            self._limits.got(got, waited_s)
        except TooMuch as error:
            # Nobody else is asked: botocore would wait for as long again, or longer.
            self.close()
            raise StoreError(StoreFault.UNREACHABLE, self.requests.url(""), str(error)) from error

    def taken(self, request: StoreRequest, wanted: int = 200) -> dict[str, str]:
        """The headers of an answer whose body says nothing. Raises StoreError, Unusual, OSError."""
        headers, start, filled = self.answer(request, wanted)
        if request.method != "HEAD" and int(headers.get("content-length", "0")) != filled - start:
            self._ends = True
        self.done()
        return headers

    def done(self) -> None:
        """Keep the connection for the next request, unless the store ends it."""
        if self._ends:
            self.close()

    def close(self) -> None:
        """End the connection; the next request makes one."""
        if self._socket is not None:
            self.requests.end(self._socket)
            self._socket = None


def _secure(plain: socket.socket, tls: ssl.SSLContext, host: str) -> socket.socket:
    try:
        return tls.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
