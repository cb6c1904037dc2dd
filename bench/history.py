"""What it takes to keep and to ask the history of nodes, beside databases that might keep it instead.

python bench/history.py             # about three minutes
python bench/history.py --publish   # also puts the tables into docs/performance.md

One node's readings are written once a second (simulated), as its agent does: 6 of 10 series do nothing, 3
move bytes with noise and bursts, 1 is a gauge. Then 1,000 nodes' histories are asked for an hour, as a page
of all nodes asks them: each answers by itself, here by as many processes as there are cores.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Protocol

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.generated_history import generate_history

from gridwright.commands import CommandOutput
from gridwright.messages import decode, encode
from gridwright.monitor.history.grid_histories import GridHistories
from gridwright.monitor.history.messages import HistoryRequest
from gridwright.monitor.history.node_program import answered
from gridwright.monitor.history.questions import RangeQuestion, history_file
from gridwright.monitor.history.reading import StoredHistories
from gridwright.monitor.history.steady import HistoryWriter
from gridwright.monitor.history.store import LEVELS, HistoryStore
from gridwright.monitor.readings import Reading, Snapshot
from tables import machine, markdown, publish

START = 20_834 * 86_400
"""A midnight: blocks of all levels begin."""
COUNTER, GAUGE = "gridwright_mount_read_bytes_total", "node_load1"
ASKED = 10
"""Series that a chart shows."""
HOUR_PAGE = (
    "node_cpu_seconds_total",
    "node_network_receive_bytes_total",
    "node_network_transmit_bytes_total",
    "node_disk_read_bytes_total",
    "node_disk_written_bytes_total",
)
"""What a page of all nodes shows of each, summed up over cards and disks."""


class Kept(Protocol):
    """Something that keeps a value of each series for each second."""

    def add(self, second: int, values: Sequence[float]) -> None:
        """Keep one second, so that a kill loses no earlier one, if it can."""

    def finish(self) -> None:
        """Let the files go."""

    def size(self) -> int:
        """Bytes of all that is kept."""

    def ask(self, seconds: int) -> float:
        """The sum over ten series, all of it, as an answer that cannot be left out."""


def node_values(series: int, second: int, chance: random.Random) -> list[float]:
    """Rates of counters, and gauges."""
    busy = second // 300 % 3 != 2
    found = []
    for number in range(series):
        match number % 10:
            case 0 | 1 | 2:
                found.append(chance.gauss(50e6, 8e6) * (1 + number % 7) if busy else 0.0)
            case 3:
                found.append(round(10 + 3 * chance.random(), 2))
            case _:
                found.append(0.0)
    return found


class Gridwright:
    """The history as agents keep it, with all coarser levels."""

    def __init__(self, place: Path, series: int) -> None:
        self._path = place / "n1.history"
        self._writer = HistoryWriter(self._path)
        self._counts = [0.0] * series

    def add(self, second: int, values: Sequence[float]) -> None:
        self._counts = [a + b for a, b in zip(self._counts, values, strict=True)]
        readings = tuple(
            Reading(GAUGE, (str(number),), value, float(second))
            if number % 10 == 3
            else Reading(COUNTER, ("/grid", f"OST{number:04x}"), self._counts[number], float(second))
            for number, value in enumerate(values)
        )
        snapshot = Snapshot("n1", "boot", START + second + 0.5, float(second), 8, 4, readings, cost_s=0.004)
        began = time.process_time()
        self._writer.add(snapshot)
        self._writer.work()
        self.cpu_s = getattr(self, "cpu_s", 0.0) + time.process_time() - began

    def finish(self) -> None:
        while self._writer.work():
            pass
        self._writer.close()

    def size(self) -> int:
        return sum(bytes_by_level(self._path))

    def ask(self, seconds: int) -> float:
        question = RangeQuestion((COUNTER,), START, START + seconds, 1, most=ASKED)
        (found,) = StoredHistories({"n1": self._path}).courses(question)
        return sum(value or 0.0 for each in found.series for value in each.values)


class SqliteRows:
    """A row for each value."""

    def __init__(self, place: Path, series: int) -> None:
        self._path = place / "rows.sqlite"
        self._base = sqlite3.connect(self._path, isolation_level=None)
        self._base.execute("PRAGMA journal_mode = WAL")
        self._base.execute("PRAGMA synchronous = NORMAL")
        self._base.execute(
            "CREATE TABLE samples (series INTEGER, second INTEGER, value REAL, PRIMARY KEY (series, second)) "
            "WITHOUT ROWID"
        )

    def add(self, second: int, values: Sequence[float]) -> None:
        began = time.process_time()
        self._base.execute("BEGIN")
        rows = ((number, second, value) for number, value in enumerate(values))
        self._base.executemany("INSERT INTO samples VALUES (?, ?, ?)", rows)
        self._base.execute("COMMIT")
        self.cpu_s = getattr(self, "cpu_s", 0.0) + time.process_time() - began

    def finish(self) -> None:
        self._base.close()

    def size(self) -> int:
        return self._path.stat().st_size

    def ask(self, seconds: int) -> float:
        with sqlite3.connect(self._path) as base:
            rows = base.execute("SELECT value FROM samples WHERE series < ? AND second < ?", (ASKED, seconds))
            return float(sum(value for (value,) in rows))


class DuckDb:
    """A row for each value, in columns that DuckDB packs."""

    def __init__(self, place: Path, series: int) -> None:
        import duckdb

        self._connect = duckdb.connect
        self._path = place / "samples.duckdb"
        self._base = duckdb.connect(str(self._path), config={"threads": 1})
        self._base.execute("CREATE TABLE samples (series INTEGER, second INTEGER, value FLOAT)")

    def add(self, second: int, values: Sequence[float]) -> None:
        import pyarrow

        began = time.process_time()
        table = pyarrow.table(
            {
                "series": pyarrow.array(range(len(values)), pyarrow.int32()),
                "second": pyarrow.array([second] * len(values), pyarrow.int32()),
                "value": pyarrow.array(values, pyarrow.float32()),
            }
        )
        self._base.register("arrived", table)
        self._base.execute("INSERT INTO samples SELECT * FROM arrived")
        self.cpu_s = getattr(self, "cpu_s", 0.0) + time.process_time() - began

    def finish(self) -> None:
        self._base.close()

    def size(self) -> int:
        return self._path.stat().st_size

    def ask(self, seconds: int) -> float:
        with self._connect(str(self._path), read_only=True, config={"threads": 1}) as base:
            rows = base.execute("SELECT value FROM samples WHERE series < ? AND second < ?", (ASKED, seconds))
            return float(sum(value for (value,) in rows.fetchall()))


class ParquetMinutes:
    """A file of Parquet for each minute, a column for each series; a kill loses the minute."""

    def __init__(self, place: Path, series: int) -> None:
        self._place = place / "parquet"
        self._place.mkdir()
        self._rows: list[Sequence[float]] = []

    def add(self, second: int, values: Sequence[float]) -> None:
        import pyarrow
        import pyarrow.parquet

        began = time.process_time()
        self._rows.append(values)
        if len(self._rows) == 60:
            columns = {
                str(number): pyarrow.array(each, pyarrow.float32())
                for number, each in enumerate(zip(*self._rows, strict=True))
            }
            pyarrow.parquet.write_table(
                pyarrow.table(columns), self._place / f"{second:08}.parquet", compression="zstd",
                use_byte_stream_split=True, use_dictionary=False, write_statistics=False,
            )  # fmt: skip
            self._rows = []
        self.cpu_s = getattr(self, "cpu_s", 0.0) + time.process_time() - began

    def finish(self) -> None:
        """Nothing is open."""

    def size(self) -> int:
        return sum(each.stat().st_size for each in self._place.iterdir())

    def ask(self, seconds: int) -> float:
        import pyarrow.parquet

        names = list(map(str, range(ASKED)))
        tables = [pyarrow.parquet.read_table(each, columns=names) for each in sorted(self._place.iterdir())]
        return float(sum(sum(column.to_pylist()) for each in tables for column in each.columns))


KINDS: dict[str, Callable[[Path, int], Kept]] = {
    "Gridwright (SQLite, packed pieces, all levels)": Gridwright,
    "SQLite, a row for each value": SqliteRows,
    "DuckDB, a row for each value": DuckDb,
    "Parquet, a file for each minute": ParquetMinutes,
}


def bytes_by_level(path: Path) -> list[int]:
    """Of the packed pieces."""
    with HistoryStore(path, write=False) as store:
        return [
            sum(
                len(store.piece(block.id, metric) or b"")
                for block in store.blocks(level)
                for metric in store.metrics()
            )
            for level in range(len(LEVELS))
        ]


def kept(series: int, seconds: int) -> list[list[str]]:
    """What each takes to keep the seconds of one node, and to be asked for ten series of them."""
    rows = []
    for name, kind in KINDS.items():
        with tempfile.TemporaryDirectory() as place:
            it, chance = kind(Path(place), series), random.Random(1)  # noqa: S311 - no secret
            for second in range(seconds):
                it.add(second, node_values(series, second, chance))
            it.finish()
            times = []
            for _ in range(5):
                began = time.perf_counter()
                it.ask(seconds)
                times.append(time.perf_counter() - began)
            rows.append(
                [
                    name,
                    f"{it.size() / series / seconds:.2f}",
                    f"{it.cpu_s / seconds * 1000:.2f}",  # type: ignore[attr-defined]
                    f"{median(times) * 1000:.0f}",
                ]
            )
    return rows


def ring_size(series: int, seconds: int) -> list[list[str]]:
    """Bytes of each level for each step, and of all that is kept of one series."""
    with tempfile.TemporaryDirectory() as place:
        it, chance = Gridwright(Path(place), series), random.Random(1)  # noqa: S311 - no secret
        for second in range(seconds):
            it.add(second, node_values(series, second, chance))
        it.finish()
        path = Path(place) / "n1.history"
        sizes = bytes_by_level(path)
        with HistoryStore(path, write=False) as store:
            steps = [sum(block.steps for block in store.blocks(level)) for level in range(len(LEVELS))]
    rows, total = [], 0.0
    for level, size, number in zip(LEVELS, sizes, steps, strict=True):
        each = size / series / max(1, number)
        total += (of_level := each * level.kept_s / level.step_s)
        rows.append([f"{level.step_s} s", f"{each:.2f}", f"{of_level / 1000:.0f}"])
    return [*rows, ["all", "", f"{total / 1000:.0f}"]]


@dataclass
class Nodes:
    """Files of many nodes, each answered by a process of its own as far as there are cores."""

    place: Path
    pool: ProcessPoolExecutor

    def ask(self, names: Collection[str], stdin: bytes) -> dict[str, CommandOutput | None]:
        """What the program of each node answers."""
        request = decode(stdin, HistoryRequest)
        asked = [
            HistoryRequest(
                request.ask, str(self.place / name), request.question, request.at_s, request.seconds
            )
            for name in names
        ]
        answers = self.pool.map(answer, asked, chunksize=25)
        return {name: CommandOutput(0, each, b"") for name, each in zip(names, answers, strict=True)}


def answer(request: HistoryRequest) -> bytes:
    """As the program of a node does."""
    return encode(answered(request))


def make_node(path: Path) -> None:
    """An hour and a half of a node."""
    generate_history(path, START + 5400, 5400)


def page_of_all(nodes: int) -> list[list[str]]:
    """How long an hour of all nodes takes."""
    with tempfile.TemporaryDirectory() as directory, ProcessPoolExecutor(os.cpu_count()) as pool:
        place = Path(directory)
        names = [f"node{number:04}" for number in range(nodes)]
        list(pool.map(make_node, [history_file(place / name) for name in names], chunksize=25))
        histories = GridHistories(names, Nodes(place, pool).ask)
        rows = []
        end = START + 5400.0
        for what, run in (
            (
                "an hour by the minute, 5 metrics, summed up on the nodes",
                lambda: histories.courses(RangeQuestion(HOUR_PAGE, end - 3600, end, 60, by=())),
            ),
            (
                "an hour by ten seconds, 5 metrics, summed up on the nodes",
                lambda: histories.courses(RangeQuestion(HOUR_PAGE, end - 3600, end, 10, by=())),
            ),
            ("the picture of ten seconds, all metrics", lambda: histories.frame(end - 100, 10)),
        ):
            times = []
            for _ in range(5):
                began = time.perf_counter()
                run()
                times.append(time.perf_counter() - began)
            rows.append([what, f"{median(times):.2f} ({min(times):.2f} to {max(times):.2f})"])
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=1800, help="that are kept by each")
    parser.add_argument("--day", type=int, default=93_600, help="seconds for the size of each level")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--publish", action="store_true", help="update docs/performance.md")
    args = parser.parse_args()
    text = "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {args.series:,} series for {args.seconds} s.",
            "",
            markdown(
                ["kept by", "bytes a sample", "CPU ms a second", f"ms for {ASKED} series of all seconds"],
                kept(args.series, args.seconds),
            ),
            "",
            markdown(["steps of", "bytes a step", "kB a series, in whole"], ring_size(50, args.day)),
            "",
            f"{args.nodes:,} nodes of 27 series:",
            "",
            markdown(["asked for", "s, median (minimum to maximum)"], page_of_all(args.nodes)),
        ]
    )
    print(text)
    if args.publish:
        publish("history", text)


if __name__ == "__main__":
    main()
