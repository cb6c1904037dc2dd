"""Somebody on the network between a node and its coordinator, who hears all and may change what goes by."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

Change = Callable[[str, int, bytes], bytes]
"""What to pass on instead of some bytes: by direction ("up" to the coordinator, "down" to the node), and how
many bytes have gone that way before."""


class Proxy:
    """Passes on every connection to `port` of this machine; as a context."""

    def __init__(self) -> None:
        self.change: Change = lambda _direction, _before, data: data
        self.heard = {"up": bytearray(), "down": bytearray()}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = [self._listener]
        self._to = 0

    def to(self, port: int) -> int:
        """Begin to pass on to a port; returns the one to connect to instead."""
        self._to = port
        threading.Thread(target=self._accept, daemon=True).start()
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                node, _ = self._listener.accept()
                coordinator = socket.create_connection(("127.0.0.1", self._to))
                self._ends += [node, coordinator]
                for direction, source, sink in (("up", node, coordinator), ("down", coordinator, node)):
                    threading.Thread(
                        target=self._pass_on, args=(direction, source, sink), daemon=True
                    ).start()

    def _pass_on(self, direction: str, source: socket.socket, sink: socket.socket) -> None:
        heard = self.heard[direction]
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                changed = self.change(direction, len(heard), data)
                heard += data
                sink.sendall(changed)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
