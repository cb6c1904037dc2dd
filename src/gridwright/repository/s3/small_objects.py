"""Brings small objects, in threads: each asks over a connection of its own, and writes what comes at once.

For objects of some kilobytes this takes a third of the CPU of awscrt, whose requests pass four threads and
as many buffers (`bench/repository.py`; docs/performance.md). It knows one answer alone: all of the very
object that was asked for. Whatever else comes, an error, another object, a broken connection, is not judged
here: the object is asked for once more by awscrt, which knows what to try again, and when, and what to say.
"""

from __future__ import annotations

import os
import queue
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from gridwright.repository.references import ObjectReference
from gridwright.repository.s3.connection import CONNECT_S, READ_S, BucketConnection, authority_file
from gridwright.repository.s3.signing import RequestSigner
from gridwright.repository.store import Progress, StoreError, StoreFault

if TYPE_CHECKING:
    import ssl

_THREADS = 64
_BUFFER_BYTES = 256 << 10
"""Bytes that are written at once; the head of an answer has to fit, too."""
_LONGEST_HEAD = 32 << 10
_OK = b"HTTP/1.1 200"
_TIMEOUT = struct.pack("@ll", READ_S, 0)
"""A `struct timeval`."""
Otherwise = Callable[[], "Future[str | None]"]
"""Has the same object brought in another way."""


class _Unusual(Exception):
    """The answer is not the plain object."""


class _NotWritten(Exception):
    """The file took nothing more; its cause is an OSError."""


@dataclass(slots=True)
class _Wanted:
    reference: ObjectReference
    descriptor: int
    progress: Progress | None
    otherwise: Otherwise
    future: Future[str | None] = field(default_factory=Future)


class SmallFetching:
    """Brings objects of one bucket, each by one request. Threads begin with the first objects."""

    def __init__(self, connection: BucketConnection) -> None:
        self._connection = connection
        self._payer = {"x-amz-request-payer": "requester"} if connection.requester_pays else {}
        credentials = connection.session.get_credentials()
        self._signer = RequestSigner(connection.region, credentials.get_frozen_credentials)
        self._waiting: queue.SimpleQueue[_Wanted | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._under_way: set[Future[str | None]] = set()
        self._sockets: set[socket.socket] = set()
        self._is_closed = False
        self._tls = None
        if connection.scheme == "https":
            import ssl

            self._tls = ssl.create_default_context(cafile=authority_file())

    def fetch(
        self,
        reference: ObjectReference,
        descriptor: int,
        progress: Progress | None,
        otherwise: Otherwise,
    ) -> Future[str | None]:
        """Write the very object that is referred to into an open, empty file; the future has its CRC-64/NVME.

        The future's exception is an OSError of the file, or what `otherwise` has.
        """
        wanted = _Wanted(reference, descriptor, progress, otherwise)
        wanted.future.set_running_or_notify_cancel()
        with self._lock:
            self._under_way.add(wanted.future)
            needs_thread = len(self._threads) < min(_THREADS, len(self._under_way))
        self._waiting.put(wanted)
        if needs_thread:
            self._threads.append(threading.Thread(target=self._work, name="small objects", daemon=True))
            self._threads[-1].start()
        return wanted.future

    def close(self) -> None:
        """Give up what is under way, at once: nobody waits for a store that does not answer."""
        self._is_closed = True
        with self._lock:
            futures, sockets = list(self._under_way), list(self._sockets)
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for future in futures:
            self._end(future, error=StoreError(StoreFault.UNREACHABLE, "", "it was given up"))
        for _ in self._threads:
            self._waiting.put(None)
        for thread in self._threads:
            thread.join(1.0)

    def _work(self) -> None:
        asking = _Asking(self._connection, self._tls, self._sockets)
        while (wanted := self._waiting.get()) is not None:
            if wanted.future.done():
                continue
            try:
                crc64 = self._bring(asking, wanted)
            except _NotWritten as error:
                asking.close()
                self._end(wanted.future, error=error.__cause__)
            except (_Unusual, OSError, ValueError):
                asking.close()
                self._bring_otherwise(wanted)
            except BaseException as error:
                asking.close()
                self._end(wanted.future, error=error)
            else:
                if wanted.progress is not None:
                    wanted.progress(wanted.reference.size)
                self._end(wanted.future, crc64)
        asking.close()

    def _bring(self, asking: _Asking, wanted: _Wanted) -> str:
        reference, connection = wanted.reference, self._connection
        path = f"{connection.path}/{quote(reference.key, safe='/~')}"
        version = reference.version_id
        query = f"versionId={quote(version, safe='')}" if version else ""
        headers = {"host": connection.host, "if-match": f'"{reference.etag}"', **self._payer}
        signed = self._signer.signed("GET", path, query, headers)
        target = f"{path}?{query}" if query else path
        if asking.is_kept:
            # The store may have ended a connection that waited; a new one tells.
            with suppress(_Unusual, OSError):
                asking.ask(target, signed)
                return asking.receive(reference, wanted.descriptor)
            asking.close()
        asking.ask(target, signed)
        return asking.receive(reference, wanted.descriptor)

    def _bring_otherwise(self, wanted: _Wanted) -> None:
        if self._is_closed:
            self._end(wanted.future, error=StoreError(StoreFault.UNREACHABLE, "", "it was given up"))
            return

        def ended(done: Future[str | None]) -> None:
            error = done.exception()
            self._end(wanted.future, None if error else done.result(), error)

        try:
            wanted.otherwise().add_done_callback(ended)
        except BaseException as error:
            self._end(wanted.future, error=error)

    def _end(
        self, future: Future[str | None], crc64: str | None = None, error: BaseException | None = None
    ) -> None:
        with self._lock:
            if future not in self._under_way:
                return
            self._under_way.discard(future)
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(crc64)


class _Asking:
    """One connection to a store, made anew where the store has ended it. One thread uses it."""

    def __init__(
        self, connection: BucketConnection, tls: ssl.SSLContext | None, sockets: set[socket.socket]
    ) -> None:
        parts = urlsplit(f"{connection.scheme}://{connection.host}")
        self._address = parts.hostname or "", parts.port or (443 if tls else 80)
        self._tls = tls
        self._sockets = sockets
        self._socket: socket.socket | None = None
        self._ends = False
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)

    @property
    def is_kept(self) -> bool:
        """Whether there is one from the request before."""
        return self._socket is not None

    def ask(self, target: str, headers: dict[str, str]) -> None:
        """Send a GET. Raises OSError."""
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        request = f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode()
        if self._socket is None:
            self._socket = self._connected()
        self._socket.sendall(request)

    def receive(self, reference: ObjectReference, descriptor: int) -> str:
        """Write the answer's body into a file; its CRC-64/NVME. Raises _Unusual, _NotWritten, OSError."""
        from awscrt.checksums import crc64nvme

        start, filled = self._head(reference)
        left, offset, crc = reference.size, 0, 0
        while True:
            while filled - start < left and filled < len(self._buffer):
                filled += self._receive(filled, start + left)
            piece = self._view[start:filled]
            crc = crc64nvme(piece, crc)
            _write(descriptor, piece, offset)
            offset, left = offset + len(piece), left - len(piece)
            if not left:
                break
            start = filled = 0
        if self._ends:
            self.close()
        return f"{crc:016x}"

    def _head(self, reference: ObjectReference) -> tuple[int, int]:
        """Read and judge the head of an answer: where the body begins in the buffer, and what is filled."""
        filled, end = 0, -1
        while end < 0:
            filled += self._receive(filled, len(self._buffer))
            end = self._buffer.find(b"\r\n\r\n", 0, filled)
            if end < 0 and filled > _LONGEST_HEAD:
                raise _Unusual
        lines = bytes(self._view[:end]).split(b"\r\n")
        headers = {name.lower(): value.strip() for name, _, value in [each.partition(b":") for each in lines]}
        if (
            not lines[0].startswith(_OK)
            or int(headers.get(b"content-length", b"-1")) != reference.size
            or headers.get(b"etag", b"").strip(b'"') != reference.etag.encode()
            or b"transfer-encoding" in headers
            or b"content-encoding" in headers
            or filled - end - 4 > reference.size
        ):
            raise _Unusual
        self._ends = headers.get(b"connection", b"").lower() == b"close"
        return end + 4, filled

    def _receive(self, start: int, end: int) -> int:
        got = self._socket.recv_into(self._view[start:end]) if self._socket is not None else 0
        if not got:
            raise _Unusual
        return got

    def _connected(self) -> socket.socket:
        found = socket.create_connection(self._address, CONNECT_S)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls is not None:
            found.settimeout(READ_S)
            found = _secure(found, self._tls, self._address[0])
        else:
            # The kernel keeps the time: Python would ask it before each call whether there is anything.
            found.settimeout(None)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEOUT)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEOUT)
        self._sockets.add(found)
        return found

    def close(self) -> None:
        """End the connection; the next request makes one."""
        if self._socket is not None:
            self._sockets.discard(self._socket)
            self._socket.close()
            self._socket = None


def _secure(plain: socket.socket, tls: ssl.SSLContext, host: str) -> socket.socket:
    try:
        return tls.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _write(descriptor: int, data: memoryview, offset: int) -> None:
    try:
        while data:
            written = os.pwrite(descriptor, data, offset)
            data, offset = data[written:], offset + written
    except OSError as error:
        raise _NotWritten from error
