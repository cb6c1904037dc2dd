"""A node's end of the connection to the coordinator: a thread that hears, and answers what cannot wait.

Orders go to a queue for the thread that touches the library. A ping is answered at once, an order to stop
heeded at once, whatever that thread does; an end of the connection is an order to stop, too.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Callable

from gridwright.iotest.wire import (
    HEAD,
    Channel,
    Handshake,
    Message,
    Opener,
    Sealer,
    WireError,
    nonce,
    text_of,
)

CONNECT_S = 15.0
GREET_S = 15.0
SILENCE_S = 45.0
"""A coordinator that says or takes nothing for this long is gone: it sends a ping every few seconds."""


class CoordinatorGone(Exception):
    """The connection to the coordinator has ended."""


def connect(
    address: tuple[str, int], secret: bytes, node: str, version: str
) -> tuple[socket.socket, Channel]:
    """Connect and shake hands. Raises OSError and WireError."""
    connection = socket.create_connection(address, timeout=CONNECT_S)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(GREET_S)
        sealer, opener = Sealer(), Opener()
        own = nonce()
        connection.sendall(sealer.seal({"gridwright": version, "node": node, "nonce": own}))
        answer = receive(connection, opener)
        handshake = Handshake(secret, node, own, text_of(answer, "nonce"))
        handshake.check("coordinator", answer)
        connection.sendall(sealer.seal({"proof": handshake.proof("node")}))
    except BaseException:
        connection.close()
        raise
    return connection, handshake.channel("node")


def receive(connection: socket.socket, opener: Opener) -> Message:
    """The next message. Raises CoordinatorGone at the end of the connection, OSError and WireError."""
    length, tag = opener.expect(_exactly(connection, HEAD.size))
    return opener.open(tag, _exactly(connection, length))


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        chunk = connection.recv(min(count - len(parts), 1 << 16))
        if not chunk:
            raise CoordinatorGone
        parts += chunk
    return bytes(parts)


class NodeLink:
    """The connection, once both sides have proven themselves."""

    def __init__(self, connection: socket.socket, channel: Channel, stop: threading.Event) -> None:
        """`stop` is set when the coordinator says so, or is gone."""
        self.orders: queue.Queue[Message | None] = queue.Queue()
        """What to do next; None when the connection has ended."""
        self.go: queue.Queue[float] = queue.Queue()
        """When to start the phase that is armed, by time.monotonic()."""
        self.finish = threading.Event()
        """Set when the phase that runs shall end as if its time were up."""
        self.gone = threading.Event()
        self._connection = connection
        self._channel = channel
        self._stop = stop
        self._sending = threading.Lock()
        self._clock: Callable[[], dict[str, float]] = lambda: {
            "monotonic": time.monotonic(),
            "wall": time.time(),
        }

    def start(self) -> None:
        """Begin to hear."""
        threading.Thread(target=self._hear, name="coordinator", daemon=True).start()

    def send(self, message: Message) -> None:
        """Send a message. Raises CoordinatorGone, and sets `stop`, if it cannot be."""
        try:
            with self._sending:
                self._connection.sendall(self._channel.sealer.seal(message))
        except OSError as error:
            self._end()
            raise CoordinatorGone from error

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _hear(self) -> None:
        try:
            # One limit for both directions: what is sent is taken at once, or the coordinator is gone.
            self._connection.settimeout(SILENCE_S)
            while True:
                self._take(receive(self._connection, self._channel.opener))
        except (OSError, WireError, CoordinatorGone):
            self._end()

    def _take(self, message: Message) -> None:
        order = message.get("do")
        if order == "ping":
            received = self._clock()
            self.send(
                {"say": "pong", "ping": message["ping"], "received": received, "answered": self._clock()}
            )
        elif order == "stop":
            self._stop.set()
        elif order == "go":
            self.go.put(float(message["at"]))
        elif order == "finish":
            self.finish.set()
        else:
            self.orders.put(message)

    def _end(self) -> None:
        self.gone.set()
        self._stop.set()
        self.orders.put(None)
