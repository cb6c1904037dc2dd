"""Writes the history of a node as it is sampled: seconds first, whole minutes as blocks, their sums later."""

from __future__ import annotations

import json
import re
import sqlite3
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from gridwright.messages import plain
from gridwright.monitor.history.columns import encode
from gridwright.monitor.history.levels import FINEST
from gridwright.monitor.history.measured import MeasuredSecond, Measurements
from gridwright.monitor.history.open_minute import MINUTE, OpenMinute, open_minutes
from gridwright.monitor.history.rolling import roll_up
from gridwright.monitor.history.store import HistoryStore, OpenSecond
from gridwright.monitor.rates import Key
from gridwright.monitor.readings import Snapshot

MOST_BYTES = 4 << 30
"""Of one history: what a node of 25 000 series may need."""
_ENDED = object()


class HistoryWriter:
    """The one writer of a history. Raises NoHistory where it cannot be opened."""

    def __init__(
        self,
        path: Path,
        most_bytes: int = MOST_BYTES,
        measurements: Measurements | None = None,
        *,
        shared: bool = False,
    ) -> None:
        self._store = HistoryStore(path, write=True, shared=shared)
        self._measurements = Measurements() if measurements is None else measurements
        try:
            self._store.limit(most_bytes)
            self._minutes = open_minutes(self._store.seconds())
        except BaseException:
            self._store.close()
            raise
        self._order: list[Key] = []
        self._order_number = 0
        self._context = ""
        self._work: Iterator[object] = roll_up(self._store)
        self._is_due = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go; nothing is lost that was added."""
        self._store.close()

    def add(self, snapshot: Snapshot) -> None:
        """Keep a snapshot. Raises sqlite3.Error where the disk does not take it; the next may be added."""
        self._keep_context(snapshot)
        second = self._measurements.add(snapshot)
        if second is not None:
            self._keep(second)

    def work(self) -> bool:
        """Sum up some of what is due, for milliseconds; whether more may be due. Raises sqlite3.Error."""
        if not self._is_due:
            return False
        self._is_due = next(self._work, _ENDED) is not _ENDED
        return self._is_due

    def _keep(self, second: MeasuredSecond) -> None:
        start = second.slot // MINUTE * MINUTE
        if second.clock_was_set or (self._minutes and start < self._minutes[-1].start):
            while self._minutes:
                self._close_first()
        if not self._minutes or self._minutes[-1].start != start:
            self._minutes.append(OpenMinute(start))
        for minute in self._minutes:
            minute.put(second.slot, second.values)
        while self._minutes[0].end < start:
            self._close_first()
        keys = [key for key, _, _ in second.values]
        new_order = keys != self._order
        if new_order:
            self._order, self._order_number = keys, second.slot
        row = OpenSecond(
            second.slot,
            keys,
            array("f", [value for _, value, _ in second.values]),
            bytes(back for _, _, back in second.values),
        )
        try:
            self._store.put_second(row, self._order_number, new_order=new_order)
        except sqlite3.Error:
            self._order = []
            raise

    def _close_first(self) -> None:
        """Make a block of the oldest open minute; where the disk takes none, that minute is a gap."""
        minute = self._minutes.pop(0)
        # The list of keys goes with the seconds that name it.
        self._order = []
        pieces = {
            metric: encode(columns, MINUTE, rounded=metric.endswith("_total"))
            for metric, columns in minute.by_metric().items()
        }
        with self._store.transaction():
            if pieces:
                self._store.put_block(FINEST, minute.start, MINUTE, 0, pieces)
            self._store.forget_seconds(minute.end)
            self._store.forget_old_blocks(FINEST)
            self._store.make_room()
        if not self._is_due:
            self._work, self._is_due = roll_up(self._store), True

    def _keep_context(self, snapshot: Snapshot) -> None:
        body = context_of(snapshot)
        changed = re.sub(r"\d+ s", "", body)
        if changed != self._context:
            self._store.put_context(snapshot.time, body)
            self._context = changed


def context_of(snapshot: Snapshot) -> str:
    """What a snapshot says beside its readings, as JSON."""
    return json.dumps(
        {
            "machine": snapshot.machine,
            "cpus": snapshot.cpus,
            "cores": snapshot.cores,
            "silent": dict(sorted(snapshot.silent.items())),
            "places": plain(snapshot.places),
        },
        separators=(",", ":"),
    )


def write_all(path: Path, snapshots: Sequence[Snapshot]) -> None:
    """A history of these snapshots. Raises NoHistory, sqlite3.Error."""
    with HistoryWriter(path) as writer:
        for each in snapshots:
            writer.add(each)
            writer.work()
