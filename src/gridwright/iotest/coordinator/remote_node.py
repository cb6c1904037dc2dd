"""A node as the coordinator sees it: its connection, its clock, and whether it still answers.

Every node is pinged every two seconds. On a quiet machine answers come within milliseconds, and silence of
some seconds is a loss. Where a hundred workers share two cores, they come after seconds: patience grows
with the delay of answers that did come, and with the pressure on the CPU. Time in which the coordinator
itself did not run is not a node's silence.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from gridwright.errors import Finding, Problem
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

_LIMIT_S = 0.1
"""A node whose clock is further off is reported: its logs cannot be laid beside those of others. Hosts with
a time service are within milliseconds of each other."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One message there and back. `sent` and `back` by the clock here, the others by the node's; seconds."""

    sent: float
    received: float
    answered: float
    back: float

    @property
    def offset_s(self) -> float:
        """The node's clock less the one here: ((T2 - T1) + (T3 - T4)) / 2 (RFC 5905, section 8)."""
        return ((self.received - self.sent) + (self.answered - self.back)) / 2

    @property
    def round_trip_s(self) -> float:
        """Time on the way, there and back: (T4 - T1) - (T3 - T2) (RFC 5905, section 8)."""
        return (self.back - self.sent) - (self.answered - self.received)


def best(exchanges: Iterable[Exchange]) -> Exchange:
    """The exchange that was fastest on its way: its offset is wrong by half of that time at most.

    This is the clock filter of RFC 5905, section 10. Raises ValueError where there is none.
    """
    return min(exchanges, key=lambda each: each.round_trip_s)


@dataclass(frozen=True, slots=True)
class ClockOffsets:
    """What a node's clocks read less those here: one that is never set, and the time of day."""

    monotonic_s: float
    wall_s: float
    round_trip_s: float


def clock_finding(node: str, offset_s: float) -> Finding | None:
    """What to say of a node whose clock is so far ahead; None where that is within the limit."""
    if abs(offset_s) <= _LIMIT_S:
        return None
    way = "ahead" if offset_s > 0 else "behind"
    return Finding(
        "warning",
        "clock-apart",
        f"the clock of node {node} is {abs(offset_s):.2f} s {way}; the test accounts "
        "for it, but logs of the nodes cannot be laid beside each other",
        "run a time service on all nodes, such as chrony",
    )


PING_EVERY_S = 2.0
DELAYS_S = 60.0
"""Delays of so long ago still count: a phase begins and ends in bursts."""
PER_DELAY = 3.0
"""Of answers that take so long in the worst case, the next may take twice as long, and one may be lost."""
_LATE_S = 0.5
"""A loop that wakes up later than this was kept from running."""
PRESSED = 60.0
"""Percent of the time in which some process waited for a CPU (/proc/pressure/cpu, some avg10): beyond it
answers come late, the more the nearer it is to 100."""
_PRESSURE = Path("/proc/pressure/cpu")


@dataclass(slots=True)
class Beats:
    """What one node shows of its life; times are those of time.monotonic() here."""

    heard: float
    """When the last message came, moved on by the time in which nobody could hear it."""
    sent: dict[int, float] = field(default_factory=dict)
    """When pings were sent that have not been answered."""

    def ping(self, number: int, now: float) -> None:
        """A ping goes out."""
        self.sent[number] = now

    def skip(self, seconds: float, now: float) -> None:
        """Nobody could hear it for so long: that is neither its silence nor the delay of its answers."""
        self.heard = min(now, self.heard + seconds)
        self.sent = {number: min(now, sent + seconds) for number, sent in self.sent.items()}

    def answer(self, number: int, now: float) -> float | None:
        """A ping is answered: after how many seconds; None for one that is not known."""
        sent = self.sent.pop(number, None)
        return None if sent is None else now - sent


class SilenceJudge:
    """Says which nodes are lost, by their beats and by how late answers come in general."""

    def __init__(self, least_s: float, most_s: float) -> None:
        """Patience is `least_s` where answers come at once, and never more than `most_s`."""
        self._least_s = least_s
        self._most_s = max(least_s, most_s)
        self._delays: deque[tuple[float, float]] = deque()
        self._pressure = 0.0

    def answered(self, delay_s: float, now: float) -> None:
        """A node has answered a ping after so long."""
        self._delays.append((now, delay_s))
        self._forget(now)

    def woke(self, beats: list[Beats], now: float, *, late_s: float, pressure: float | None) -> None:
        """The loop woke up so much later than it wanted to; `pressure` is that on the CPU, in percent."""
        self._pressure = pressure or 0.0
        self._forget(now)
        if late_s > _LATE_S:
            for beat in beats:
                beat.skip(late_s, now)

    def timeout_s(self, now: float) -> float:
        """How long a node may be silent."""
        self._forget(now)
        late = PER_DELAY * max((delay for _, delay in self._delays), default=0.0)
        pressed = max(0.0, self._pressure - PRESSED) / (100.0 - PRESSED)
        by_pressure = pressed * (self._most_s - self._least_s)
        return min(self._most_s, self._least_s + max(late, by_pressure))

    def is_suspect(self, beats: Beats, now: float) -> bool:
        """Whether it has been silent for half of the time, so that it is time to ask why."""
        return now - beats.heard > self.timeout_s(now) / 2

    def is_lost(self, beats: Beats, now: float) -> bool:
        """Whether it has been silent for too long."""
        return now - beats.heard > self.timeout_s(now)

    def verdict(self, beats: Beats, now: float) -> str:
        """Why it is lost, in words."""
        text = f"nothing was heard of it for {now - beats.heard:.0f} s"
        worst = max((delay for _, delay in self._delays), default=0.0)
        if self.timeout_s(now) > self._least_s + 1.0:
            text += f", where answers of nodes took {worst:.1f} s at most"
        return text

    def _forget(self, now: float) -> None:
        while self._delays and now - self._delays[0][0] > DELAYS_S:
            self._delays.popleft()


def cpu_pressure() -> float | None:
    """Percent of the last 10 s in which a process waited for a CPU; None where nobody tells."""
    try:
        some = _PRESSURE.read_text().splitlines()[0]
        return float(dict(word.split("=") for word in some.split()[1:])["avg10"])
    except (OSError, IndexError, KeyError, ValueError):
        return None


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
