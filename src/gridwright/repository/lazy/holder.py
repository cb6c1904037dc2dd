"""The holder of a directory's events: it lets nobody read what is not here, whatever becomes of the loader.

It does little, so that little can befall it: it hands accesses to the loader, hands answers back to the
kernel, and starts the loader again when that ends. Accesses that the loader had and did not answer go to the
next one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gridwright.repository.lazy import fanotify, relay
from gridwright.repository.lazy.control import Controlled, LoadWish
from gridwright.repository.lazy.names import path_of
from gridwright.repository.lazy.relay import HEARTBEAT, LoadAnswer, LoadRequest, Wish

GRACE_S = 5.0
"""How much longer than the loader's patience somebody waits when there is no loader, or it hangs."""
HANGS_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0
_STOP_S = 0.7
"""What the loader has to end in."""
MOST_DESCRIPTORS = 16_384
"""Descriptors of the holder: one for each access that waits.

It bounds what has to be asked for after a kill, too.
"""


@dataclass(slots=True)
class _Waiting:
    request: LoadRequest
    deadline: float
    wish: LoadWish | None = None
    is_sent: bool = False


@dataclass(slots=True)
class EventHolder:
    """Everything that waits, by number.

    `loader_command` of the descriptors of socket and group starts a loader.
    """

    group: int
    patience_s: float
    loader_command: Callable[[int, int, bool], Sequence[str]]
    control: Controlled
    log: Callable[[str], None]
    _waiting: dict[int, _Waiting] = field(default_factory=dict)
    _loader: subprocess.Popen[bytes] | None = None
    _end: socket.socket | None = None
    _starts: int = 0
    _start_at: float = 0.0
    _pause_s: float = _FIRST_PAUSE_S
    _next_wish: int = 1 << 32
    _heard_at: float = 0.0

    def run(self, stop: int, *, started: Callable[[], None]) -> None:
        """Hold until the descriptor `stop` can be read; `started` is called when accesses are served."""
        self._start_loader()
        started()
        while True:
            readable, writable = self._wait(stop)
            if stop in readable:
                return
            if self._end is not None and self._end.fileno() in readable:
                self._take_answers()
            if self.group in readable:
                self._take_accesses()
            for wish in self.control.serve(readable):
                self._take_wish(wish)
            if writable or self._end is not None:
                self._send_waiting()
            self._end_late()
            self._watch_loader()

    def release(self, error: int) -> None:
        """End the loader, and all that waits with an error."""
        self._end_loader()
        for access in fanotify.read_accesses(self.group):
            self._answer_access(access.descriptor, error)
        for number in list(self._waiting):
            self._finish(LoadAnswer(number, error))

    def refuse(self, wait_s: float) -> None:
        """Without a loader: wait a moment, end accesses with EIO, and answer who asks through the socket."""
        poll = select.poll()
        for descriptor in (self.group, *self.control.descriptors()):
            poll.register(descriptor, select.POLLIN)
        readable = {descriptor for descriptor, _ in poll.poll(wait_s * 1000)}
        for access in fanotify.read_accesses(self.group):
            self._answer_access(access.descriptor, errno.EIO)
        for wish in self.control.serve(readable):
            os.close(wish.descriptor)
            wish.end(errno.EIO, 0)

    def _wait(self, stop: int) -> tuple[set[int], set[int]]:
        poll = select.poll()
        for descriptor in (stop, self.group, *self.control.descriptors()):
            poll.register(descriptor, select.POLLIN)
        if self._end is not None:
            unsent = any(not waiting.is_sent for waiting in self._waiting.values())
            poll.register(self._end, select.POLLIN | (select.POLLOUT if unsent else 0))
        found = poll.poll(200 if self._waiting or self._end is None else 1000)
        readable = {descriptor for descriptor, what in found if what & ~select.POLLOUT}
        return readable, {descriptor for descriptor, what in found if what & select.POLLOUT}

    def _take_accesses(self) -> None:
        deadline = time.monotonic() + self.patience_s + GRACE_S
        own = self._loader.pid if self._loader is not None else -1
        for access in fanotify.read_accesses(self.group):
            # The loader maps a file to write what it loaded.
            if access.pid == own:
                self._answer_access(access.descriptor, 0)
                continue
            request = LoadRequest(
                Wish.ACCESS, access.descriptor, access.pid, access.offset, access.count, access.descriptor
            )
            self._waiting[request.number] = _Waiting(request, deadline)

    def _take_wish(self, wish: LoadWish) -> None:
        self._next_wish += 1
        request = LoadRequest(Wish.BACKGROUND, self._next_wish, 0, 0, 0, wish.descriptor)
        self._waiting[request.number] = _Waiting(request, float("inf"), wish)

    def _send_waiting(self) -> None:
        if self._end is None:
            return
        for waiting in self._waiting.values():
            if waiting.is_sent:
                continue
            try:
                relay.send_request(self._end, waiting.request)
            except BlockingIOError:
                return
            except OSError:
                # It ended: seen where it is watched.
                return
            waiting.is_sent = True

    def _take_answers(self) -> None:
        while self._end is not None:
            try:
                answer = relay.receive_answer(self._end)
            except BlockingIOError:
                return
            except ConnectionError:
                answer = None
            if answer is None:
                self._end.close()
                self._end = None
                return
            self._heard_at = time.monotonic()
            self._pause_s = _FIRST_PAUSE_S
            if answer.number != HEARTBEAT:
                self._finish(answer)

    def _finish(self, answer: LoadAnswer) -> None:
        waiting = self._waiting.pop(answer.number, None)
        if waiting is None:
            return
        if waiting.wish is None:
            self._answer_access(answer.number, answer.error)
        else:
            os.close(waiting.request.descriptor)
            waiting.wish.end(answer.error, answer.loaded)

    def _answer_access(self, number: int, error: int) -> None:
        # The number must not be given to another access before this one is answered.
        if error:
            fanotify.deny(self.group, number, error)
        else:
            fanotify.allow(self.group, number)
        os.close(number)

    def _end_late(self) -> None:
        now = time.monotonic()
        late = [number for number, waiting in self._waiting.items() if waiting.deadline <= now]
        # The loader tells of those that it has, and may have had some of it come meanwhile.
        alive = self._end is not None
        for number in late:
            if alive and self._waiting[number].is_sent:
                continue
            path = path_of(self._waiting[number].request.descriptor)
            self.log(f"{path}: no loader answers; readers get an input/output error")
            self._finish(LoadAnswer(number, errno.EIO))

    def _watch_loader(self) -> None:
        if self._loader is not None and self._loader.poll() is not None:
            self.log(f"the loader ended ({self._loader.returncode}); another one is started")
            if self._end is not None:
                self._take_answers()
            if self._end is not None:
                self._end.close()
                self._end = None
            self._loader = None
            self._start_at = time.monotonic() + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        elif self._loader is not None and self._end is None:
            self._loader.kill()
        elif self._loader is not None and time.monotonic() > self._heard_at + HANGS_S:
            self.log(f"the loader has said nothing for {HANGS_S:g} s, and is killed")
            self._loader.kill()
        if self._loader is None and time.monotonic() >= self._start_at:
            self._start_loader()

    def _start_loader(self) -> None:
        mine, its = relay.pair()
        try:
            self._loader = subprocess.Popen(
                self.loader_command(its.fileno(), self.group, self._starts > 0),
                stdin=subprocess.DEVNULL,
                pass_fds=(its.fileno(), self.group, *self.control.kept()),
            )
        except OSError as error:
            self.log(f"no loader was started: {error}")
            mine.close()
            self._start_at = time.monotonic() + self._pause_s
            return
        finally:
            its.close()
        mine.setblocking(False)
        self._end = mine
        self._starts += 1
        self._heard_at = time.monotonic()
        for waiting in self._waiting.values():
            waiting.is_sent = False

    def _end_loader(self) -> None:
        if self._loader is None:
            return
        # It would take its end of the socket for the death of its holder.
        self._loader.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._loader.wait(_STOP_S)
        self._loader.kill()
        self._loader.wait()
        if self._end is not None:
            self._end.close()
            self._end = None


def end_forgotten(group: int) -> int:
    """End accesses that a holder before had read and not answered, with EIO; says how many there were.

    Their numbers are those of its descriptors, and nothing has been read from the group since.
    """
    return sum(fanotify.deny(group, number, errno.EIO) for number in range(MOST_DESCRIPTORS))
