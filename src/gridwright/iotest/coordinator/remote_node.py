"""A node as the coordinator sees it: its connection, its clock, and whether it still answers."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import time
from dataclasses import replace
from typing import TypeVar

from gridwright.errors import Problem
from gridwright.iotest.coordinator.clock import ClockOffsets, Exchange, best
from gridwright.iotest.coordinator.heartbeats import Beats, SilenceJudge
from gridwright.iotest.messages import (
    ANSWERS,
    ORDERS,
    Answer,
    AtOnce,
    Failed,
    Hello,
    Numbered,
    Ping,
    Pong,
    Removing,
    WorkerFacts,
)
from gridwright.iotest.wire import HEAD, WireError, frame, in_words, length_of
from gridwright.messages import MessageError

PING_S = 5.0
"""A node that does not answer a ping for this long is measured no further; it may still be alive."""


Given = TypeVar("Given", bound=Answer)


class NodeFailed(Exception):
    """A node can do no more: its connection ended, it is silent, or a library failed on it."""

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(f"node {node}: {reason}")
        self.node = node
        self.reason = reason


class LibraryFailedThere(NodeFailed):
    """A library failed on a node, which itself goes on."""

    def __init__(self, node: str, problem: Problem) -> None:
        super().__init__(node, problem.what)
        self.problem = problem


async def read_message(reader: asyncio.StreamReader) -> Hello | Pong | Answer:
    """The next message of a node.

    Raises IncompleteReadError at the end of the connection, OSError, WireError and MessageError.
    """
    return ANSWERS.decode(await reader.readexactly(length_of(await reader.readexactly(HEAD.size))))


class RemoteNode:
    """One node. All of it is used by one event loop."""

    def __init__(self, name: str, cores: int | None, judge: SilenceJudge) -> None:
        """`judge` hears how long its answers to pings take."""
        self.name = name
        self.wanted_cores = cores
        self.facts: WorkerFacts | None = None
        self.clock = ClockOffsets(0.0, 0.0, 0.0)
        self.failure: str | None = None
        """Why it can do no more."""
        self.told = False
        """Whether the user knows of its failure."""
        self.beats = Beats(time.monotonic())
        self._judge = judge
        self._writer: asyncio.StreamWriter | None = None
        self._inbox: asyncio.Queue[Answer | None] = asyncio.Queue()
        self._pings: dict[int, asyncio.Future[tuple[Pong, float]]] = {}
        self._numbers = itertools.count(1)
        self._order = 0
        self._reading: asyncio.Task[None] | None = None

    @property
    def here(self) -> bool:
        """Whether it has come, and can still be asked."""
        return self._writer is not None and self.failure is None

    @property
    def cores(self) -> int:
        """Physical cores that jobs may use: what the spec says, else what the node has."""
        return self.wanted_cores or (self.facts.cores if self.facts is not None else 1)

    @property
    def boot_id(self) -> str:
        """The boot of its machine, which nodes of a lab share; its name where that is not known."""
        return self.facts.boot_id if self.facts is not None else self.name

    def attach(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, facts: WorkerFacts) -> None:
        """It has come, and is who it says it is."""
        self._writer, self.facts = writer, facts
        self.beats = Beats(time.monotonic())
        self._reading = asyncio.create_task(self._read(reader))

    def fail(self, reason: str) -> None:
        """It can do no more; the first reason counts."""
        if self.failure is not None:
            return
        self.failure = reason
        self._inbox.put_nowait(None)
        for ping in self._pings.values():
            if not ping.done():
                ping.set_exception(NodeFailed(self.name, reason))
        if self._writer is not None:
            self._writer.transport.abort()

    def send(self, message: AtOnce | Numbered) -> None:
        """Send a message; one to a node that is gone is lost."""
        if self._writer is not None and self.failure is None:
            self._writer.write(frame(ORDERS.encode(message)))

    def order(self, message: Numbered) -> None:
        """Give an order; what is heard from now on answers it. Raises NodeFailed."""
        if self.failure is not None:
            raise NodeFailed(self.name, self.failure)
        self._order = next(self._numbers)
        self.send(replace(message, id=self._order))

    async def hear(self, seconds: float, doing: str) -> Answer:
        """The next answer to the last order. Raises NodeFailed, also where none comes in `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while (message := await self._inbox.get()) is not None:
                    if message.re == self._order:
                        break
        except TimeoutError:
            self.fail(f"it did not answer for {seconds:.0f} s while {doing}; its file system may hang")
            message = None
        if message is None:
            # The next caller has to get this error, too.
            self._inbox.put_nowait(None)
            raise NodeFailed(self.name, self.failure or "it is gone")
        if isinstance(message, Failed):
            if message.hung:
                self.fail(message.problem.what)
            raise LibraryFailedThere(self.name, message.problem)
        return message

    async def ask(self, message: Numbered, kind: type[Given], seconds: float, doing: str) -> Given:
        """Give an order and wait for its answer, of this kind. Raises NodeFailed."""
        self.order(message)
        while isinstance(answer := await self.hear(seconds, doing), Removing):
            continue
        if not isinstance(answer, kind):
            self.fail(f"it answered with {type(answer).__name__} while {doing}")
            raise NodeFailed(self.name, self.failure or "")
        return answer

    async def measure_clock(self, times: int) -> None:
        """Measure how far its clocks are off, by the fastest of so many messages there and back.

        Raises NodeFailed. A node that does not answer for `PING_S` keeps the offset it had.
        """
        monotonic, wall = [], []
        for _ in range(times):
            sent, sent_wall = time.monotonic(), time.time()
            try:
                async with asyncio.timeout(PING_S):
                    pong, back = await self._ping()
            except TimeoutError:
                break
            received, answered = pong.received, pong.answered
            monotonic.append(Exchange(sent, received.monotonic, answered.monotonic, back))
            # The clock here may be set meanwhile: the time that went by is taken from the one that never is.
            wall.append(Exchange(sent_wall, received.wall, answered.wall, sent_wall + back - sent))
        if monotonic:
            fastest = best(monotonic)
            self.clock = ClockOffsets(fastest.offset_s, best(wall).offset_s, fastest.round_trip_s)

    def ping(self) -> None:
        """Have it say that it is alive; nobody waits for the answer."""
        number = next(self._numbers)
        self.beats.ping(number, time.monotonic())
        self.send(Ping(number))

    async def _ping(self) -> tuple[Pong, float]:
        number = next(self._numbers)
        answered: asyncio.Future[tuple[Pong, float]] = asyncio.get_running_loop().create_future()
        self._pings[number] = answered
        try:
            if self.failure is not None:
                raise NodeFailed(self.name, self.failure)
            self.beats.ping(number, time.monotonic())
            self.send(Ping(number))
            return await answered
        finally:
            self._pings.pop(number, None)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while self.failure is None:
                message = await read_message(reader)
                self.beats.heard = time.monotonic()
                if isinstance(message, Pong):
                    self._answered(message)
                elif isinstance(message, Answer):
                    self._inbox.put_nowait(message)
        except ssl.SSLError as error:
            self.fail(f"its connection does not hold: {in_words(error)}")
        except (asyncio.IncompleteReadError, OSError):
            self.fail("its connection ended")
        except WireError as error:
            self.fail(f"it sent {error}")
        except MessageError as error:
            self.fail(f"it sent a message that is not as agreed: {error}")

    def _answered(self, pong: Pong) -> None:
        now = time.monotonic()
        if (delay := self.beats.answer(pong.ping, now)) is not None:
            self._judge.answered(delay, now)
        ping = self._pings.get(pong.ping)
        if ping is not None and not ping.done():
            ping.set_result((pong, now))
