"""Requests whose answer is the plain one that was hoped for, over connections that one thread each uses.

For an object of some kilobytes this takes a third of the CPU of awscrt, whose requests pass several threads
and as many buffers (`bench/repository.py`; docs/performance.md). One answer alone is known here: that all was
done. Whatever else comes, an error, another object, a broken connection, is `Unusual` and not judged here:
who asked asks once more by awscrt or botocore, which know what to try again, and when, and what to say.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

from gridwright.repository.s3.connection import CONNECT_S, READ_S, BucketConnection, authority_file
from gridwright.repository.s3.signing import NO_BODY, Credentials, RequestSigner

if TYPE_CHECKING:
    import ssl

BUFFER_BYTES = 256 << 10
"""Bytes that are moved at once; the head of an answer has to fit, too."""
_LONGEST_HEAD = 32 << 10
_OK = b"HTTP/1.1 200"
_TIMEOUT = struct.pack("@ll", READ_S, 0)
"""A `struct timeval`."""


class Unusual(Exception):
    """The answer is not the plain one that was hoped for."""


class PlainRequests:
    """Makes connections to one bucket, and signs what is asked over them. Threads share it."""

    def __init__(self, connection: BucketConnection) -> None:
        self._bucket = connection
        self._payer = {"x-amz-request-payer": "requester"} if connection.requester_pays else {}
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

    def head(
        self, method: str, key: str, query: str, headers: Mapping[str, str], body_hash: str = NO_BODY
    ) -> bytes:
        """The head of a request, signed. `query` is escaped, and empty for none.

        Raises Unusual where credentials cannot be had.
        """
        path = f"{self._bucket.path}/{quote(key, safe='/~')}"
        all_headers = {"host": self._bucket.host, **self._payer, **headers}
        signed = self._signer.signed(method, path, query, all_headers, body_hash)
        lines = "".join([f"{name}: {value}\r\n" for name, value in signed.items()])
        return f"{method} {path}{'?' if query else ''}{query} HTTP/1.1\r\n{lines}\r\n".encode()

    def _credentials(self) -> Credentials:
        from botocore.exceptions import BotoCoreError

        try:
            found: Credentials = self._bucket.session.get_credentials().get_frozen_credentials()
        except BotoCoreError as error:
            # Who asks once more says what is wrong with them.
            raise Unusual from error
        return found

    def connect(self) -> socket.socket:
        """A new connection.

        Raises Unusual where it would lead through a proxy, or all were broken off, and OSError.
        """
        if not self._is_direct or self._is_broken_off:
            raise Unusual
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
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class PlainConnection:
    """One connection, made anew where the store has ended it. One thread uses it."""

    def __init__(self, requests: PlainRequests) -> None:
        self.requests = requests
        self._socket: socket.socket | None = None
        self._ends = False
        self._buffer = bytearray(BUFFER_BYTES)
        self.view = memoryview(self._buffer)
        """Room for who moves contents; an answer is received into it, too."""

    @property
    def is_kept(self) -> bool:
        """Whether there is one from the request before, which the store may have ended since."""
        return self._socket is not None

    def send(self, data: bytes | memoryview) -> None:
        """Send a piece of a request. Raises Unusual, OSError."""
        if self._socket is None:
            self._socket = self.requests.connect()
        self._socket.sendall(data)

    def answer(self) -> tuple[dict[str, str], int, int]:
        """The headers of an answer, by their names in lower case; where its body begins and ends so far.

        Raises Unusual where it says anything but 200, and OSError.
        """
        filled, end = 0, -1
        while end < 0:
            filled += self.receive(filled, BUFFER_BYTES)
            end = self._buffer.find(b"\r\n\r\n", 0, filled)
            if end < 0 and filled > _LONGEST_HEAD:
                raise Unusual
        if not self._buffer.startswith(_OK):
            raise Unusual
        lines = str(self.view[:end], "latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in [each.partition(":") for each in lines[1:]]
        }
        self._ends = headers.get("connection", "").lower() == "close" or "transfer-encoding" in headers
        return headers, end + 4, filled

    def receive(self, start: int, end: int) -> int:
        """Receive into a part of the view; how much. Raises Unusual at the end of the connection, OSError."""
        got = self._socket.recv_into(self.view[start:end]) if self._socket is not None else 0
        if not got:
            raise Unusual
        return got

    def taken(self) -> dict[str, str]:
        """The headers of an answer without a body, or with one that says nothing. Raises Unusual, OSError."""
        headers, start, filled = self.answer()
        if int(headers.get("content-length", "0")) != filled - start:
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
