"""Tests that mirror SORT, SQL and MEANS, on DuckDB within a launch's threads and memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridwright.workload.launches.launch import Launch, Spilled
from gridwright.workload.programs.program import Program

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


_MEMORY_PART = 4
"""A sort or a join gets a quarter of the launch's memory, as SORTSIZE is commonly set below MEMSIZE:
the rest is Python, its libraries, and the blocks on their way."""
BLOCK_ROWS = 16_384


_SPILLED = """
    SELECT op, sum(bytes)::BIGINT, count(*) FROM duckdb_logs_parsed('FileSystem')
    WHERE op IN ('READ', 'WRITE') AND starts_with(path, ?) GROUP BY op
"""


@contextmanager
def database(launch: Launch, *, spills: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database in memory; with `spills` it spills to util, and that is counted.

    DuckDB itself logs each call that moves bytes of a file of its own, and so of nothing else that the
    process reads: neither libraries nor what Python imports on its way.
    """
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": launch.cores,
        "memory_limit": f"{launch.memory_bytes // _MEMORY_PART // 1024}KiB",
        "preserve_insertion_order": False,
        "autoinstall_known_extensions": False,
        "temp_directory": str(launch.util) if spills else "",
    }
    connection = duckdb.connect(":memory:", config=settings)
    try:
        connection.execute("SET enable_progress_bar = false")
        if not spills:
            yield connection
            return
        connection.execute("CALL enable_logging('FileSystem')")
        with launch.spilling(lambda: _spilled(connection, launch.util)):
            yield connection
    finally:
        connection.close()


def _spilled(connection: duckdb.DuckDBPyConnection, directory: Path) -> Spilled:
    """What the database moved in this directory so far; nothing if it cannot tell any more."""
    try:
        found = connection.execute(_SPILLED, [f"{directory}{os.sep}"]).fetchall()
    except duckdb.Error:
        # A database that has failed: so has the launch, which says why.
        return Spilled()
    moved = {op: (size, calls) for op, size, calls in found}
    (read, reads), (written, writes) = moved.get("READ", (0, 0)), moved.get("WRITE", (0, 0))
    return Spilled(read, written, reads, writes)


def _blocks(relation: duckdb.DuckDBPyRelation, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query block by block, in the types of `schema`.

    DuckDB has no binary of a fixed size: it comes back as variable, and is made fixed again.
    """
    import pyarrow as pa

    for batch in relation.to_arrow_reader(BLOCK_ROWS):
        columns = [column.cast(each.type) for column, each in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


_QUERY = "SELECT * FROM transactions ORDER BY account, amount_cents DESC, transaction"


def _run_sort(launch: Launch) -> None:
    """Mirrors PROC SORT: sort transactions by account, amount and number.

    I/O: reads the table from data once; spills sorted runs to util as soon as they exceed a quarter
    of the launch's memory, and reads them back in a merge; writes the sorted table to work.
    Check: the order holds from row to row, and the same rows came out as went in (count, checksum).
    """
    source = launch.open("transactions")
    ordered = _Order()
    with (
        database(launch, spills=True) as sql,
        launch.write("sorted", source.schema) as target,
    ):
        sql.register("transactions", source.to_arrow())
        for batch in _blocks(sql.sql(_QUERY), source.schema):
            ordered.take(batch)
            target.write(batch)
    launch.check_table("transactions", source)
    facts = launch.facts("transactions")
    launch.check_rows("the sorted table", target.checksum, facts.rows, facts.checksum)
    launch.require("the sorted table is out of order", ordered.holds)


class _Order:
    """Whether rows come by account, then by descending amount, then by number."""

    def __init__(self) -> None:
        self.holds = True
        self._last: tuple[int, int, int] | None = None

    def take(self, batch: object) -> None:
        import numpy as np
        import pyarrow as pa

        from gridwright.workload.datasets.table import column_values

        if not isinstance(batch, pa.RecordBatch) or not batch.num_rows:
            return
        account, amount, number = (
            column_values(batch.column(name)).astype(np.int64)
            for name in ("account", "amount_cents", "transaction")
        )
        rises = np.diff(account) > 0
        falls = np.diff(account) == 0
        lower, same = np.diff(amount) < 0, np.diff(amount) == 0
        within = rises | (falls & (lower | (same & (np.diff(number) > 0))))
        first = (int(account[0]), -int(amount[0]), int(number[0]))
        self.holds &= bool(within.all()) and (self._last is None or self._last < first)
        self._last = (int(account[-1]), -int(amount[-1]), int(number[-1]))


SORT_PROGRAM = Program(
    name="sort",
    class_="io",
    mirrors="PROC SORT",
    engine="DuckDB",
    tables=("transactions",),
    run=_run_sort,
    work={"transactions": 1.0},
    util={"transactions": 2.0},
)


_JOIN = """
    SELECT t.*, s.settlement, s.settled, s.fee_cents, s.s01, s.s02, s.s03, s.s04, s.s05, s.s06, s.s07, s.s08
    FROM transactions t JOIN settlements s USING (transaction)
"""
_GROUP = """
    SELECT account, count(*) AS entries, sum(amount_cents)::BIGINT AS cents,
           sum(fee_cents)::BIGINT AS fees, sum(CASE WHEN settled > 19000 THEN 1 ELSE 0 END)::BIGINT AS late
    FROM joined GROUP BY account
"""


def _run_join(launch: Launch) -> None:
    """Mirrors PROC SQL: join transactions with their settlements, then group by account.

    I/O: reads both tables from data; the hash join spills partitions of both sides to util as soon as
    they exceed a quarter of the launch's memory; writes the joined table to work, and reads it back
    to group it.
    Check: one row per transaction; the amounts by segment and the sum of all fees, which were added
    up when the tables were made.
    """
    import pyarrow as pa

    left, right = launch.open("transactions"), launch.open("settlements")
    added = [right.schema.field(name) for name in ("settlement", "settled", "fee_cents")]
    added += [right.schema.field(f"s{number:02d}") for number in range(1, 9)]
    schema = pa.schema([*left.schema, *added])
    with database(launch, spills=True) as sql, launch.write("joined", schema) as target:
        sql.register("transactions", left.to_arrow())
        sql.register("settlements", right.to_arrow())
        for batch in _blocks(sql.sql(_JOIN), schema):
            target.write(batch)
    launch.check_table("transactions", left)
    launch.check_table("settlements", right)
    launch.check("rows of the join", target.checksum.rows, launch.facts("transactions").rows)
    _group(launch)


def _group(launch: Launch) -> None:
    import pyarrow as pa

    names = ("account", "entries", "cents", "fees", "late")
    schema = pa.schema([(name, pa.int64()) for name in names])
    sums = _Sums()
    with (
        database(launch, spills=True) as sql,
        launch.write("by_account", schema) as target,
    ):
        sql.register("joined", launch.reread("joined").to_arrow())
        for batch in _blocks(sql.sql(_GROUP), schema):
            sums.take(batch)
            target.write(batch)
    transactions, settlements = launch.facts("transactions").expected, launch.facts("settlements").expected
    launch.check("entries of all accounts", sums.entries, launch.facts("transactions").rows)
    launch.check("fees of all accounts", sums.fees, settlements["fee_cents"])
    launch.check("late settlements", sums.late, settlements["late"])
    for segment, cents in enumerate(transactions["cents_by_segment"]):
        launch.check(f"amount of segment {segment}", sums.cents_by_segment[segment], cents)


class _Sums:
    """What the groups add up to."""

    def __init__(self) -> None:
        from gridwright.workload.datasets.tables import SEGMENTS

        self.entries = self.fees = self.late = 0
        self.cents_by_segment = [0] * SEGMENTS

    def take(self, batch: object) -> None:
        import numpy as np
        import pyarrow as pa

        from gridwright.workload.datasets.table import column_values
        from gridwright.workload.datasets.tables import segment_of

        if not isinstance(batch, pa.RecordBatch):
            return
        account, entries, cents, fees, late = (
            column_values(column).astype(np.int64) for column in batch.columns
        )
        self.entries += int(entries.sum())
        self.fees += int(fees.sum())
        self.late += int(late.sum())
        segment = segment_of(account)
        for number in range(len(self.cents_by_segment)):
            self.cents_by_segment[number] += int(cents[segment == number].sum())


JOIN_PROGRAM = Program(
    name="join",
    class_="io",
    mirrors="PROC SQL",
    engine="DuckDB",
    tables=("transactions", "settlements"),
    run=_run_join,
    work={"transactions": 1.5},
    util={"transactions": 2.0, "settlements": 2.0},
)


_STATISTICS = (
    "count({c}) AS n_{c}, avg({c}) AS mean_{c}, stddev_samp({c}) AS std_{c}, "
    "min({c}) AS min_{c}, max({c}) AS max_{c}, sum({c}) AS sum_{c}"
)


def _run_summary(launch: Launch) -> None:
    """Mirrors PROC MEANS with CLASS: six statistics of fifteen columns by store and region.

    I/O: reads the wide table of transactions from data once; writes the small table of statistics to
    work.
    Check: rows and amounts by store, missing values and sums of one measure, which were counted when
    the table was made.
    """
    from gridwright.workload.datasets.tables import MEASURES

    source = launch.open("transactions")
    measures = [f"m{number:02d}" for number in range(1, MEASURES + 1)]
    required = [_STATISTICS.format(c=name) for name in ("amount_cents", *measures)]
    # A missing value is NaN in the table, and NULL to the statistics.
    cleared = [f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END AS {name}" for name in measures]
    query = f"""
        SELECT store, region, count(*) AS entries, {", ".join(required)}
        FROM (SELECT store, region, amount_cents, {", ".join(cleared)} FROM t) GROUP BY store, region
    """  # noqa: S608 - no word of it comes from outside
    with database(launch) as sql:
        sql.register("t", source.to_arrow())
        found = sql.sql(query).to_arrow_table()
    launch.check_table("transactions", source)
    _keep(launch, found)
    _check(launch, found)


def _keep(launch: Launch, found: pa.Table) -> None:
    import pyarrow as pa

    numbers = [name for name in found.schema.names if name != "region"]
    table = found.select(numbers).cast(pa.schema([(name, pa.float64()) for name in numbers]))
    filled = pa.table(
        [pa.chunked_array([each.fill_null(math.nan).combine_chunks()]) for each in table], numbers
    )
    with launch.write("statistics", filled.schema) as target:
        for batch in filled.to_batches():
            target.write(batch, check=False)


def _check(launch: Launch, table: pa.Table) -> None:
    import numpy as np

    expected: dict[str, Any] = dict(launch.facts("transactions").expected)
    stores = len(expected["rows_by_store"])
    store = table.column("store").to_numpy()
    entries = np.zeros(stores, dtype=np.int64)
    np.add.at(entries, store, table.column("entries").to_numpy())
    cents = [0] * stores
    third = [0.0] * stores
    for number, amount, part in zip(
        store.tolist(),
        table.column("sum_amount_cents").to_pylist(),
        table.column("sum_m03").to_pylist(),
        strict=True,
    ):
        cents[number] += int(amount)
        third[number] += part or 0.0
    for number in range(stores):
        launch.check(f"rows of store {number}", int(entries[number]), expected["rows_by_store"][number])
        launch.check(f"amount of store {number}", cents[number], expected["cents_by_store"][number])
        required = expected["m03_by_store"][number]
        # Sums in another order differ by rounding: n * 2^-53 of the sum of the sizes, about n.
        launch.check(
            f"m03 of store {number}", third[number], required, tolerance=1e-9 * (1 + int(entries[number]))
        )
    missing = sum(table.column("entries").to_pylist()) - sum(table.column("n_m03").to_pylist())
    launch.check("missing values of m03", missing, expected["missing_m03"])


SUMMARY_PROGRAM = Program(
    name="summary",
    class_="io",
    mirrors="PROC MEANS",
    engine="DuckDB",
    tables=("transactions",),
    run=_run_summary,
    work={"transactions": 0.1},
    threaded=True,
)
