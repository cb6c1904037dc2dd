"""A node as the coordinator has it: its connection, its clock, and whether it still answers."""

from __future__ import annotations

import asyncio
import itertools
import ssl
import time
from typing import Any

from gridwright.iotest.clock import ClockOffsets, Exchange, best
from gridwright.iotest.wire import HEAD, Message, WireError, frame, in_words, length_of, message_of

PING_S = 5.0
"""A node that does not answer a ping for this long is measured no further; it may still be alive."""


class NodeFailed(Exception):
    """A node can do no more: its connection ended, it is silent, or a library failed on it."""

    def __init__(self, node: str, reason: str) -> None:
        super().__init__(f"node {node}: {reason}")
        self.node = node
        self.reason = reason


class LibraryFailedThere(NodeFailed):
    """A library failed on a node, which itself goes on."""

    def __init__(self, node: str, problem: dict[str, Any]) -> None:
        super().__init__(node, str(problem["what"]))
        self.problem = problem


async def read_message(reader: asyncio.StreamReader) -> Message:
    """The next message. Raises IncompleteReadError at the end of the connection, OSError, WireError."""
    return message_of(await reader.readexactly(length_of(await reader.readexactly(HEAD.size))))


class RemoteNode:
    """One node. All of it is used by one event loop."""

    def __init__(self, name: str, cores: int | None) -> None:
        self.name = name
        self.wanted_cores = cores
        self.facts: dict[str, Any] = {}
        self.clock = ClockOffsets(0.0, 0.0, 0.0)
        self.failure: str | None = None
        """Why it can do no more."""
        self.told = False
        """Whether the user knows of its failure."""
        self.heard = time.monotonic()
        self._writer: asyncio.StreamWriter | None = None
        self._inbox: asyncio.Queue[Message | None] = asyncio.Queue()
        self._pings: dict[int, asyncio.Future[tuple[Message, float]]] = {}
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
        return self.wanted_cores or int(self.facts.get("cores", 1))

    def attach(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, facts: dict[str, Any]
    ) -> None:
        """It has come, and is who it says it is."""
        self._writer, self.facts = writer, facts
        self.heard = time.monotonic()
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

    def send(self, message: Message) -> None:
        """Send a message; one to a node that is gone is lost."""
        if self._writer is not None and self.failure is None:
            self._writer.write(frame(message))

    def order(self, message: Message) -> None:
        """Give an order; what is heard from now on answers it. Raises NodeFailed."""
        if self.failure is not None:
            raise NodeFailed(self.name, self.failure)
        self._order = next(self._numbers)
        self.send(message | {"id": self._order})

    async def hear(self, seconds: float, doing: str) -> Message:
        """The next answer to the last order. Raises NodeFailed, also where none comes in `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while (message := await self._inbox.get()) is not None:
                    if message.get("re") == self._order:
                        break
        except TimeoutError:
            self.fail(f"it did not answer for {seconds:.0f} s while {doing}; its file system may hang")
            message = None
        if message is None:
            # Whoever asks next shall hear of it, too.
            self._inbox.put_nowait(None)
            raise NodeFailed(self.name, self.failure or "it is gone")
        if message.get("say") == "problem":
            if message["hung"]:
                self.fail(message["problem"]["what"])
            raise LibraryFailedThere(self.name, message["problem"])
        return message

    async def ask(self, message: Message, seconds: float, doing: str) -> Message:
        """Give an order and wait for its answer. Raises NodeFailed."""
        self.order(message)
        while (answer := await self.hear(seconds, doing)).get("say") == "removing":
            continue
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
            received, answered = pong["received"], pong["answered"]
            monotonic.append(Exchange(sent, received["monotonic"], answered["monotonic"], back))
            # The clock here may be set meanwhile: the time that went by is told by the one that never is.
            wall.append(Exchange(sent_wall, received["wall"], answered["wall"], sent_wall + back - sent))
        if monotonic:
            fastest = best(monotonic)
            self.clock = ClockOffsets(fastest.offset_s, best(wall).offset_s, fastest.round_trip_s)

    def ping(self) -> None:
        """Have it say that it is alive; nobody waits for the answer."""
        self.send({"do": "ping", "ping": next(self._numbers)})

    async def _ping(self) -> tuple[Message, float]:
        number = next(self._numbers)
        answered: asyncio.Future[tuple[Message, float]] = asyncio.get_running_loop().create_future()
        self._pings[number] = answered
        try:
            if self.failure is not None:
                raise NodeFailed(self.name, self.failure)
            self.send({"do": "ping", "ping": number})
            return await answered
        finally:
            self._pings.pop(number, None)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while self.failure is None:
                message = await read_message(reader)
                self.heard = time.monotonic()
                if message.get("say") == "pong":
                    self._answered(message)
                else:
                    self._inbox.put_nowait(message)
        except ssl.SSLError as error:
            self.fail(f"its connection does not hold: {in_words(error)}")
        except (asyncio.IncompleteReadError, OSError):
            self.fail("its connection ended")
        except WireError as error:
            self.fail(f"it sent {error}")

    def _answered(self, pong: Message) -> None:
        ping = self._pings.get(pong["ping"])
        if ping is not None and not ping.done():
            ping.set_result((pong, time.monotonic()))
