"""Makes the blocks of each level out of those of the finer one, a piece at a time between two samples."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add

from gridwright.monitor.history.measured import MOVED, SAMPLER, Family, Name, busiest, family_of
from gridwright.monitor.history.store import (
    FINEST,
    LEVELS,
    BlockColumn,
    HistoryStore,
    Labels,
    SpoiltPiece,
    StoredBlock,
    decode,
    encode,
)
from gridwright.monitor.job_rows import MOST_JOBS


def roll_up(store: HistoryStore) -> Iterator[None]:
    """Make all blocks that are due; rests after each finer block. Raises sqlite3.Error."""
    for level in range(FINEST + 1, len(LEVELS)):
        finer = store.blocks(level - 1, store.used_until(level))
        while (group := due(level, finer)) is not None:
            yield from _make(store, level, group)
            finer = finer[len(group) :]


def due(level: int, finer: Sequence[StoredBlock]) -> list[StoredBlock] | None:
    """The first finer blocks that make up one block; None where more of these may still come."""
    if not finer:
        return None
    length = LEVELS[level].block_s
    group = [finer[0]]
    for block in finer[1:]:
        if block.start // length != group[0].start // length or block.start < group[-1].end:
            return group
        group.append(block)
    return group if group[-1].end % length == 0 else None


def _make(store: HistoryStore, level: int, group: Sequence[StoredBlock]) -> Iterator[None]:
    here = LEVELS[level]
    start = group[0].start // here.block_s * here.block_s
    sums = BlockSums(level, start)
    for block in group:
        for metric in (SAMPLER, *(each for each in store.metrics() if each != SAMPLER)):
            if (piece := store.piece(block.id, metric)) is not None:
                try:
                    sums.add(block, metric, decode(piece))
                except SpoiltPiece:
                    continue
        yield
    pieces = {
        metric: encode(columns, here.steps, rounded=metric.endswith("_total"))
        for metric, columns in sums.by_metric().items()
    }
    with store.transaction():
        store.put_block(level, start, here.steps, group[-1].id, pieces)
        store.forget_old_blocks(level - 1)
        store.forget_old_blocks(level)
    yield


@dataclass(slots=True)
class StepSums:
    """One series over steps: what it came to, over how many seconds, and the highest."""

    total: array[float]
    covered: array[float]
    high: array[float]

    @classmethod
    def empty(cls, steps: int) -> StepSums:
        """Nothing is known of any step."""
        return cls(
            array("d", bytes(8 * steps)), array("d", bytes(8 * steps)), array("d", [-math.inf]) * steps
        )

    def add(self, column: BlockColumn, step_s: int, at: int, part: int) -> None:
        """Add a column of steps of `step_s`, so many of which make up a step here; the first belongs to `at`.

        `at` counts steps of the column.
        """
        if self._lay_in(column, step_s, at, part):
            return
        mean, high, covered = column.mean, column.high, column.covered
        number, end = 0, len(mean)
        while number < end:
            step, offset = divmod(at + number, part)
            upto = min(end, number + part - offset)
            if 0 <= step < len(self.total):
                self._add_step(
                    step, mean[number:upto], high[number:upto], covered and covered[number:upto], step_s
                )
            number = upto

    def _lay_in(self, column: BlockColumn, step_s: int, at: int, part: int) -> bool:
        """Take over whole steps of a column, where these are known and nothing is here; whether it was."""
        start, rest = divmod(at, part)
        number, more = divmod(len(column.mean), part)
        first, end = max(0, -start), min(number, len(self.total) - start)
        if rest or more or column.covered is not None:
            return False
        mean, high = column.mean[first * part : end * part], column.high[first * part : end * part]
        here = slice(start + first, start + end)
        if first >= end or math.isnan(sum(mean)) or any(self.covered[here]):
            return first >= end
        if part == 1:
            self.total[here] = array("d", [value * step_s for value in mean])
            self.high[here] = array("d", high)
        else:
            there = range(0, len(mean), part)
            self.total[here] = array("d", [sum(mean[each : each + part]) * step_s for each in there])
            self.high[here] = array("d", [max(high[each : each + part]) for each in there])
        self.covered[here] = array("d", [float(part * step_s)]) * (end - first)
        return True

    def _add_step(
        self,
        step: int,
        mean: array[float],
        high: array[float],
        covered: array[int] | None,
        step_s: int,
    ) -> None:
        whole = sum(mean)
        if covered is None and not math.isnan(whole):
            self.total[step] += whole * step_s
            self.covered[step] += len(mean) * step_s
            self.high[step] = max(self.high[step], *high) if len(high) > 1 else max(self.high[step], high[0])
            return
        for number, value in enumerate(mean):
            if not math.isnan(value):
                seconds = step_s if covered is None else covered[number]
                self.total[step] += value * seconds
                self.covered[step] += seconds
                self.high[step] = max(self.high[step], high[number])

    def plus(self, other: StepSums) -> StepSums:
        """Both as one series, each 0 where it is not known."""
        known = min(self.high, default=0.0) > -math.inf and min(other.high, default=0.0) > -math.inf
        return StepSums(
            array("d", map(add, self.total, other.total)),
            array("d", map(max, self.covered, other.covered)),
            array("d", map(add if known else _sum_of_highs, self.high, other.high)),
        )

    def column(self, step_s: int, seen: array[float] | None = None) -> BlockColumn:
        """The means; over the seconds in which the node was seen, where those are given."""
        nan, mean, high, seconds = math.nan, array("f"), array("f"), array("H")
        for number, (total, covered) in enumerate(zip(self.total, self.covered, strict=True)):
            over = max(covered, seen[number]) if seen is not None and covered > 0 else covered
            mean.append(total / over if covered > 0 else nan)
            high.append(self.high[number] if covered > 0 else nan)
            seconds.append(min(int(over), 0xFFFE))
        whole = all(each in (0, step_s) for each in seconds)
        return BlockColumn(mean, high, None if whole else seconds)


def _sum_of_highs(one: float, other: float) -> float:
    known = [each for each in (one, other) if each > -math.inf]
    return sum(known) if known else -math.inf


@dataclass(slots=True)
class BlockSums:
    """A block of one level as it is made."""

    level: int
    start: int
    most: int = MOST_JOBS
    _sums: dict[str, dict[Labels, StepSums]] = field(default_factory=dict)

    def add(self, block: StoredBlock, metric: str, columns: Mapping[Labels, BlockColumn]) -> None:
        """Add what a finer block has of a metric."""
        finer, here = LEVELS[block.level], LEVELS[self.level]
        at, part = (block.start - self.start) // finer.step_s, here.step_s // finer.step_s
        series = self._sums.setdefault(metric, {})
        for labels, column in columns.items():
            if labels not in series:
                series[labels] = StepSums.empty(here.steps)
            series[labels].add(column, finer.step_s, at, part)

    def by_metric(self) -> Mapping[str, Mapping[Labels, BlockColumn]]:
        """All series as columns; of those that come and go, the busiest and the sum of the others."""
        self._bound()
        step_s = LEVELS[self.level].step_s
        seen = self._sums.get(SAMPLER, {}).get(())
        return {
            metric: {
                labels: sums.column(step_s, seen.covered if seen and is_zero_unseen(metric) else None)
                for labels, sums in series.items()
            }
            for metric, series in self._sums.items()
        }

    def _bound(self) -> None:
        moved: dict[str, dict[Name, float]] = {}
        for metric, series in self._sums.items():
            if (family := family_of(metric)) is not None:
                gains = moved.setdefault(family.label, {})
                for labels, sums in series.items():
                    gain = sum(sums.total) if metric.endswith(MOVED) else 0.0
                    gains[family.name(labels)] = gains.get(family.name(labels), 0.0) + gain
        for metric, series in self._sums.items():
            family = family_of(metric)
            if family is not None and len(moved[family.label]) > self.most + 1:
                _fold(series, family, busiest(moved[family.label], self.most))


def is_zero_unseen(metric: str) -> bool:
    """Whether a series of it that is not there is 0 then, as far as the node was seen."""
    family = family_of(metric)
    return family is not None and family.is_zero


def _fold(series: dict[Labels, StepSums], family: Family, names: set[Name]) -> None:
    """Put series of others than these into the sum."""
    for labels in [each for each in series if family.name(each) not in names]:
        gone, other = series.pop(labels), family.other(labels)
        series[other] = series[other].plus(gone) if other in series else gone
