"""A node's end of the connection to the coordinator: a thread receives orders, and answers urgent ones.

Orders go to a queue for the thread that touches the library. A ping is answered at once, an order to stop
heeded at once, whatever that thread does; an end of the connection is an order to stop, too.
"""

from __future__ import annotations

import queue
import threading
import time

from gridwright.iotest.messages import Answer, AtOnce, Clocks, Finish, Go, Numbered, Ping, Pong, Stop
from gridwright.iotest.node.connection import Connection, CoordinatorGone
from gridwright.iotest.wire import WireError
from gridwright.messages import MessageError


class NodeLink:
    """The connection, once both sides have proven themselves."""

    def __init__(self, connection: Connection, stop: threading.Event) -> None:
        """`stop` is set when the coordinator says so, or is gone."""
        self.orders: queue.Queue[Numbered | None] = queue.Queue()
        """What to do next; None when the connection has ended."""
        self.go: queue.Queue[float] = queue.Queue()
        """When to start the phase that is armed, by time.monotonic()."""
        self.finish = threading.Event()
        """Set when the phase that runs shall end as if its time were up."""
        self.gone = threading.Event()
        self._connection = connection
        self._stop = stop

    def start(self) -> None:
        """Begin to hear."""
        threading.Thread(target=self._hear, name="coordinator", daemon=True).start()

    def send(self, message: Pong | Answer) -> None:
        """Send a message. Raises CoordinatorGone, and sets `stop`, if it cannot be."""
        try:
            self._connection.send(message)
        except OSError as error:
            self._end()
            raise CoordinatorGone from error

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _hear(self) -> None:
        try:
            while True:
                self._take(self._connection.receive())
        except (OSError, WireError, MessageError, CoordinatorGone):
            self._end()

    def _take(self, message: AtOnce | Numbered) -> None:
        match message:
            case Ping(ping):
                received = _clocks()
                self.send(Pong(ping, received, _clocks()))
            case Stop():
                self._stop.set()
            case Go(at):
                self.go.put(at)
            case Finish():
                self.finish.set()
            case Numbered():
                self.orders.put(message)

    def _end(self) -> None:
        self.gone.set()
        self._stop.set()
        self.orders.put(None)


def _clocks() -> Clocks:
    return Clocks(time.monotonic(), time.time())
