"""Connections to a service that listens: bounded in number, in all and of each peer, and in time.

A connection waits for its request, and is shut when that is not whole in time. Where there is no room for
another one, one of the peer that has most makes room: a peer is a user of this machine, or an address. Of its
connections it is that which has been silent longest: who is silent on purpose keeps nobody out, also where
all come through one load balancer. Where none is silent it is the newest, for the others are read next. A
connection whose request is whole stays until it is answered, for no longer than an answer may take. All
bounds leave descriptors for files.

On one machine all users have the same addresses. So the kernel is asked whose socket is at the other end
(sock_diag(7), inet_diag_req_v2 of linux/inet_diag.h: one exact look-up, which needs no privilege). A socket
of another machine is not found there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import ipaddress
import os
import resource
import socket
import struct
import sys
import termios
import threading
import time
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

_INT = struct.Struct("i")
_FOR_FILES = 256
"""Descriptors that are left for files and children of the service, where half of all are more than that."""
_OF_ONE = 2
"""Descriptors of one connection: see `AcceptedConnection.keep_other`."""
_ENDING = 32
"""How many that were shut may still have their descriptors, beside those that are open."""
_ENDS_S = 0.001
"""For these to end."""
_WAITING = 1024
"""Connections that the kernel keeps for a service that is busy."""
_PAUSE_S = 0.02
"""Where a connection cannot be accepted, until the next try: it goes on to wait in the kernel meanwhile."""
_NOT_OF_ACCEPTING = frozenset(
    {errno.EAGAIN, errno.EINTR, errno.EBADF, errno.EFAULT, errno.EINVAL, errno.ENOTSOCK, errno.EOPNOTSUPP}
)
"""Errors of accept(2) that say nothing of a connection or of resources."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many connections there may be at the same time, and for how long."""

    in_all: int
    of_one_peer: int
    """Of one user of this machine or one address; of a proxy there may be as many as in all."""
    request_s: float
    """From its beginning, or its last answer, to the end of a request."""
    answer_s: float
    """From there to the end of the answer."""


def allow_descriptors(wanted: int) -> int:
    """Raise the limit of open files as far as wanted; give what it is then (RLIMIT_NOFILE, getrlimit(2))."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def within_descriptors(bounds: Bounds) -> Bounds:
    """The bounds that the limit of open files allows, which is raised as far as they need and it can be."""
    needed = _FOR_FILES + _OF_ONE * (bounds.in_all + _ENDING)
    limit = allow_descriptors(needed)
    if limit >= needed:
        return bounds
    room = max(1, (limit - min(_FOR_FILES, limit // 2)) // _OF_ONE - min(_ENDING, limit // 16))
    return replace(bounds, in_all=min(bounds.in_all, room), of_one_peer=min(bounds.of_one_peer, room))


class AcceptedConnection(socket.socket):
    """A connection that was accepted; its room is free again when it is closed."""

    listener: Listener
    peer: str = ""
    """Who it is counted as; see `peers`."""
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

    def is_silent(self) -> bool:
        """Whether nothing of its request waits to be read: who has just asked makes room for nobody."""
        try:
            # Bytes in the queue (FIONREAD, tcp(7)); recv would wait for the socket's timeout.
            left = fcntl.ioctl((self._other or self).fileno(), termios.FIONREAD, bytes(_INT.size))
        except (OSError, ValueError):
            return True
        return _INT.unpack(left) == (0,)

    def _real_close(self, *arguments: Any) -> None:  # noqa: ANN401 - as the base has them
        with self.listener.lock:
            self.listener.forget(self)
            self.listener.ending.discard(self)
            if self._other is not None:
                self._other.close()
            super()._real_close(*arguments)  # type: ignore[misc]


def _after_a_pause(seconds: float) -> ConnectionAbortedError:
    """For who accepts in a loop, which is to be no busy one."""
    time.sleep(seconds)
    return ConnectionAbortedError()


class Listener(socket.socket):
    """A socket that listens, for one thread or event loop, and accepts within its bounds.

    Until `bounds` is set there are none.
    """

    bounds: Bounds | None = None
    proxies: tuple[Network, ...] = ()

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - as the base has them
        super().__init__(*arguments, **named)
        self.lock = threading.RLock()
        self._open: dict[int, AcceptedConnection] = {}
        self._changed = threading.Condition(self.lock)
        self._watches = False
        self._users = _PeerUsers()
        self.ending: set[AcceptedConnection] = set()
        """Those that were shut, and have their descriptors until whoever serves them closes them."""

    def accept(self) -> tuple[AcceptedConnection, Any]:
        """The next connection, for which another one was shut if need be.

        Raises ConnectionAbortedError where all others are being answered, or where the system has no room
        for it: it is tried again then, after a pause, and that which waits longest makes room. Raises other
        OSError as the base does.
        """
        with self.lock:
            has_many = self.bounds is not None and len(self.ending) >= min(_ENDING, self.bounds.in_all)
        if has_many:
            # They end as soon as their threads, or the event loop, come to it.
            raise _after_a_pause(_ENDS_S)
        try:
            number, address = self._accept()  # type: ignore[attr-defined]
        except OSError as error:
            if error.errno is None or error.errno in _NOT_OF_ACCEPTING:
                raise
            with self.lock:
                self._shut_one_of_most()
            raise _after_a_pause(_PAUSE_S) from error
        connection = AcceptedConnection(self.family, self.type, self.proto, fileno=number)
        connection.listener = self
        # The base has a timeout of the listener inherited by nobody, either.
        connection.setblocking(True)
        connection.peer = self._users.peer(connection, address[:2])
        with self.lock:
            has_room = self._make_room(connection.peer, is_proxy=is_among(str(address[0]), self.proxies))
            if has_room:
                self._open[number] = connection
                self._bound(connection, waits=True)
        if not has_room:
            connection.close()
            raise ConnectionAbortedError
        return connection, address

    def admit(self, connection: AcceptedConnection) -> None:
        """Who is at the other end has proven who it is: the connection stays, and is counted no more."""
        with self.lock:
            self.forget(connection)

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
        of_peer = sum(each.peer == peer for each in self._open.values())
        if not is_proxy and of_peer >= self.bounds.of_one_peer:
            return self._shut_one(peer)
        return len(self._open) < self.bounds.in_all or self._shut_one_of_most()

    def _shut_one_of_most(self) -> bool:
        """Shut one that waits, of the peer that has most; False where none waits."""
        of_peers = Counter(each.peer for each in self._open.values())
        return any(self._shut_one(peer) for peer, _ in of_peers.most_common())

    def _shut_one(self, peer: str) -> bool:
        """Shut one of a peer that waits; False where none does."""
        waiting = [each for each in self._open.values() if each.waits and each.peer == peer]
        if not waiting:
            return False
        waiting.sort(key=lambda each: each.ends_at)
        self._end(next((each for each in waiting if each.is_silent()), waiting[-1]))
        return True

    def _real_close(self, *arguments: Any) -> None:  # noqa: ANN401 - as the base has them
        self._users.close()
        super()._real_close(*arguments)  # type: ignore[misc]

    def _end(self, connection: AcceptedConnection) -> None:
        """Shut a connection, and count it among those that end. The lock is held."""
        connection.shut()
        self.forget(connection)
        self.ending.add(connection)

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
                    if each.waits:
                        self._end(each)
                    else:
                        # What answers it may hang; that must not keep others out.
                        each.shut()
                        self.forget(each)
                if self._open:
                    self._changed.wait(min(each.ends_at for each in self._open.values()) - now)
            self._watches = False


def listen_on(address: str, port: int = 0) -> Listener:
    """A socket that listens there (TCP); "" for all addresses of IPv4, port 0 for any that is free.

    Raises OSError.
    """
    made = Listener(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(_WAITING)
    except OSError:
        made.close()
        raise
    return made


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
LOCAL = "this machine"
"""Who came over loopback and is known no more: its process has closed the connection, or has ended."""
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence, port."""
_REQUEST = struct.Struct("=BBBxI")
"""struct inet_diag_req_v2 up to its socket: family, protocol, extensions, states."""
_SOCKET = struct.Struct("!HH16s16s")
"""struct inet_diag_sockid: ports and addresses; after them an interface (any) and a cookie (none)."""
_ANY_INTERFACE, _NO_COOKIE = bytes(4), b"\xff" * 8
_OWNER = struct.Struct("=II")
"""User and inode, at the end of struct inet_diag_msg."""
_OWNER_AT = _HEADER.size + 4 + _SOCKET.size + 12 + 12
_ANSWER_BYTES = 8192
_ANSWER_S = 1.0


def peer_of(address: str) -> str:
    """Who an address is counted as: itself, or the network of 64 bits that an IPv6 host can choose from."""
    try:
        found = _unmapped(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(ipaddress.ip_network((found, 64), strict=False).network_address)


def is_among(host: str, networks: tuple[Network, ...]) -> bool:
    """Whether an address is in one of these networks, also one of IPv4 in the form of IPv6."""
    address = _unmapped(host)
    return any(address in network for network in networks)


def _unmapped(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address without its zone, one of IPv4 as such. Raises ValueError."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


class _PeerUsers:
    """Asks the kernel which user of this machine is at the other end of connections. One thread uses it."""

    def __init__(self) -> None:
        self._link: socket.socket | None = None
        self._sequence = 0
        # Where the kernel or a service's bounds allow none, addresses count.
        with contextlib.suppress(OSError):
            self._link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
            self._link.settimeout(_ANSWER_S)

    def close(self) -> None:
        """Ask no more."""
        if self._link is not None:
            self._link.close()
            self._link = None

    def peer(self, connection: socket.socket, address: tuple[str, int]) -> str:
        """Who is at the other end: a user of this machine (`user 1000`), `LOCAL`, or an address."""
        user = None
        with contextlib.suppress(OSError, ValueError):
            user = self._user(address, connection.getsockname())
        if user is not None:
            return f"user {user}"
        # Who is here chooses among the 16 million addresses of loopback.
        is_local = self._link is not None and _unmapped(address[0]).is_loopback
        return LOCAL if is_local else peer_of(address[0])

    def _user(self, peer: tuple[str, int], own: tuple[str, int]) -> int | None:
        """The user whose socket it is; None where no process of this machine has it. Raises OSError."""
        if self._link is None:
            return None
        here, there = _unmapped(own[0]), _unmapped(peer[0])
        family = socket.AF_INET if there.version == 4 else socket.AF_INET6
        ends = _SOCKET.pack(peer[1], own[1], there.packed.ljust(16, b"\0"), here.packed.ljust(16, b"\0"))
        asked = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + ends + _ANY_INTERFACE + _NO_COOKIE
        self._sequence += 1
        kind = _SOCK_DIAG_BY_FAMILY
        self._link.send(
            _HEADER.pack(_HEADER.size + len(asked), kind, _NLM_F_REQUEST, self._sequence, 0) + asked
        )
        while True:
            answer = self._link.recv(_ANSWER_BYTES)
            _, kind, _, sequence, _ = _HEADER.unpack_from(answer)
            if sequence == self._sequence:
                break
        if kind != _SOCK_DIAG_BY_FAMILY or len(answer) < _OWNER_AT + _OWNER.size:
            return None
        # Where no such connection is, the kernel may find a socket that listens there; and what has no inode
        # any more has been closed, and is said to be root's.
        is_it = answer[_HEADER.size + 4 :].startswith(ends[:4])
        user, inode = _OWNER.unpack_from(answer, _OWNER_AT)
        return int(user) if is_it and inode else None
