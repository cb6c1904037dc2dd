"""Histories that are kept in files of this machine: one file for each node."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from gridwright.monitor.frame import Frame, frame_of_seen
from gridwright.monitor.history.questions import NodeCourse, RangeQuestion
from gridwright.monitor.history.reading import StoredHistory, query_history
from gridwright.monitor.history.store import NoHistory
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import NodeSamples
from gridwright.monitor.rows import SeenNode

T = TypeVar("T")
NOTHING_THEN = "nothing is known of that time"


class StoredHistories:
    """Answers of files, by the name of their node. A file that cannot be read is a node that is away."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = dict(files)

    def nodes(self) -> list[str]:
        """Names of all nodes that are asked."""
        return list(self._files)

    def courses(self, question: RangeQuestion) -> list[NodeCourse]:
        """One answer for each node."""
        return [
            answer
            if isinstance(answer, NodeCourse)
            else NodeCourse(name, question.start_s, question.step_s, (), answer)
            for name, answer in self._query_all(lambda history: history.course(question))
        ]

    def frame(self, at_s: float, seconds: float, libraries: Sequence[WatchedLibrary] = ()) -> Frame:
        """The picture of the `seconds` that ended at `at_s`, as `top` would have shown it."""
        samples: list[NodeSamples] = []
        seen: list[SeenNode] = []
        for name, answer in self._query_all(lambda history: history.seen(at_s, seconds)):
            why = answer if isinstance(answer, str) else "" if answer else NOTHING_THEN
            samples.append(NodeSamples(name, absent=why))
            if isinstance(answer, SeenNode):
                seen.append(answer)
        return frame_of_seen(samples, seen, libraries)

    def reach(self) -> tuple[float, float] | None:
        """The first and the last time that any node knows of; None where there is no history."""
        answers = [answer for _, answer in self._query_all(StoredHistory.reach)]
        known = [answer for answer in answers if isinstance(answer, tuple)]
        return (min(start for start, _ in known), max(end for _, end in known)) if known else None

    def _query_all(self, ask: Callable[[StoredHistory], T]) -> list[tuple[str, T | str]]:
        """What each file answers, or why it does not."""
        found: list[tuple[str, T | str]] = []
        for name, path in self._files.items():
            try:
                found.append((name, query_history(path, name, ask)))
            except (NoHistory, sqlite3.Error) as error:
                found.append((name, str(error)))
        return found
