"""What the holder of the events and its loader tell each other: packets through a pair of sockets."""

from __future__ import annotations

import array
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

_REQUEST = struct.Struct("=BqiQQ")
HEARTBEAT = -1
"""The number of an answer that only says that the loader is there."""
_ANSWER = struct.Struct("=qiQ")


class Wish(IntEnum):
    """Why a range is to be loaded."""

    ACCESS = 0
    """Somebody waits for it."""
    BACKGROUND = 1
    """Somebody asked to have it here before anybody waits."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A range of the file of a descriptor, which goes along and belongs to whoever receives it."""

    wish: Wish
    number: int
    pid: int
    offset: int
    count: int
    descriptor: int


@dataclass(frozen=True, slots=True)
class LoadAnswer:
    """What became of a request: it may go on (0), or ends with an errno.

    `loaded` is the bytes that were fetched.
    """

    number: int
    error: int
    loaded: int = 0


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends. A packet arrives whole or not at all."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send_request(end: socket.socket, request: LoadRequest) -> None:
    """Send it with its descriptor.

    Raises BlockingIOError from a full socket that does not block, and OSError.
    """
    data = _REQUEST.pack(request.wish, request.number, request.pid, request.offset, request.count)
    rights = array.array("i", [request.descriptor])
    end.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def receive_request(end: socket.socket) -> LoadRequest | None:
    """The next one; None when the other end is closed. Raises OSError."""
    data, ancillary, _, _ = end.recvmsg(
        _REQUEST.size, socket.CMSG_SPACE(array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
    )
    if len(data) < _REQUEST.size:
        return None
    descriptors = array.array("i")
    for _, _, rights in ancillary:
        descriptors.frombytes(rights[: len(rights) - len(rights) % descriptors.itemsize])
    wish, number, pid, offset, count = _REQUEST.unpack(data)
    return LoadRequest(Wish(wish), number, pid, offset, count, descriptors[0] if descriptors else -1)


def send_answer(end: socket.socket, answer: LoadAnswer) -> None:
    """Send it. Raises OSError."""
    end.send(_ANSWER.pack(answer.number, answer.error, answer.loaded))


def receive_answer(end: socket.socket) -> LoadAnswer | None:
    """The next one; None when the other end is closed. Raises OSError."""
    data = end.recv(_ANSWER.size)
    return LoadAnswer(*_ANSWER.unpack(data)) if len(data) == _ANSWER.size else None
