"""Who a connection is counted as: a user of this machine, or an address.

On one machine all users have the same addresses. So the kernel is asked whose socket is at the other end
(sock_diag(7), inet_diag_req_v2 of linux/inet_diag.h: one exact look-up, which needs no privilege). A socket
of another machine is not found there.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct

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


class PeerUsers:
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
