"""Has pairs of nodes try the file systems that they share: every node takes part, in bounded time.

One program on each node plays its part in all trials: connecting and starting it costs more than a trial, on
two cores 0.3 s of CPU time against 0.05 s. The trials of two nodes on a file system are one step after the
other, and every answer has a limit of time.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from gridwright.doctor.check import Observation, PairFindings, Trial, Tried
from gridwright.doctor.messages import (
    ANSWERS,
    ORDERS,
    Append,
    Begin,
    Count,
    Done,
    GiveBack,
    Lock,
    Look,
    OrderRefused,
    Put,
    Read,
    Ready,
    TakeLock,
    Time,
    TrialOrder,
    TryLock,
    Write,
)
from gridwright.messages import MessageError

PROBES = (sys.executable, "-P", "-m", "gridwright.doctor.probes.node")
START_S = 8.0
"""For the connection and the start of a program on a node that is busy."""
ORDER_S = 4.0
"""For one order: what takes longer on a shared file system hangs."""
_END_S = 2.0
"""For a part to take away what it made."""


class NoAnswer(Exception):
    """A part did not answer, or ended; the text says how."""


class Refused(Exception):
    """A part could not do what it was told; the text is the system's."""


class Channel:
    """One node's part, at the end of a command line that runs it."""

    def __init__(self, node: str, command: Sequence[str]) -> None:
        self.node = node
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except OSError as error:
            raise NoAnswer(f"{command[0]} cannot be started: {error.strerror}") from error
        self._read = b""
        self._is_ready = False
        self.clock_off_s: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ready(self) -> None:
        """Wait until the part has started, where it has not said so yet. Raises NoAnswer."""
        if not self._is_ready:
            self._answer(START_S)
            self._is_ready = True

    def ask(self, order: TrialOrder) -> bool | float | str | dict[str, int]:
        """Give an order and have its answer. Raises NoAnswer and Refused."""
        self.tell(order)
        return self.order_result()

    def tell(self, order: TrialOrder) -> None:
        """Give an order; `told` has its answer. Raises NoAnswer."""
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        try:
            self._process.stdin.write(ORDERS.encode(order) + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise NoAnswer(self._last_words()) from error

    def order_result(self) -> bool | float | str | dict[str, int]:
        """The answer to an order. Raises NoAnswer and Refused."""
        answer = self._answer(ORDER_S)
        if isinstance(answer, OrderRefused):
            raise Refused(answer.error)
        return answer.value if isinstance(answer, Done) else False

    def compare_clocks(self) -> None:
        """See how far the node's clock is from ours, beyond the time of the question. Raises NoAnswer."""
        before = time.time()
        theirs = self.ask(Time())
        if not isinstance(theirs, float):
            raise NoAnswer(f"{self.node} does not say what time it is")
        self.clock_off_s = min(theirs - before, 0.0) + max(theirs - time.time(), 0.0)

    def close(self) -> None:
        """Have the part end and take away what it made; kill it where it does not."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _answer(self, seconds: float) -> Ready | Done | OrderRefused:
        deadline = time.monotonic() + seconds
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        pipe = self._process.stdout.fileno()
        while True:
            # What a login prints on its way is no answer.
            while b"\n" in self._read:
                line, _, self._read = self._read.partition(b"\n")
                with contextlib.suppress(MessageError):
                    return ANSWERS.decode(line)
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise NoAnswer(f"{self.node} has not answered for {seconds:.0f} s")
            chunk = os.read(pipe, 1 << 16)
            if not chunk:
                raise NoAnswer(self._last_words())
            self._read += chunk

    def _last_words(self) -> str:
        assert self._process.stderr is not None  # noqa: S101 - it was asked for
        pipe = self._process.stderr.fileno()
        said = os.read(pipe, 4096) if select.select([pipe], [], [], 0.2)[0] else b""
        lines = said.decode(errors="replace").strip().splitlines()
        return f"{self.node}: {lines[-1][:200]}" if lines else f"{self.node}: its part ended"


Attach = Callable[[str, Sequence[str]], Sequence[str]]
"""The command line that runs a command on a node from here, with its streams."""


class ProbeParts:
    """Opens the part of a node when it is first needed, and ends it after its last trial."""

    def __init__(self, attach: Attach, trials: Mapping[str, int]) -> None:
        """`trials` has in how many each node takes part. No node may be in two at the same time."""
        self._attach = attach
        self._left = dict(trials)
        self._open: dict[str, Channel] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for node in list(self._open):
            self._end(node)

    @contextmanager
    def both(self, nodes: tuple[str, str]) -> Iterator[tuple[Channel, Channel]]:
        """The parts of two nodes, ready for a trial. Raises NoAnswer.

        After a trial that failed both are ended: one may owe an answer to it.
        """
        try:
            # Both start at the same time.
            one, two = (self._part(node) for node in nodes)
            for part in (one, two):
                part.ready()
            yield one, two
        except BaseException:
            for node in nodes:
                self._end(node)
            raise
        finally:
            for node in nodes:
                self._used(node)

    def _part(self, node: str) -> Channel:
        with self._lock:
            part = self._open.get(node)
        if part is None:
            part = Channel(node, self._attach(node, PROBES))
            with self._lock:
                self._open[node] = part
        return part

    def _used(self, node: str) -> None:
        with self._lock:
            self._left[node] -= 1
            last = self._left[node] <= 0
        if last:
            self._end(node)

    def _end(self, node: str) -> None:
        with self._lock:
            part = self._open.pop(node, None)
        if part is not None:
            part.close()


RECORDS = 200
"""That each node appends: enough for hundreds of writes to meet, and done in a fraction of a second."""
SETTLE_S = 1.5
"""How long is waited for what ought to have been seen at once, to tell late from never."""
_STEP_S = 0.1


def trials(filesystem: str, directory: Path, one: Channel, two: Channel) -> Iterator[Tried]:
    """Try a file system in a new directory of a library; `one` makes it and takes it away.

    Raises NoAnswer where a node does not answer any more, and Refused where one may not do its part.
    """
    nodes = (one.node, two.node)
    mark = secrets.token_hex(8)
    one.ask(Begin(str(directory), mark, owner=True))
    two.ask(Begin(str(directory), mark, owner=False))
    apart = _late(lambda: two.ask(Look()) is True)
    yield Tried(filesystem, nodes, "seen", f"{two.node} {apart} what {one.node} made" if apart else None)
    if apart and not two.ask(Look()):
        return
    steps: tuple[tuple[Trial, Callable[[Channel, Channel], str | None]], ...] = (
        ("read", _read),
        ("rename", _rename),
        ("flock", lambda one, two: _lock(one, two, "flock")),
        ("fcntl", lambda one, two: _lock(one, two, "fcntl")),
        ("append", _append),
    )
    for trial, step in steps:
        try:
            wrong = step(one, two)
        except Refused as refused:
            wrong = str(refused)
        yield Tried(filesystem, nodes, trial, wrong)


def _late(seen: Callable[[], bool]) -> str:
    """How late something was seen, in words; nothing where it was seen at once."""
    began = time.monotonic()
    if seen():
        return ""
    while time.monotonic() - began < SETTLE_S:
        time.sleep(_STEP_S)
        if seen():
            return f"saw only after {time.monotonic() - began:.1f} s"
    return f"has not seen for {SETTLE_S:.1f} s"


def _reads(node: Channel, name: str, text: str) -> Callable[[], bool]:
    def reads() -> bool:
        try:
            return bool(node.ask(Read(name)) == text)
        except Refused:
            return False

    return reads


def _read(one: Channel, two: Channel) -> str | None:
    """A new file, then the same file again: the second time the reader has the first in its cache."""
    for text in ("first", "other"):
        one.ask(Write("read", text))
        if late := _late(_reads(two, "read", text)):
            return f"{two.node} {late} what {one.node} had written and closed"
    return None


def _rename(one: Channel, two: Channel) -> str | None:
    """New files under an old name, each way."""
    one.ask(Put("renamed", "old"))
    two.ask(Read("renamed"))
    for maker, reader, text in ((one, two, "newer"), (two, one, "newest")):
        maker.ask(Put("renamed", text))
        if late := _late(_reads(reader, "renamed", text)):
            return f"{reader.node} {late} the file that {maker.node} put in the place of another"
    return None


def _lock(one: Channel, two: Channel, kind: Lock) -> str | None:
    """A lock of each keeps out the other, and is free for it afterwards."""
    for holder, other in ((one, two), (two, one)):
        holder.ask(TakeLock(kind, kind))
        if other.ask(TryLock(kind, kind)):
            holder.ask(GiveBack(kind))
            return f"{other.node} got the lock that {holder.node} held"
        holder.ask(GiveBack(kind))
        if late := _late(lambda: bool(other.ask(TryLock(kind, kind)))):  # noqa: B023
            return f"{other.node} {late} that {holder.node} gave the lock back"
    return None


def _append(one: Channel, two: Channel) -> str | None:
    """Both append to one file at the same time; it is there before: making it at once is another trial."""
    one.ask(Write("appended", ""))
    for who, node in (("one", one), ("two", two)):
        node.tell(Append("appended", who, RECORDS))
    for node in (one, two):
        node.order_result()
    found = one.ask(Count("appended"))
    if not isinstance(found, dict):
        raise Refused("the records cannot be counted")
    lost = 2 * RECORDS - sum(count for who, count in found.items() if who)
    torn = found.get("", 0)
    return f"of {2 * RECORDS} records {lost} are lost, and {torn} pieces are torn" if lost or torn else None


AT_ONCE = 24
"""Pairs at a time: two connections each, below the 64 of ClusterShell."""
BUDGET_S = 30.0
"""For all pairs; those that had no turn by then are told as not tried."""
LINKED = 64
"""Up to so many nodes each one is in two pairs, so that all see one file system if each pair does."""


@dataclass(frozen=True, slots=True)
class _Pair:
    filesystem: str
    directory: Path
    nodes: tuple[str, str]


@dataclass(slots=True)
class _Outcome:
    nodes: tuple[str, str]
    tried: list[Tried] = field(default_factory=list)
    clocks: dict[str, float] = field(default_factory=dict)
    untried: str | None = None


def probe_pairs(observation: Observation, attach: Attach) -> PairFindings | None:
    """Have pairs of nodes try each shared file system; None where no two nodes share one."""
    pairs = (
        [pair for name in observation.spec.filesystems for pair in _pairs_of(observation, name)]
        if observation.spec
        else []
    )
    if not pairs:
        return None
    deadline = time.monotonic() + BUDGET_S
    outcomes: list[_Outcome] = []
    with ProbeParts(attach, Counter(node for pair in pairs for node in pair.nodes)) as parts:
        for apart in _rounds(pairs):
            with ThreadPoolExecutor(min(AT_ONCE, len(apart))) as pool:
                outcomes += pool.map(lambda pair: _try(pair, parts, deadline), apart)
    clocks: dict[str, float] = {}
    for outcome in outcomes:
        clocks |= outcome.clocks
    return PairFindings(
        tuple(each for outcome in outcomes for each in outcome.tried),
        {outcome.nodes: outcome.untried for outcome in outcomes if outcome.untried is not None},
        clocks,
    )


def _pairs_of(observation: Observation, filesystem: str) -> list[_Pair]:
    """Neighbours by name, for a file system that is shared; one library stands for it."""
    spec = observation.spec
    if spec is None or spec.filesystems[filesystem].is_node_local:
        return []
    library = next((name for name, each in spec.libraries.items() if each.filesystem == filesystem), None)
    if library is None:
        return []
    nodes = [
        node
        for node, facts in observation.facts.items()
        if (found := facts.libraries.get(library)) is not None
        and not (found.hangs or found.missing or found.refused)
    ]
    return [_Pair(filesystem, spec.library_directory(library), pair) for pair in pairs(nodes)]


def pairs(nodes: Sequence[str]) -> list[tuple[str, str]]:
    """Neighbours, so that each node is in a pair; of few nodes all neighbours, as a chain."""
    chain = list(pairwise(nodes))
    # Pairs without a node in common first: they do not wait for each other's machines.
    apart, links = chain[::2], chain[1::2]
    return apart + (links if len(nodes) <= LINKED or not links else links[-1:] * (len(nodes) % 2))


def _rounds(pairs: Sequence[_Pair]) -> list[list[_Pair]]:
    """Pairs in rounds, in each of which no node is twice: a part is in one trial at a time."""
    rounds: list[tuple[set[str], list[_Pair]]] = []
    for pair in pairs:
        free = next((each for each in rounds if not each[0] & set(pair.nodes)), None)
        if free is None:
            rounds.append(free := (set(), []))
        free[0].update(pair.nodes)
        free[1].append(pair)
    return [found for _, found in rounds]


def _try(pair: _Pair, parts: ProbeParts, deadline: float) -> _Outcome:
    outcome = _Outcome(pair.nodes)
    if time.monotonic() > deadline:
        outcome.untried = f"no turn within {BUDGET_S:.0f} s"
        return outcome
    try:
        with parts.both(pair.nodes) as (one, two):
            for part in (one, two):
                part.compare_clocks()
                outcome.clocks[part.node] = part.clock_off_s or 0.0
            for tried in trials(pair.filesystem, pair.directory, one, two):
                outcome.tried.append(tried)
    except (NoAnswer, Refused) as error:
        outcome.untried = str(error)
    return outcome
