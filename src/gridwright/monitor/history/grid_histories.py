"""Histories that the nodes of a grid keep: each is asked where it is, and answers are put side by side.

How far clocks of nodes are from the one here, as far as answers tell it (pure).

Programs that stay on nodes and answer question after question: a connection costs more than an answer.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from gridwright.commands import CommandOutput
from gridwright.grid.grid import SILENT, Grid
from gridwright.messages import MessageError, decode, encode
from gridwright.monitor.frame import Frame, frame_of_seen
from gridwright.monitor.history.messages import (
    HistoryAnswer,
    HistoryRequest,
    unpacked_course,
    unpacked_picture,
)
from gridwright.monitor.history.questions import DIRECTORY, NodeCourse, RangeQuestion
from gridwright.monitor.history.reading import NOTHING_THEN
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import NodeSamples
from gridwright.monitor.rows import SeenNode

MOST_SESSIONS = 200
"""Three files each: more than a process may have open by default are not tried."""
_MOST_BYTES = 1 << 27
_MOST_COMPLAINTS = 4096
_DEATH_S = 0.5

Commands = Callable[[Collection[str]], Mapping[str, Sequence[str]]]


@dataclass(slots=True)
class _Session:
    """The program of one node."""

    process: subprocess.Popen[bytes]
    said: bytearray = field(default_factory=bytearray)
    complaints: bytearray = field(default_factory=bytearray)


class NodeSessions:
    """Sessions by the name of their node; `commands` are asked for when one has to be started.

    One question at a time: others wait.
    """

    def __init__(self, commands: Commands, start_s: float, answer_s: float) -> None:
        """Begin none yet. `start_s` is for a program that has to start, `answer_s` for one that is there."""
        self._commands = commands
        self._start_s = start_s
        self._answer_s = answer_s
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all programs; those that hang are left behind."""
        with self._lock:
            for name in list(self._sessions):
                self._end(name)

    def ask(self, names: Collection[str], stdin: bytes) -> Mapping[str, CommandOutput | None]:
        """The answer of each node to one line, as `Grid.ask` gives it; None from one that is late.

        Raises GridwrightError (status ENVIRONMENT) where the grid is not up.
        """
        with self._lock:
            limit_s = self._answer_s if self._sessions.keys() >= set(names) else self._start_s
            found = self._started(names)
            with selectors.DefaultSelector() as selector:
                for name in [each for each in names if each not in found]:
                    process = self._sessions[name].process
                    with contextlib.suppress(OSError):
                        # Its end is read below, with what it said of it.
                        os.write(process.stdin.fileno(), stdin)  # type: ignore[union-attr]
                    for pipe in (process.stdout, process.stderr):
                        selector.register(pipe, selectors.EVENT_READ, name)  # type: ignore[arg-type]
                self._listen(selector, found, len(names), time.monotonic() + limit_s)
            for name in names:
                if name not in found:
                    # What it says later would be taken for the answer to another question.
                    self._end(name)
                    found[name] = None
            return found

    def _started(self, names: Collection[str]) -> dict[str, CommandOutput | None]:
        """Have a session with each; the answers of those that none can be started of."""
        found: dict[str, CommandOutput | None] = {}
        lacking = [name for name in names if name not in self._sessions]
        for name, command in (self._commands(lacking) if lacking else {}).items():
            try:
                process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                found[name] = CommandOutput(1, b"", str(error).encode())
                continue
            for pipe in (process.stdin, process.stdout, process.stderr):
                os.set_blocking(pipe.fileno(), False)  # type: ignore[union-attr]
            self._sessions[name] = _Session(process)
        return found

    def _listen(
        self,
        selector: selectors.BaseSelector,
        found: dict[str, CommandOutput | None],
        wanted: int,
        deadline: float,
    ) -> None:
        while len(found) < wanted and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                name, session = key.data, self._sessions.get(key.data)
                if session is None:
                    # It has ended, and both of its pipes were ready.
                    continue
                if key.fileobj is session.process.stderr:
                    if not _read(key.fd, session.complaints):
                        selector.unregister(key.fileobj)
                    del session.complaints[:-_MOST_COMPLAINTS]
                elif not _read(key.fd, session.said) or len(session.said) > _MOST_BYTES:
                    found[name] = self._end(name, selector)
                elif session.said.endswith(b"\n"):
                    found[name] = CommandOutput(0, bytes(session.said), b"")
                    session.said.clear()
                    selector.unregister(key.fileobj)

    def _end(self, name: str, selector: selectors.BaseSelector | None = None) -> CommandOutput:
        """End a session; how it ended, and what it said of that."""
        session = self._sessions.pop(name)
        process = session.process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_DEATH_S if selector else 0.0)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_DEATH_S)
        _read(process.stderr.fileno(), session.complaints)  # type: ignore[union-attr]
        for pipe in (process.stdin, process.stdout, process.stderr):
            if selector is not None and pipe in selector.get_map():
                selector.unregister(pipe)  # type: ignore[arg-type]
            pipe.close()  # type: ignore[union-attr]
        return CommandOutput(process.returncode or 3, b"", bytes(session.complaints))


def _read(fd: int, into: bytearray) -> bool:
    """Read what is there; False at the end."""
    try:
        chunk = os.read(fd, 1 << 16)
    except BlockingIOError:
        return True
    except OSError:
        return False
    into += chunk
    return bool(chunk)


DRIFT_S = 1e-4
"""What a clock may drift in a second (100 ppm): a measurement is worth less as it ages."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    low: float
    high: float
    at: float


@dataclass(slots=True)
class HistoryClocks:
    """Of each node, between which bounds its clock is ahead of ours."""

    _known: dict[str, _Bounds] = field(default_factory=dict)

    def note(self, node: str, told: float, asked: float, answered: float) -> None:
        """A node's clock told a time between our asking it and our having its answer."""
        low, high = told - answered, told - asked
        known = self._known.get(node)
        if known is not None:
            drift = DRIFT_S * (answered - known.at)
            both = max(low, known.low - drift), min(high, known.high + drift)
            # Otherwise one of the clocks was set meanwhile, and the last word counts.
            low, high = both if both[0] <= both[1] else (low, high)
        self._known[node] = _Bounds(low, high, answered)

    def ahead(self, node: str, step_s: float = 1.0) -> float:
        """How far a node's clock is ahead, in whole steps; 0 where it may be right."""
        known = self._known.get(node)
        if known is None or known.low <= 0.0 <= known.high:
            return 0.0
        return round((known.low + known.high) / 2 / step_s) * step_s


PROGRAM = (sys.executable, "-P", "-m", "gridwright.monitor.history.node_program")
ANSWER_S = 20.0
"""For one node, a slow start of a program included."""
THERE_S = 8.0
"""For one whose program has answered before: a node that died is silent."""
AWAY_S = 30.0
"""A node that was away is not asked again for so long: each time takes as long as a connection may."""
_NO_CONNECTION = 255
"""Exit status of ssh where it reaches nobody (ssh(1))."""
_ASLEEP = "it is off until a job waits for it"

Ask = Callable[[Collection[str], bytes], Mapping[str, CommandOutput | None]]
T = TypeVar("T")


@dataclass
class GridHistories:
    """The histories of nodes that are reached by `ask`; times are told by the clock here."""

    names: Sequence[str]
    ask: Ask
    asleep: Collection[str] = ()
    directory: Path = DIRECTORY

    @cached_property
    def _clocks(self) -> HistoryClocks:
        return HistoryClocks()

    @cached_property
    def _away(self) -> dict[str, tuple[str, float]]:
        """Nodes that did not answer: why, and when, by time.monotonic()."""
        return {}

    def nodes(self) -> list[str]:
        """Names of all nodes that are asked."""
        return list(self.names)

    def courses(self, question: RangeQuestion) -> list[NodeCourse]:
        """One answer for each node; of one that is away, the reason."""

        def request(ahead: float) -> HistoryRequest:
            asked = replace(question, start_s=question.start_s + ahead, end_s=question.end_s + ahead)
            return HistoryRequest("course", str(self.directory), asked)

        def course(name: str, answer: HistoryAnswer, ahead: float) -> NodeCourse:
            if answer.course is None:
                raise MessageError("it is missing", "course")
            found = unpacked_course(name, answer.course)
            return replace(found, start_s=found.start_s - ahead)

        answers = self._answers(request, course, max(1.0, question.step_s))
        return [
            NodeCourse(name, question.start_s, question.step_s, (), answer)
            if isinstance(answer, str)
            else answer
            for name, answer in answers.items()
        ]

    def frame(self, at_s: float, seconds: float, libraries: Sequence[WatchedLibrary] = ()) -> Frame:
        """The picture of the `seconds` that ended at `at_s`, as `top` would have shown it."""

        def request(ahead: float) -> HistoryRequest:
            return HistoryRequest("picture", str(self.directory), at_s=at_s + ahead, seconds=seconds)

        def seen(name: str, answer: HistoryAnswer, ahead: float) -> SeenNode | str:
            if answer.picture is None:
                return NOTHING_THEN
            node = unpacked_picture(name, answer.picture)
            return replace(node, last=replace(node.last, time=node.last.time - ahead))

        answers = self._answers(request, seen, 1.0)
        samples = [
            NodeSamples(name, absent=answer if isinstance(answer, str) else "")
            for name, answer in answers.items()
        ]
        return frame_of_seen(
            samples, [answer for answer in answers.values() if isinstance(answer, SeenNode)], libraries
        )

    def reach(self) -> tuple[float, float] | None:
        """The first and the last time that any node knows of; None where there is no history."""

        def request(_: float) -> HistoryRequest:
            return HistoryRequest("reach", str(self.directory))

        def reach(_: str, answer: HistoryAnswer, ahead: float) -> tuple[float, float] | str:
            return (
                NOTHING_THEN if answer.reach is None else (answer.reach[0] - ahead, answer.reach[1] - ahead)
            )

        known = [
            answer for answer in self._answers(request, reach, 1.0).values() if not isinstance(answer, str)
        ]
        return (min(start for start, _ in known), max(end for _, end in known)) if known else None

    def _answers(
        self,
        request: Callable[[float], HistoryRequest],
        read: Callable[[str, HistoryAnswer, float], T | str],
        step_s: float,
    ) -> dict[str, T | str]:
        """What each node answers, or why it does not.

        Who turns out to have another clock than was taken for granted is asked once more.
        """
        answers: dict[str, T | str] = dict.fromkeys(self.names, _ASLEEP)
        now = time.monotonic()
        away = {name: why for name, (why, since) in self._away.items() if now - since < AWAY_S}
        answers.update(away)
        left = [name for name in self.names if name not in self.asleep and name not in away]
        for _ in range(2):
            again = []
            for ahead, names in self._by_clock(left, step_s).items():
                asked = time.time()
                outputs = self.ask(names, encode(request(ahead)) + b"\n")
                answered = time.time()
                for name in names:
                    output = outputs.get(name)
                    try:
                        answer = _answer(output)
                        self._clocks.note(name, answer.now_s, asked, answered)
                        answers[name] = read(name, answer, ahead)
                    except MessageError as error:
                        answers[name] = str(error)
                        if output is None or output.status == _NO_CONNECTION:
                            self._away[name] = str(error), time.monotonic()
                        continue
                    if self._clocks.ahead(name, step_s) != ahead:
                        again.append(name)
            left = again
        return answers

    def _by_clock(self, names: Collection[str], step_s: float) -> dict[float, list[str]]:
        groups: dict[float, list[str]] = {}
        for name in names:
            groups.setdefault(self._clocks.ahead(name, step_s), []).append(name)
        return groups


def histories_of(
    grid: Grid, directory: Path = DIRECTORY, sessions: NodeSessions | None = None
) -> GridHistories:
    """The histories of all nodes of a grid, asked in sessions where these are given.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up.
    """
    known = grid.known()
    if sessions is not None and len(known.names) <= MOST_SESSIONS:
        return GridHistories(known.names, sessions.ask, frozenset(known.asleep), directory)

    def ask(names: Collection[str], stdin: bytes) -> Mapping[str, CommandOutput | None]:
        return grid.ask(names, PROGRAM, stdin=stdin, timeout_s=ANSWER_S)

    return GridHistories(known.names, ask, frozenset(known.asleep), directory)


def sessions_of(grid: Grid) -> NodeSessions:
    """Sessions with the nodes of a grid; none is begun yet."""
    return NodeSessions(lambda names: grid.attached(names, PROGRAM), ANSWER_S, THERE_S)


def _answer(output: CommandOutput | None) -> HistoryAnswer:
    """What a node said. Raises MessageError with the reason, as a user reads it, where it did not answer."""
    if output is None:
        raise MessageError(SILENT)
    if output.status != 0:
        last = output.stderr.decode(errors="replace").strip().splitlines()
        raise MessageError(last[-1][:200] if last else f"exit status {output.status}, no answer")
    try:
        answer = decode(output.stdout, HistoryAnswer)
    except MessageError as error:
        raise MessageError(f"what it answered cannot be read: {error}") from error
    if answer.wrong:
        raise MessageError(answer.wrong)
    return answer
