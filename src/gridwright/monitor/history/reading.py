"""Reads histories that are kept in files of this machine, one for each node: courses, and what was when."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

from gridwright.messages import MessageError, typed
from gridwright.monitor.frame import Frame, frame_of_seen
from gridwright.monitor.history.measured import SAMPLER, Family, family_of, open_minutes
from gridwright.monitor.history.questions import NodeCourse, RangeQuestion, SeriesCourse
from gridwright.monitor.history.rolling import StepSums, is_zero_unseen
from gridwright.monitor.history.store import (
    FINEST,
    LEVELS,
    BlockColumn,
    HistoryStore,
    Labels,
    NoHistory,
    SpoiltPiece,
    StoredBlock,
    WrittenMeanwhile,
    decode,
)
from gridwright.monitor.job_rows import CPU_TIME, IN_SUM
from gridwright.monitor.libraries import WatchedLibrary
from gridwright.monitor.readings import LABELS, Figures, Key, MountedPlace, NodeSamples, Snapshot
from gridwright.monitor.rows import SeenNode

MOST_STEPS = 4000
"""Of one answer: more than a screen has columns."""
MOST_VALUES = 2_000_000
"""Of one answer: steps of all its series."""
_FEW_STEPS = 60
_TRIES = 5
T = TypeVar("T")


class StoredHistory:
    """The history in one file, by one connection. Its questions raise sqlite3.Error where the file fails."""

    def __init__(self, path: Path, node: str) -> None:
        """Open it. Raises NoHistory."""
        self._store = HistoryStore(path, write=False)
        self._node = node

    def __enter__(self) -> StoredHistory:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def reach(self) -> tuple[float, float] | None:
        """The first and the last time that is known, in the order in which it was recorded.

        A clock that was wrong for a while does not count. None where nothing is known.
        """
        with self._store.one_state():
            layers = _Layers(self._store)
            first = next(filter(None, (part.known() for part in layers.oldest())), None)
            last = next(filter(None, (part.known() for part in layers.newest())), None)
        if first is None or last is None:
            return None
        return min(first[0], last[1]), max(first[0], last[1])

    def course(self, question: RangeQuestion) -> NodeCourse:
        """The series that were asked for, step by step; in wider steps where there are very many series."""
        with self._store.one_state():
            layers = _Layers(self._store)
            level, step = layers.level_for(question)
            while True:
                start = math.floor(question.start_s / step) * step
                grid = _Grid(start, step, max(1, math.ceil((question.end_s - start) / step)))
                series = _answer(list(layers.parts(level, grid.start, grid.end)), question, grid)
                if len(series) * grid.steps <= MOST_VALUES or grid.steps < _FEW_STEPS:
                    return NodeCourse(self._node, float(start), float(step), tuple(series))
                step *= 2

    def seen(self, at_s: float, seconds: float) -> SeenNode | None:
        """The node as it was in the seconds that ended then; None where nothing is known of them."""
        with self._store.one_state():
            layers = _Layers(self._store)
            level = layers.level_at(at_s - seconds)
            step = LEVELS[level].step_s
            start = math.floor((at_s - seconds) / step) * step
            end = max(start + step, math.floor(at_s / step) * step)
            # With the step before, which tells what gauges were.
            parts = list(layers.parts(level, start - step, end))
            span = end - start
            last = _Window(layers.metrics(), parts, start, span)
            context = self._store.context(end)
        if context is None or last.covered == 0:
            return None
        return SeenNode(
            self._node, _snapshot(self._node, context, last, float(end)), last.covered, last.figures()
        )


def query_history(path: Path, node: str, ask: Callable[[StoredHistory], T]) -> T:
    """What a history answers; asked again where it was written meanwhile. Raises NoHistory, sqlite3.Error."""
    for _ in range(_TRIES):
        with suppress(WrittenMeanwhile), StoredHistory(path, node) as history:
            return ask(history)
    with StoredHistory(path, node) as history:
        return ask(history)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some steps of one level, and how their figures are read."""

    level: int
    start: int
    columns: Mapping[str, Mapping[Labels, BlockColumn]] | None
    store: HistoryStore
    block: int = 0

    def of(self, metric: str) -> Mapping[Labels, BlockColumn]:
        """The series of a metric; none where the disk gave back something else than was written."""
        if self.columns is not None:
            return self.columns.get(metric, {})
        try:
            piece = self.store.piece(self.block, metric)
            return {} if piece is None else decode(piece)
        except (SpoiltPiece, sqlite3.DatabaseError):
            return {}

    def known(self) -> tuple[float, float] | None:
        """When the node was seen first and last."""
        width = LEVELS[self.level].step_s
        for column in self.of(SAMPLER).values():
            steps = [number for number, value in enumerate(column.mean) if not math.isnan(value)]
            if steps:
                return self.start + steps[0] * width, self.start + (steps[-1] + 1) * width
        return None


class _Layers:
    """The blocks of all levels, each second once: what a level lacks yet is in the finer ones."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store
        self._blocks: list[list[StoredBlock]] = [store.blocks(level) for level in range(len(LEVELS))]
        seconds = store.seconds()
        self._open = open_minutes(seconds)

    def level_for(self, question: RangeQuestion) -> tuple[int, int]:
        """The level that answers a question, and the width of the steps of the answer."""
        asked = max(question.step_s, (question.end_s - question.start_s) / MOST_STEPS, 1.0)
        level = max(number for number, each in enumerate(LEVELS) if each.step_s <= asked)
        level = max(level, self.level_at(question.start_s))
        step = LEVELS[level].step_s
        return level, math.ceil(asked / step) * step

    def level_at(self, time_s: float) -> int:
        """The finest level that reaches back to a time, or as far as any."""
        oldest = [self._oldest(level) for level in range(len(LEVELS))]
        for level, found in enumerate(oldest):
            if found <= time_s or all(each >= found for each in oldest[level:]):
                return level
        return FINEST

    def _oldest(self, level: int) -> float:
        """By the order in which it was recorded, in which what is older goes first."""
        return next((float(block.start) for block in self._blocks[level]), math.inf)

    def metrics(self) -> list[str]:
        """Names of all metrics, those of the open minutes included."""
        now = [key[0] for minute in self._open for key in minute.columns]
        return list(dict.fromkeys([*self._store.metrics(), *now]))

    def oldest(self) -> Iterator[_Part]:
        """What was recorded first: of each level, and of the open minutes."""
        for blocks in reversed(self._blocks):
            yield from (self._of(block) for block in blocks[:1])
        yield from self._open_parts()

    def newest(self) -> Iterator[_Part]:
        """What was recorded last."""
        yield from reversed(list(self._open_parts()))
        for blocks in self._blocks:
            yield from (self._of(block) for block in blocks[-1:])

    def _of(self, block: StoredBlock) -> _Part:
        return _Part(block.level, block.start, None, self._store, block.id)

    def _open_parts(self) -> Iterator[_Part]:
        for minute in self._open:
            yield _Part(FINEST, minute.start, minute.by_metric(), self._store)

    def parts(self, level: int, start: float, end: float) -> Iterator[_Part]:
        """All that is known between two times, at this level and, where it has nothing yet, at finer ones."""
        used = 0
        for each in range(level, FINEST - 1, -1):
            for block in self._blocks[each]:
                if block.id > used and block.start < end and block.end > start:
                    yield self._of(block)
            used = max((block.until for block in self._blocks[each]), default=0)
        for minute in self._open:
            if minute.start < end and minute.end > start:
                yield _Part(FINEST, minute.start, minute.by_metric(), self._store)


class _Grid(NamedTuple):
    """Steps of one width."""

    start: int
    step: int
    steps: int

    @property
    def end(self) -> int:
        """Where the last one ends."""
        return self.start + self.steps * self.step


def _answer(parts: Sequence[_Part], question: RangeQuestion, grid: _Grid) -> list[SeriesCourse]:
    # Of those that come and go, the mean is over the time in which the node was seen.
    seen = _sums(parts, SAMPLER, grid).get(()) if any(map(is_zero_unseen, question.metrics)) else None
    series = []
    for metric in dict.fromkeys(question.metrics):
        sums = _summed(_sums(parts, metric, grid, question.only), metric, question.by)
        sums = _largest(sums, question.most, _family_by_labels(metric, question.by))
        over = seen if seen is not None and is_zero_unseen(metric) else None
        series += [_course(metric, labels, each, over) for labels, each in sorted(sums.items())]
    return series


def _sums(
    parts: Sequence[_Part], metric: str, grid: _Grid, only: Sequence[tuple[str, str]] = ()
) -> dict[Labels, StepSums]:
    """The series of a metric that have these labels, over the steps of a grid."""
    names = LABELS.get(metric, ())
    wanted = {names.index(name): value for name, value in only if name in names}
    sums: dict[Labels, StepSums] = {}
    if len(wanted) < len(only):
        return sums
    for part in parts:
        width = LEVELS[part.level].step_s
        for labels, column in part.of(metric).items():
            if wanted and any(labels[number : number + 1] != (value,) for number, value in wanted.items()):
                continue
            if labels not in sums:
                sums[labels] = StepSums.empty(grid.steps)
            sums[labels].add(column, width, (part.start - grid.start) // width, grid.step // width)
    return sums


def _summed(sums: dict[Labels, StepSums], metric: str, by: tuple[str, ...] | None) -> dict[Labels, StepSums]:
    """Series that differ in other labels alone, as one."""
    if by is None:
        return sums
    names = LABELS.get(metric, ())
    kept = [number for number, name in enumerate(names) if name in by]
    found: dict[Labels, StepSums] = {}
    for labels, each in sums.items():
        name = tuple(labels[number] for number in kept if number < len(labels))
        found[name] = found[name].plus(each) if name in found else each
    return found


def _largest(sums: dict[Labels, StepSums], most: int, family: Family | None) -> dict[Labels, StepSums]:
    """The series with the largest values; of those that come and go, the others as their sum."""
    if len(sums) <= most:
        return sums
    others = {labels for labels in sums if family is not None and family.name(labels) == family.others}
    ranked = sorted(sums, key=lambda labels: (labels in others, -abs(sum(sums[labels].total)), labels))
    found = {labels: sums[labels] for labels in ranked[:most]}
    if family is None:
        return found
    for labels in ranked[most:]:
        other = family.other(labels)
        found[other] = found[other].plus(sums[labels]) if other in found else sums[labels]
    return found


def _family_by_labels(metric: str, by: tuple[str, ...] | None) -> Family | None:
    """The family of a metric of which these labels alone are told."""
    family = family_of(metric)
    if family is None or by is None:
        return family
    names = LABELS.get(metric, ())
    told = [number for number, name in enumerate(names) if name in by]
    if names.index(family.label) not in told:
        return None
    indices, beside = (
        tuple(told.index(each) for each in those if each in told) for those in (family.indices, family.beside)
    )
    return replace(family, indices=indices, beside=beside)


def _course(metric: str, labels: Labels, sums: StepSums, seen: StepSums | None) -> SeriesCourse:
    over = sums.covered
    if seen is not None:
        over = array(
            "d", (max(one, other) if one else 0.0 for one, other in zip(over, seen.covered, strict=True))
        )
    means = [total / seconds if seconds else None for total, seconds in zip(sums.total, over, strict=True)]
    highs = [high if high > -math.inf else None for high in sums.high]
    return SeriesCourse(metric, labels, tuple(means), tuple(highs))


@dataclass(slots=True)
class _Window:
    """All series of a node over one span of time."""

    metrics: Sequence[str]
    parts: Sequence[_Part]
    start: int
    span: int
    covered: float = 0.0
    sampler: float = 0.0
    """CPU time of the sampler."""
    rates: dict[Key, float] = field(default_factory=dict)
    gauges: dict[Key, float] = field(default_factory=dict)
    earlier: dict[Key, float] = field(default_factory=dict)
    """Gauges as they were before the span, else when it began."""

    @property
    def _grid(self) -> _Grid:
        return _Grid(self.start, self.span, 1)

    def __post_init__(self) -> None:
        seen = _sums(self.parts, SAMPLER, self._grid).get(())
        if seen is not None:
            self.covered, self.sampler = seen.covered[0], seen.total[0]
        for metric in self.metrics:
            if not metric.endswith("_total"):
                self._read_gauges(metric)
                continue
            for labels, sums in _sums(self.parts, metric, self._grid).items():
                if sums.covered[0] > 0:
                    self._note_sums(metric, labels, sums.covered[0])
                    over = max(self.covered, sums.covered[0]) if is_zero_unseen(metric) else sums.covered[0]
                    self.rates[metric, *labels] = sums.total[0] / over

    def _note_sums(self, metric: str, labels: Labels, covered: float) -> None:
        """Note jobs that are told of a part of the span alone: they may be in the sum in the rest."""
        if metric == CPU_TIME and covered < self.covered:
            self.gauges[IN_SUM, *labels] = self.covered - covered

    def _read_gauges(self, metric: str) -> None:
        """The last that is known of each within the span."""
        for part in sorted(self.parts, key=lambda each: each.start):
            width = LEVELS[part.level].step_s
            first = (self.start - part.start) // width
            for labels, column in part.of(metric).items():
                steps = column.mean[max(0, first) : max(0, first + self.span // width)]
                known = [value for value in steps if not math.isnan(value)]
                key = (metric, *labels)
                if known:
                    self.gauges[key] = known[-1]
                    self.earlier.setdefault(key, known[0])
                if 0 < first <= len(column.mean) and not math.isnan(before := column.mean[first - 1]):
                    self.earlier[key] = before

    def figures(self) -> Figures:
        """As two snapshots would have told them."""
        return Figures(self.rates, self.gauges, frozenset({*self.rates, *self.gauges}), self.earlier)


def _snapshot(node: str, context: tuple[float, str], window: _Window, end: float) -> Snapshot:
    since, body = context
    try:
        loads = json.loads(body)
        silent = typed(loads["silent"], dict[str, str])
        places = typed(loads["places"], dict[str, MountedPlace])
        machine, cpus, cores = str(loads["machine"]), int(loads["cpus"]), int(loads["cores"])
    except (ValueError, KeyError, TypeError, MessageError):
        silent, places, machine, cpus, cores = {}, {}, "", 1, 1
    return Snapshot(
        node=node,
        machine=machine,
        time=end,
        at_s=end,
        cpus=cpus,
        cores=cores,
        readings=(),
        silent={name: _since(why, since) for name, why in silent.items()},
        places=places,
        cost_s=window.sampler,
    )


def _since(why: str, since: float) -> str:
    """What hangs was noted when it began to."""
    clock = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return re.sub(r"for \d+ s$", f"since {clock}", why)


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
