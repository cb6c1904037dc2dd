"""Tests that move whole tables, as DATA steps, APPEND and TRANSPOSE do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from gridwright.workload.datasets.table import Integers
    from gridwright.workload.launches.traffic import CountedFile


_TIMES = 3


def _run_append(launch: Launch) -> None:
    """Mirrors PROC APPEND: copy transactions, then add a table of new ones to the copy three times.

    I/O: reads transactions from data and writes them to work (a DATA step with SET); reads the
    additions from data and writes them at the end of the file, without reading what is there; then
    reads the whole from work, as PROC CONTENTS and the next step would.
    Check: rows and checksum of the whole, which are the sums of those of its parts.
    """
    source = launch.open("transactions")
    with launch.write("ledger", source.schema) as target:
        for batch in source:
            target.write(batch, check=False)
    launch.check_table("transactions", source)
    for _ in range(_TIMES):
        with launch.append("ledger", source.schema) as target:
            for batch in launch.read("additions"):
                target.write(batch, check=False)
    whole = launch.reread("ledger")
    for _ in whole:
        pass
    base, added = launch.facts("transactions"), launch.facts("additions")
    rows = base.rows + _TIMES * added.rows
    checksum = (int(base.checksum, 16) + _TIMES * int(added.checksum, 16)) % (1 << 64)
    launch.check_rows("the ledger", whole.checksum, rows, f"{checksum:016x}")


APPEND_PROGRAM = Program(
    name="append",
    class_="io",
    mirrors="PROC APPEND",
    engine="Arrow",
    tables=("transactions", "additions"),
    run=_run_append,
    work={"transactions": 1.0, "additions": float(_TIMES)},
)


def _run_transpose(launch: Launch) -> None:
    """Mirrors PROC TRANSPOSE: measurements from one row a value to one row a subject, and back.

    I/O: reads the long table from data; writes the wide one to work and reads it back; writes the
    long one to work.
    Check: the rows that came back are those that were read (count, checksum), and the sums by
    variable, taken of the wide table, are those of the making.
    """
    import numpy as np

    from gridwright.workload.datasets.tables import VARIABLES

    source = launch.open("measurements")
    schema = _wide_schema()
    with launch.write("wide", schema) as target:
        for batch in source:
            target.write(_widen(batch, schema), check=False)
    launch.check_table("measurements", source)
    sums = np.zeros(VARIABLES)
    with launch.write("long", source.schema) as target:
        for batch in launch.reread("wide"):
            sums += [np.nansum(batch.column(f"value_{number}").to_numpy()) for number in range(VARIABLES)]
            target.write(_lengthen(batch, source.schema))
    facts = launch.facts("measurements")
    launch.check_rows("the table that came back", target.checksum, facts.rows, facts.checksum)
    for number, expected in enumerate(facts.expected["sum_by_variable"]):
        launch.check(f"sum of variable {number}", float(sums[number]), expected, tolerance=1e-9 * facts.rows)


def _wide_schema() -> pa.Schema:
    import pyarrow as pa

    from gridwright.workload.datasets.tables import VARIABLES

    values = [(f"value_{number}", pa.float64()) for number in range(VARIABLES)]
    days = [(f"taken_{number}", pa.int64()) for number in range(VARIABLES)]
    return pa.schema([("subject", pa.int64()), *values, *days])


def _widen(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:

    long = _frame(batch)
    wide = long.pivot(on="variable", index="subject", values=["value", "taken"], aggregate_function=None)
    return _batch(wide.select(schema.names), schema)


def _lengthen(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import polars as pl

    wide = _frame(batch)
    value, taken = (
        wide.unpivot(
            on=[name for name in wide.columns if name.startswith(prefix)],
            index="subject",
            variable_name="variable",
            value_name=prefix.rstrip("_"),
        ).with_columns(pl.col("variable").str.strip_prefix(prefix).cast(pl.Int64))
        for prefix in ("value_", "taken_")
    )
    long = value.join(taken, on=["subject", "variable"]).sort("subject", "variable")
    return _batch(long.select(schema.names), schema)


def _frame(batch: pa.RecordBatch) -> pl.DataFrame:
    import polars as pl
    import pyarrow as pa

    return pl.DataFrame(pa.Table.from_batches([batch]))


def _batch(frame: pl.DataFrame, schema: pa.Schema) -> pa.RecordBatch:
    return frame.rechunk().to_arrow().cast(schema).combine_chunks().to_batches()[0]


TRANSPOSE_PROGRAM = Program(
    name="transpose",
    class_="io",
    mirrors="PROC TRANSPOSE",
    engine="Polars",
    tables=("measurements",),
    run=_run_transpose,
    work={"measurements": 1.6},
)


def _run_lookup(launch: Launch) -> None:
    """Mirrors the hash object of the DATA step: accounts in a hash table, a look-up per transaction.

    I/O: reads accounts from data and keeps them; reads transactions from data and looks up the
    account of each, all over memory; writes the transactions that exceed their account's limit to work.
    Check: every account is found; the amounts by the segment that was looked up are those that were
    added up when the transactions were made.
    """
    import numpy as np
    import pyarrow as pa

    from gridwright.workload.datasets.table import column_values
    from gridwright.workload.datasets.tables import SEGMENTS

    index, segments, limits = _load(launch)
    cents = [0] * SEGMENTS
    source = launch.open("transactions")
    with launch.write("over_limit", source.schema) as target:
        for batch in source:
            keys, amount = (column_values(batch.column(name)) for name in ("account", "amount_cents"))
            place = index.get_indexer(keys)
            launch.require("a transaction's account is not in the hash table", bool((place >= 0).all()))
            segment = segments[place]
            for number in range(SEGMENTS):
                cents[number] += int(amount[segment == number].sum())
            over = np.flatnonzero(amount > limits[place])
            target.write(batch.take(pa.array(over)), check=False)
    launch.check_table("transactions", source)
    for number, expected in enumerate(launch.facts("transactions").expected["cents_by_segment"]):
        launch.check(f"amount of segment {number}", cents[number], expected)


def _load(launch: Launch) -> tuple[pd.Index, Integers, Integers]:
    """The hash table of the accounts, and by its places their segments and limits."""
    import numpy as np
    import pandas as pd

    from gridwright.workload.datasets.table import column_values

    names = ("account", "segment", "limit_cents")
    parts = [[column_values(batch.column(name)) for name in names] for batch in launch.read("accounts")]
    account, segment, limit = (np.concatenate(column) for column in zip(*parts, strict=True))
    # In the order of the file neighbours would share cache lines, and ascending keys need no hash.
    order = np.argsort(account.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return pd.Index(account[order]), segment[order], limit[order]


LOOKUP_PROGRAM = Program(
    name="lookup",
    class_="memory",
    mirrors="DATA step with a hash object",
    engine="pandas",
    tables=("accounts", "transactions"),
    run=_run_lookup,
    work={"transactions": 0.5},
)


def _run_merge(launch: Launch) -> None:
    """Mirrors a DATA step with MERGE and BY: match accounts with their orders, both sorted by account.

    I/O: reads both tables from data side by side, each once; writes the merged table, wider than
    both, to work. Nothing is held but a block of each.
    Check: a row for every order and for every account without one; the value of the orders by the
    segment that came from the account's side, which was added up when the orders were made.
    """
    import pyarrow as pa

    accounts, orders = launch.open("accounts"), launch.open("orders")
    ours = [each for each in orders.schema if each.name != "account"]
    schema = pa.schema([*accounts.schema, *ours, pa.field("has_order", pa.int64())])
    sums = _Sums()
    pending = _Pending(iter(orders))
    with launch.write("merged", schema) as target:
        for block in accounts:
            merged = _match(block, pending.up_to(block), schema)
            sums.take(merged)
            target.write(merged, check=False)
        launch.require("orders are left whose account is missing", pending.ended)
    launch.check_table("accounts", accounts)
    launch.check_table("orders", orders)
    facts = launch.facts("orders")
    empty = launch.facts("accounts").rows - facts.expected["accounts_with_orders"]
    launch.check("rows of the merged table", sums.rows, facts.rows + empty)
    for segment, cents in enumerate(facts.expected["cents_by_segment"]):
        launch.check(f"value of the orders of segment {segment}", sums.cents[segment], cents)


class _Pending:
    """Orders that were read but not yet matched."""

    def __init__(self, blocks: Iterator[pa.RecordBatch]) -> None:
        self._blocks = blocks
        self._rest: pa.RecordBatch | None = next(blocks, None)

    @property
    def ended(self) -> bool:
        """Whether all orders were handed out."""
        return self._rest is None or not self._rest.num_rows

    def up_to(self, block: pa.RecordBatch) -> pa.Table:
        """The orders of all accounts up to the last of the block."""
        import numpy as np
        import pyarrow as pa

        from gridwright.workload.datasets.table import column_values

        last = column_values(block.column("account"))[-1]
        taken = []
        while self._rest is not None:
            cut = int(np.searchsorted(column_values(self._rest.column("account")), last, side="right"))
            taken.append(self._rest.slice(0, cut))
            if cut < self._rest.num_rows:
                self._rest = self._rest.slice(cut)
                break
            self._rest = next(self._blocks, None)
        return pa.Table.from_batches(taken)


def _match(block: pa.RecordBatch, orders: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """A row for each order with the columns of its account, and one for each account without."""
    import numpy as np
    import pyarrow as pa

    from gridwright.workload.datasets.table import column_values

    keys = column_values(block.column("account"))
    matched = orders.combine_chunks()
    whose = np.searchsorted(keys, matched.column("account").to_numpy())
    counts = np.bincount(whose, minlength=len(keys))
    left = np.repeat(np.arange(len(keys)), np.maximum(counts, 1))
    has = np.repeat(counts > 0, np.maximum(counts, 1))
    right = np.full(len(left), -1, dtype=np.int64)
    right[has] = np.arange(matched.num_rows)
    columns = [column_values(column)[left] for column in block.columns]
    for each in schema:
        if each.name in block.schema.names or each.name == "has_order":
            continue
        source = column_values(matched.column(each.name).combine_chunks())
        blank = np.full(1, np.nan, source.dtype) if source.dtype.kind == "f" else np.zeros(1, source.dtype)
        columns.append(np.concatenate([source, blank])[right])
    columns.append(has.astype(np.int64))
    return pa.RecordBatch.from_arrays(
        [
            pa.Array.from_buffers(each.type, len(left), [None, pa.py_buffer(np.ascontiguousarray(column))])
            for each, column in zip(schema, columns, strict=True)
        ],
        schema=schema,
    )


class _Sums:
    """Rows, and the value of the orders by segment."""

    def __init__(self) -> None:
        from gridwright.workload.datasets.tables import SEGMENTS

        self.rows = 0
        self.cents = [0] * SEGMENTS

    def take(self, merged: pa.RecordBatch) -> None:
        import numpy as np

        from gridwright.workload.datasets.table import column_values

        quantity, price, segment = (
            column_values(merged.column(name)).astype(np.int64)
            for name in ("quantity", "price_cents", "segment")
        )
        value = quantity * price
        self.rows += merged.num_rows
        for number in range(len(self.cents)):
            self.cents[number] += int(value[segment == number].sum())


MERGE_PROGRAM = Program(
    name="merge",
    class_="io",
    mirrors="DATA step with MERGE and BY",
    engine="NumPy",
    tables=("accounts", "orders"),
    run=_run_merge,
    work={"orders": 1.75, "accounts": 1.0},
)


_BLOCK_BYTES = 4 << 20


def _run_convert(launch: Launch) -> None:
    """Mirrors a DATA step with INFILE and PUT: text in, rows filtered and derived, table and text out.

    I/O: reads a CSV file from data in blocks; of the rows it keeps writes a table to work, and a CSV
    file of a few columns to work, both as it goes along.
    Check: rows and amounts of all rows, of those kept, and of the derived column, which were added
    up before the text was made.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    facts = launch.facts("extract")
    schema = pa.schema([(name, pa.int64()) for name in ("entry", "account", "day", "cents", "value")])
    sums = dict.fromkeys(("cents", "kept", "kept_cents", "kept_value_cents", "kept_days"), 0)
    rows = 0
    text = launch.open_file(facts.path, "r", "data")
    digest = _Digest(text)
    with (
        launch.write("entries", schema) as table,
        launch.open_file(launch.work / "entries.csv", "w", "work") as out,
        pyarrow.csv.CSVWriter(pa.PythonFile(out, mode="w"), _text_schema()) as lines,
    ):
        options = pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False)
        for batch in pyarrow.csv.open_csv(pa.PythonFile(digest, mode="r"), read_options=options):
            rows += batch.num_rows
            sums["cents"] += pc.sum(batch.column("amount_cents")).as_py() or 0
            kept = _valid_rows(batch)
            table.write(_derive(kept, schema), check=False)
            lines.write_batch(kept.select(_text_schema().names))
            for name, figure in _sums(kept).items():
                sums[name] += figure
    launch.check("rows of the extract", rows, facts.rows)
    launch.require("the extract is not the text that was generated", digest.hexdigest() == facts.checksum)
    for name, figure in sums.items():
        launch.check(f"{name} of the extract", figure, facts.expected[name])


def _valid_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    import pyarrow.compute as pc

    return batch.filter(
        pc.and_(pc.not_equal(batch.column("status"), "void"), pc.greater(batch.column("amount_cents"), 0))
    )


def _derive(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    value = pc.multiply(batch.column("amount_cents"), batch.column("quantity"))
    names = ("entry", "account", "day", "amount_cents")
    return pa.RecordBatch.from_arrays([*(batch.column(name) for name in names), value], schema=schema)


def _sums(batch: pa.RecordBatch) -> dict[str, int]:
    import pyarrow.compute as pc

    value = pc.multiply(batch.column("amount_cents"), batch.column("quantity"))
    return {
        "kept": batch.num_rows,
        "kept_cents": pc.sum(batch.column("amount_cents")).as_py() or 0,
        "kept_value_cents": pc.sum(value).as_py() or 0,
        "kept_days": pc.sum(batch.column("day")).as_py() or 0,
    }


def _text_schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema(
        [
            ("entry", pa.int64()),
            ("account", pa.int64()),
            ("amount_cents", pa.int64()),
            ("category", pa.string()),
            ("note", pa.string()),
        ]
    )


class _Digest:
    """Passes a file on and takes its SHA-256 on the way."""

    def __init__(self, file: CountedFile) -> None:
        import hashlib

        self._file = file
        self._hash = hashlib.sha256()

    @property
    def closed(self) -> bool:
        """Whether the file below is."""
        return bool(self._file.closed)

    def read(self, size: int = -1) -> bytes:
        """Read from the file below."""
        data = self._file.read(size)
        self._hash.update(data)
        return data

    def close(self) -> None:
        """Close the file below."""
        self._file.close()

    def hexdigest(self) -> str:
        """Of all that was read, shortened as the manifest has it."""
        return self._hash.hexdigest()


CONVERT_PROGRAM = Program(
    name="convert",
    class_="io",
    mirrors="DATA step with INFILE and PUT",
    engine="Arrow",
    tables=("extract",),
    run=_run_convert,
    work={"extract": 1.1},
)
