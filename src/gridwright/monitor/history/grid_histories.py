"""Histories that the nodes of a grid keep: each is asked where it is, and answers are put side by side."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from gridwright.commands import CommandOutput
from gridwright.grid.grid import SILENT, Grid
from gridwright.messages import MessageError, decode, encode
from gridwright.monitor.frame import Frame, frame_of_seen
from gridwright.monitor.history.clocks import HistoryClocks
from gridwright.monitor.history.messages import (
    HistoryAnswer,
    HistoryRequest,
    unpacked_course,
    unpacked_picture,
)
from gridwright.monitor.history.places import DIRECTORY
from gridwright.monitor.history.questions import NodeCourse, RangeQuestion
from gridwright.monitor.history.sessions import MOST_SESSIONS, NodeSessions
from gridwright.monitor.history.stored import NOTHING_THEN
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import NodeSamples
from gridwright.monitor.rows import SeenNode

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
            NodeCourse(name, question.start_s, question.step_s, (), found)
            if isinstance(found, str)
            else found
            for name, found in answers.items()
        ]

    def frame(self, at_s: float, seconds: float, libraries: Sequence[WatchedLibrary] = ()) -> Frame:
        """The picture of the `seconds` that ended at `at_s`, as `top` would have shown it."""

        def request(ahead: float) -> HistoryRequest:
            return HistoryRequest("picture", str(self.directory), at_s=at_s + ahead, seconds=seconds)

        def seen(name: str, answer: HistoryAnswer, ahead: float) -> SeenNode | str:
            if answer.picture is None:
                return NOTHING_THEN
            found = unpacked_picture(name, answer.picture)
            return replace(found, last=replace(found.last, time=found.last.time - ahead))

        answers = self._answers(request, seen, 1.0)
        asked = [
            NodeSamples(name, absent=each if isinstance(each, str) else "") for name, each in answers.items()
        ]
        return frame_of_seen(
            asked, [each for each in answers.values() if isinstance(each, SeenNode)], libraries
        )

    def reach(self) -> tuple[float, float] | None:
        """The first and the last time that any node knows of; None where there is no history."""

        def request(_: float) -> HistoryRequest:
            return HistoryRequest("reach", str(self.directory))

        def reach(_: str, answer: HistoryAnswer, ahead: float) -> tuple[float, float] | str:
            return (
                NOTHING_THEN if answer.reach is None else (answer.reach[0] - ahead, answer.reach[1] - ahead)
            )

        known = [each for each in self._answers(request, reach, 1.0).values() if not isinstance(each, str)]
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
        found: dict[str, T | str] = dict.fromkeys(self.names, _ASLEEP)
        now = time.monotonic()
        away = {name: why for name, (why, since) in self._away.items() if now - since < AWAY_S}
        found.update(away)
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
                        found[name] = read(name, answer, ahead)
                    except MessageError as error:
                        found[name] = str(error)
                        if output is None or output.status == _NO_CONNECTION:
                            self._away[name] = str(error), time.monotonic()
                        continue
                    if self._clocks.ahead(name, step_s) != ahead:
                        again.append(name)
            left = again
        return found

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
