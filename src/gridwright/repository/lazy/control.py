"""What other commands ask of a holder, through a socket that only root reaches.

Who makes names (`repo import`, `repo release`) gets the group of events, and marks a file before it is a name
that anybody can see. Who wants contents has the loader fetch them. A holder that only waits for the last open
file to be closed gives its place to a new one.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import hashlib
import os
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.errors import GridwrightError, environment_error
from gridwright.repository.keys import shown
from gridwright.repository.lazy import fanotify

RUN_DIRECTORY = Path("/run/gridwright/repository")
_GROUP, _LOAD, _TAKE_OVER = b"group", b"load", b"take over"
_SERVING = b"serving"
_LOADED = struct.Struct("=iQ")
_LONGEST = 64
_CONNECT_S, _HAND_OVER_S = 5.0, 5.0
_INT = array.array("i").itemsize


@dataclass(slots=True, eq=False)
class LoadWish:
    """Somebody wants all of the file of a descriptor here, which belongs to whoever takes the wish."""

    descriptor: int
    _client: socket.socket

    def end(self, error: int, loaded: int) -> None:
        """Tell what became of it."""
        with contextlib.suppress(OSError):
            self._client.send(_LOADED.pack(error, loaded))


def _place(directory: str, suffix: str) -> Path:
    digest = hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:24]
    return RUN_DIRECTORY / f"{digest}.{suffix}"


@dataclass(slots=True)
class Controlled:
    """The holder's end."""

    group: int
    lock: int
    listening: socket.socket
    gives_place: bool = False
    was_taken_over: bool = False
    _clients: dict[int, socket.socket] = field(default_factory=dict)

    @classmethod
    def open(cls, directory: str, group: int, lock: int) -> Controlled:
        """Listen for a directory of which this process has the lock. Raises OSError."""
        place = _place(directory, "socket")
        place.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind(str(place))
        place.chmod(0o600)
        listening.listen(64)
        listening.setblocking(False)
        return cls(group, lock, listening)

    def close(self, directory: str) -> None:
        """Leave nothing behind: socket and lock go while the lock is held, unless somebody has taken over."""
        if not self.was_taken_over:
            with contextlib.suppress(OSError):
                _place(directory, "socket").unlink()
        self.listening.close()
        if self.was_taken_over:
            os.close(self.lock)
        else:
            give_lock_back(directory, self.lock)

    def descriptors(self) -> Iterable[int]:
        """What to wait for."""
        return (self.listening.fileno(), *self._clients)

    def kept(self) -> Iterable[int]:
        """What the loader keeps open as well, for the case that it becomes the holder."""
        return (self.lock,)

    def serve(self, readable: Iterable[int]) -> Iterator[LoadWish]:
        """Answer who asks; wishes are the holder's to grant."""
        for descriptor in readable:
            if descriptor == self.listening.fileno():
                with contextlib.suppress(BlockingIOError):
                    client, _ = self.listening.accept()
                    client.setblocking(False)
                    self._clients[client.fileno()] = client
            elif descriptor in self._clients:
                yield from self._serve(self._clients[descriptor])

    def _serve(self, client: socket.socket) -> Iterator[LoadWish]:
        try:
            asked, descriptors = _receive(client)
        except OSError:
            asked, descriptors = b"", []
        if asked == _LOAD and descriptors:
            yield LoadWish(descriptors.pop(), client)
        elif asked == _GROUP or (asked == _TAKE_OVER and self.gives_place):
            with contextlib.suppress(OSError):
                _send(client, asked, self.group)
                self.was_taken_over = asked == _TAKE_OVER
        elif asked == _TAKE_OVER:
            with contextlib.suppress(OSError):
                _send(client, _SERVING)
        else:
            del self._clients[client.fileno()]
            client.close()
        for descriptor in descriptors:
            os.close(descriptor)


def take_lock(directory: str) -> int:
    """The lock of a directory's holder. Raises GridwrightError where another one has it."""
    RUN_DIRECTORY.mkdir(parents=True, exist_ok=True, mode=0o700)
    place = _place(directory, "lock")
    while True:
        lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise environment_error(
                "another process serves it",
                where=shown(directory),
                remedy="end that one first (systemctl status shows it); its files are being served",
            ) from None
        # Whoever had it may have removed the file between our opening and our locking it.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), place.stat()):
                return lock
        os.close(lock)


def give_lock_back(directory: str, lock: int) -> None:
    """Let the next one have the lock, and leave nothing of it behind."""
    with contextlib.suppress(OSError):
        _place(directory, "lock").unlink()
    os.close(lock)


def remove_left_behind() -> None:
    """Remove locks and sockets of processes that were killed: nobody holds their locks any more."""
    for place in RUN_DIRECTORY.glob("*.lock"):
        with contextlib.suppress(OSError):
            lock = os.open(place, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Under its lock, since whoever takes it next looks whether the file is still there.
                if os.path.samestat(os.fstat(lock), place.stat()):
                    place.with_suffix(".socket").unlink(missing_ok=True)
                    place.unlink()
            finally:
                os.close(lock)


def take_place(directory: str) -> tuple[int, int | None]:
    """The lock of a directory's holder, and the group of one that gave its place, if one did.

    Raises GridwrightError where another process serves it.
    """
    end = time.monotonic() + _HAND_OVER_S
    group = None
    while True:
        try:
            return take_lock(directory), group
        except GridwrightError:
            is_serving = False
            if group is None:
                is_serving, group = _ask_for_place(directory)
            if is_serving or time.monotonic() > end:
                raise
        time.sleep(0.02)


def _ask_for_place(directory: str) -> tuple[bool, int | None]:
    """Whether the holder serves, and its group where it gives its place."""
    with contextlib.suppress(OSError), _connected(directory) as holder:
        _send(holder, _TAKE_OVER)
        said, descriptors = _receive(holder)
        return said == _SERVING, descriptors[0] if descriptors else None
    return False, None


class Marker:
    """Marks names before anybody sees them, for whoever makes names in a directory that is being served.

    A name is made under another name, marked, and renamed, also where it takes the place of a file with
    content.
    A file that users see must not be cut to make a name of it: a cut asks the loader, and counts as a user's.
    """

    def __init__(self, holder: socket.socket, group: int) -> None:
        self._holder = holder
        self._group = group

    def mark(self, descriptor: int) -> None:
        """Have accesses wait; who opened the file before raises none. Raises OSError."""
        fanotify.mark(self._group, descriptor)

    def load(self, descriptor: int) -> int:
        """Have all of a file fetched, after all that readers wait for; the bytes that were fetched.

        Raises OSError.
        """
        _send(self._holder, _LOAD, descriptor)
        self._holder.settimeout(None)
        data = self._holder.recv(_LOADED.size)
        if len(data) < _LOADED.size:
            raise ConnectionError("nobody serves the directory any more")
        error, loaded = _LOADED.unpack(data)
        if error:
            raise OSError(error, os.strerror(error))
        return int(loaded)

    def close(self) -> None:
        """Let go."""
        os.close(self._group)
        self._holder.close()


def marker_of(directory: str) -> Marker | None:
    """The marker of a directory that is being served; None where nobody serves it. Needs root.

    Raises GridwrightError where somebody does, and does not answer.
    """
    try:
        holder = _connected(directory)
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    try:
        _send(holder, _GROUP)
        _, descriptors = _receive(holder)
        return Marker(holder, descriptors[0])
    except (OSError, IndexError) as error:
        holder.close()
        raise environment_error(
            f"what serves the directory does not answer: {error}",
            where=shown(directory),
            remedy="try again, or start it again: names that nobody marks would be read as zeros",
        ) from error


def _connected(directory: str) -> socket.socket:
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    holder.settimeout(_CONNECT_S)
    try:
        holder.connect(str(_place(directory, "socket")))
    except OSError:
        holder.close()
        raise
    return holder


def _send(end: socket.socket, text: bytes, *descriptors: int) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    end.sendmsg([text], rights)


def _receive(end: socket.socket) -> tuple[bytes, list[int]]:
    text, ancillary, _, _ = end.recvmsg(_LONGEST, socket.CMSG_SPACE(_INT), socket.MSG_CMSG_CLOEXEC)
    found = array.array("i")
    for _, _, rights in ancillary:
        found.frombytes(rights[: len(rights) - len(rights) % _INT])
    return text, list(found)
