"""Which histories there are: what nodes keep, else what is seen from now on; or a recording of `top`.

Nodes that keep none are sampled from here for as long as somebody watches. A recording is as long and as fine
as it was recorded.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Self

from gridwright.beneath import remove_tree
from gridwright.errors import environment_error
from gridwright.grid.grid import Grid
from gridwright.monitor.frame import Frame, frame_of
from gridwright.monitor.gathering import commands_of, directories_of
from gridwright.monitor.history.grid_histories import histories_of, sessions_of
from gridwright.monitor.history.questions import (
    DIRECTORY,
    Histories,
    NodeCourse,
    RangeQuestion,
    SeriesCourse,
    history_file,
)
from gridwright.monitor.history.reading import StoredHistories
from gridwright.monitor.history.steady import SteadyWriter
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import Key, NodeSamples, Request, figures
from gridwright.monitor.recording import Recording
from gridwright.monitor.streams import NodeStreams
from gridwright.own_directories import temporary_directory


def find_histories(grid: Grid | None, directory: Path = DIRECTORY) -> Histories | None:
    """The histories that the nodes of a grid keep, or this machine where there is none; None if none is kept.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up.
    """
    if grid is None or grid.is_this_machine:
        file = history_file(directory)
        return StoredHistories({socket.gethostname(): file}) if file.exists() else None
    return histories_of(grid, directory) if grid.spec.monitoring.history else None


def open_histories(grid: Grid | None, directory: Path = DIRECTORY) -> Histories:
    """The histories that are kept. Raises GridwrightError (status ENVIRONMENT) where none is."""
    histories = find_histories(grid, directory)
    if histories is None:
        where = "this machine" if grid is None else f"grid {grid.spec.name}"
        raise environment_error(
            "no history is kept, so that nothing is known of an earlier time",
            where=where,
            remedy="write monitoring: {history: true} into the grid spec and run gridwright setup, or run "
            "gridwright node history on the machine; or record what is to be seen later by gridwright top "
            "--record",
        )
    return histories


@contextlib.contextmanager
def watched_histories(grid: Grid | None, directory: Path = DIRECTORY) -> Iterator[Histories]:
    """The histories that are kept; else nodes are sampled from here for as long as these are open.

    Raises GridwrightError (status ENVIRONMENT) where the grid is not up.
    """
    histories = find_histories(grid, directory)
    if histories is None:
        with LiveHistories(commands_of(grid), () if grid is None else directories_of(grid)) as live:
            yield live
    elif grid is None or grid.is_this_machine:
        yield histories
    else:
        with sessions_of(grid) as sessions:
            yield histories_of(grid, directory, sessions)


LOOK_S = 0.25
"""How often it is looked for new samples."""
_LOG = logging.getLogger("gridwright.monitor")


class LiveHistories:
    """Samples nodes by these commands (see `gathering.commands_of`) until it is closed.

    What it has is in a directory of its own, which goes with it. Each node's clock counts.
    """

    def __init__(self, commands: Mapping[str, Sequence[str]], directories: Sequence[str] = ()) -> None:
        self._directory = temporary_directory("gridwright-history-")
        files = {name: history_file(self._directory, name) for name in commands}
        self._stored = StoredHistories(files)
        self._writers = {name: SteadyWriter(path, _LOG.warning) for name, path in files.items()}
        self._streams = NodeStreams(commands, Request(1.0, 0, tuple(directories)))
        self._absent = dict.fromkeys(commands, "")
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live histories", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all samplers, and remove what they left."""
        self._ended.set()
        self._thread.join(2 * LOOK_S)
        self._streams.close()
        for writer in self._writers.values():
            writer.close()
        remove_tree(self._directory)

    @property
    def absent(self) -> dict[str, str]:
        """Nodes that give no samples now, and why."""
        return {name: why for name, why in self._absent.items() if why}

    def nodes(self) -> list[str]:
        """Names of all nodes that are asked."""
        return self._stored.nodes()

    def courses(self, question: RangeQuestion) -> list[NodeCourse]:
        """One answer for each node."""
        return self._stored.courses(question)

    def frame(self, at_s: float, seconds: float, libraries: Sequence[WatchedLibrary] = ()) -> Frame:
        """The picture of the `seconds` that ended at `at_s`, as `top` would have shown it."""
        return self._stored.frame(at_s, seconds, libraries)

    def reach(self) -> tuple[float, float] | None:
        """The first and the last time that any node knows of; None where there is no history."""
        return self._stored.reach()

    def _run(self) -> None:
        last: dict[str, float] = {}
        while not self._ended.wait(LOOK_S):
            for each in self._streams.read():
                self._absent[each.node] = each.absent
                for snapshot in (each.before, each.after):
                    if snapshot is not None and snapshot.at_s != last.get(each.node):
                        last[each.node] = snapshot.at_s
                        self._writers[each.node].add(snapshot)


NOT_SEEN = "it was not recorded then"


class RecordedHistories:
    """Answers of a recording. Its questions raise GridwrightError (INPUT) where a line is spoilt."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    @cached_property
    def _times(self) -> list[float]:
        """Of each line, never falling; of one in which nobody answered, between those of its neighbours."""
        lines = range(len(self._recording) + 1)
        known = [(line, time) for line in lines if (time := self._recording.time_of(line)) is not None]
        if not known:
            return [-math.inf for _ in lines]
        found: list[float] = []
        for (line, time), (then, later) in pairwise([known[0], *known, known[-1]]):
            # A clock that was set back must not turn the order round.
            begin = max([time, *found[-1:]])
            step = max(0.0, later - begin) / max(1, then - line)
            found += [begin + step * number for number in range(then - line)]
        last = max([known[-1][1], *found[-1:]])
        found = [known[0][1]] * known[0][0] + found
        return found + [last] * (len(lines) - len(found))

    def nodes(self) -> list[str]:
        """Names of all nodes that were recorded last."""
        last = len(self._recording)
        return [sample.node for sample in self._recording.samples(last - 1, last)]

    def reach(self) -> tuple[float, float] | None:
        """The first and the last time that was recorded."""
        known = [time for time in self._times if math.isfinite(time)]
        return (known[0], known[-1]) if known else None

    def frame(self, at_s: float, seconds: float, libraries: Sequence[WatchedLibrary] = ()) -> Frame:
        """The picture of the `seconds` that ended at `at_s`, by the samples next to these times."""
        later = self._line(at_s)
        if later == 0:
            return frame_of([NodeSamples(name, absent=NOT_SEEN) for name in self.nodes()], libraries)
        earlier = min(range(later), key=lambda line: abs(self._times[line] - (at_s - seconds)))
        return frame_of(self._recording.samples(earlier, later), libraries)

    def courses(self, question: RangeQuestion) -> list[NodeCourse]:
        """One answer for each node."""
        steps = max(1, math.ceil((question.end_s - question.start_s) / question.step_s))
        parts = [self._step(question, number) for number in range(steps)]
        return [_course(node, question, [part.get(node) for part in parts]) for node in self.nodes()]

    def _line(self, at_s: float) -> int:
        """The last line that is not later; the first one where all are."""
        return max(0, bisect_right(self._times, at_s) - 1)

    def _step(self, question: RangeQuestion, number: int) -> dict[str, dict[Key, float]]:
        """Means over one step, by node."""
        start = question.start_s + number * question.step_s
        last = self._line(start + question.step_s)
        if self._times[last] <= start or last == 0:
            return {}
        first = min(last - 1, self._line(start))
        found: dict[str, dict[Key, float]] = {}
        for sample in self._recording.samples(first, last):
            if sample.before is not None and sample.after is not None:
                told = figures(sample.before, sample.after)
                values = {**told.gauges, **told.rates}
                found[sample.node] = {
                    key: value for key, value in values.items() if key[0] in question.metrics
                }
        return found


def _course(node: str, question: RangeQuestion, parts: Sequence[dict[Key, float] | None]) -> NodeCourse:
    keys = dict.fromkeys(key for part in parts if part for key in part)
    series = []
    for key in sorted(keys):
        values = tuple(None if part is None else part.get(key) for part in parts)
        series.append(SeriesCourse(key[0], key[1:], values, values))
    absent = "" if any(part is not None for part in parts) else NOT_SEEN
    return NodeCourse(node, question.start_s, question.step_s, tuple(series), absent)
