"""A recording of `gridwright top` as a history of its nodes: as long and as fine as it was recorded."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from gridwright.monitor.frame import Frame, frame_of
from gridwright.monitor.history.questions import NodeCourse, RangeQuestion, SeriesCourse
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.rates import Key, figures
from gridwright.monitor.readings import NodeSamples
from gridwright.monitor.recording import Recording

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
