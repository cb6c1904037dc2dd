"""A node's connection to its coordinator: one thread receives while others send."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gridwright.iotest.messages import ANSWERS, ORDERS, Answer, AtOnce, Hello, Numbered, Pong, Refuse
from gridwright.iotest.wire import (
    COORDINATOR,
    HEAD,
    WireError,
    frame,
    in_words,
    length_of,
    node_context,
)

CONNECT_S = 15.0
GREET_S = 15.0
SILENCE_S = 45.0
"""A coordinator that says or takes nothing for this long is gone: it sends a ping every few seconds."""
_PART = 1 << 16
Argument = TypeVar("Argument")
Value = TypeVar("Value")


class CoordinatorGone(Exception):
    """The connection to the coordinator has ended."""


class Connection:
    """A TLS connection that several threads may use: OpenSSL serves one call at a time."""

    def __init__(self, tls: ssl.SSLSocket) -> None:
        self.patience_s = GREET_S
        """How long to wait for the other side."""
        self._tls = tls
        self._tls.setblocking(False)
        self._calling = threading.Lock()
        self._sending = threading.Lock()

    def send(self, message: Hello | Pong | Answer) -> None:
        """Send a message. Raises OSError."""
        rest = memoryview(frame(ANSWERS.encode(message)))
        with self._sending:
            while rest:
                rest = rest[self._call(self._tls.send, rest) :]

    def receive(self) -> AtOnce | Numbered:
        """The next message. Raises CoordinatorGone at its end, OSError, WireError and MessageError."""
        return ORDERS.decode(self._exactly(length_of(self._exactly(HEAD.size))))

    def close(self) -> None:
        """End the connection."""
        self._tls.close()

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            chunk = self._call(self._tls.recv, min(count - len(parts), _PART))
            if not chunk:
                raise CoordinatorGone
            parts += chunk
        return bytes(parts)

    def _call(self, act: Callable[[Argument], Value], argument: Argument) -> Value:
        """Call OpenSSL, and wait outside of it. Raises TimeoutError after `patience_s`."""
        while True:
            with self._calling:
                try:
                    return act(argument)
                except ssl.SSLWantReadError:
                    wanted = select.POLLIN
                except ssl.SSLWantWriteError:
                    wanted = select.POLLOUT
            ready = select.poll()
            ready.register(self._tls, wanted)
            if not ready.poll(self.patience_s * 1000):
                raise TimeoutError(f"the coordinator was silent for {self.patience_s:.0f} s")


def connect(address: tuple[str, int], credentials: Path, hello: Hello) -> Connection:
    """Connect, say hello and be let in. Raises OSError, WireError, MessageError and CoordinatorGone."""
    try:
        context = node_context(credentials)
    except ssl.SSLError as error:
        raise WireError(f"{credentials} holds no credentials: {error.reason}") from error
    plain = socket.create_connection(address, timeout=CONNECT_S)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.settimeout(GREET_S)
    with contextlib.ExitStack() as undo:
        undo.enter_context(plain)
        try:
            tls = undo.enter_context(context.wrap_socket(plain, server_hostname=COORDINATOR))
            connection = Connection(tls)
            connection.send(hello)
            # A coordinator that does not take our certificate says so only now (RFC 8446, section 4.4).
            answer = connection.receive()
        except ssl.SSLEOFError as error:
            raise CoordinatorGone from error
        except ssl.SSLError as error:
            raise WireError(in_words(error)) from error
        if isinstance(answer, Refuse):
            raise WireError(f"the coordinator does not let us in: {answer.reason}")
        undo.pop_all()
    connection.patience_s = SILENCE_S
    return connection
