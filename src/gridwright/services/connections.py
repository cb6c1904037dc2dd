"""Connections to a service that listens: bounded in number, in all and of each address, and in time.

A connection waits for its request, and is shut when that is not whole in time. Where there is no room for
another one, that which has waited longest makes room: who is silent on purpose keeps nobody out, also where
all come through one load balancer or are users of one machine. A connection whose request is whole stays
until it is answered, for no longer than an answer may take.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many connections there may be at the same time, and for how long."""

    in_all: int
    of_one_peer: int
    """Of one address; of a proxy there may be as many as in all."""
    request_s: float
    """From its beginning, or its last answer, to the end of a request."""
    answer_s: float
    """From there to the end of the answer."""


def peer_of(address: str) -> str:
    """Who an address is counted as: itself, or the network of 64 bits that an IPv6 host can choose from."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    mapped = found.ipv4_mapped
    return str(mapped or ipaddress.ip_network((found, 64), strict=False).network_address)


class AcceptedConnection(socket.socket):
    """A connection that was accepted; its room is free again when it is closed."""

    listener: Listener
    peer: str = ""
    ends_at: float = 0.0
    """When it is shut, by the clock of `time.monotonic`."""
    waits: bool = True
    """For its request, and makes room for others."""
    _other: socket.socket | None = None

    def keep_other(self) -> None:
        """Have a descriptor of its own to be shut by: TLS takes the one that this has."""
        self._other = socket.socket(self.family, self.type, self.proto, fileno=os.dup(self.fileno()))

    def shut(self) -> None:
        """End it in both directions: who waits for it gets an error, or the end. The lock is held."""
        with contextlib.suppress(OSError):
            (self._other or self).shutdown(socket.SHUT_RDWR)

    def _real_close(self, *arguments: Any) -> None:  # noqa: ANN401 - as the base has them
        with self.listener.lock:
            self.listener.forget(self)
            if self._other is not None:
                self._other.close()
            super()._real_close(*arguments)  # type: ignore[misc]


class Listener(socket.socket):
    """A socket that listens, for one thread or event loop, and accepts within its bounds.

    Until `bounds` is set there are none.
    """

    bounds: Bounds | None = None
    proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - as the base has them
        super().__init__(*arguments, **named)
        self.lock = threading.RLock()
        self._open: dict[int, AcceptedConnection] = {}
        self._changed = threading.Condition(self.lock)
        self._watches = False

    def accept(self) -> tuple[AcceptedConnection, Any]:
        """The next connection, for which another one was shut if need be.

        Raises ConnectionAbortedError where all others are being answered; OSError, as the base does.
        """
        number, address = self._accept()  # type: ignore[attr-defined]
        found = AcceptedConnection(self.family, self.type, self.proto, fileno=number)
        found.listener = self
        # The base has a timeout of the listener inherited by nobody, either.
        found.setblocking(True)
        host = str(address[0])
        found.peer = peer_of(host)
        with self.lock:
            has_room = self._make_room(found.peer, is_proxy=is_among(host, self.proxies))
            if has_room:
                self._open[number] = found
                self._bound(found, waits=True)
        if not has_room:
            found.close()
            raise ConnectionAbortedError
        return found, address

    def answers(self, descriptor: int) -> None:
        """The request of a connection is whole."""
        self._change(descriptor, waits=False)

    def waits(self, descriptor: int) -> None:
        """A connection is answered, and may have another request."""
        self._change(descriptor, waits=True)

    def _change(self, descriptor: int, *, waits: bool) -> None:
        with self.lock:
            found = self._open.get(descriptor)
            if found is not None and found.waits != waits:
                self._bound(found, waits=waits)

    def _bound(self, connection: AcceptedConnection, *, waits: bool) -> None:
        if self.bounds is None:
            return
        connection.waits = waits
        seconds = self.bounds.request_s if waits else self.bounds.answer_s
        connection.ends_at = time.monotonic() + seconds
        if not self._watches:
            self._watches = True
            threading.Thread(target=self._watch, name="connections", daemon=True).start()
        self._changed.notify()

    def _make_room(self, peer: str, *, is_proxy: bool) -> bool:
        if self.bounds is None:
            return True
        of_peers = Counter(each.peer for each in self._open.values())
        if not is_proxy and of_peers[peer] >= self.bounds.of_one_peer:
            return self._shut_longest_waiting(peer)
        if len(self._open) < self.bounds.in_all:
            return True
        return self._shut_longest_waiting(None)

    def _shut_longest_waiting(self, peer: str | None) -> bool:
        """Shut the one, of an address if one is named, that waits longest; False where none waits."""
        waiting = [each for each in self._open.values() if each.waits and peer in {None, each.peer}]
        if not waiting:
            return False
        longest = min(waiting, key=lambda each: each.ends_at)
        longest.shut()
        self.forget(longest)
        return True

    def forget(self, connection: AcceptedConnection) -> None:
        """Count a connection no more. The lock is held."""
        for number, each in list(self._open.items()):
            if each is connection:
                del self._open[number]

    def _watch(self) -> None:
        """Shut what has had its time. Ends when nothing is open, so that no listener is held by it."""
        with self.lock:
            while self._open:
                now = time.monotonic()
                for each in [each for each in self._open.values() if each.ends_at <= now]:
                    each.shut()
                    self.forget(each)
                if self._open:
                    self._changed.wait(min(each.ends_at for each in self._open.values()) - now)
            self._watches = False


def is_among(host: str, networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]) -> bool:
    """Whether an address is in one of these networks, also one of IPv4 in the form of IPv6."""
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None) or address
    return any(mapped in network for network in networks)
