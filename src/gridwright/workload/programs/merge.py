"""Mirrors a DATA step with MERGE and BY: match accounts with their orders, both sorted by account.

I/O: reads both tables from data side by side, each once; writes the merged table, wider than
both, to work. Nothing is held but a block of each.
Check: a row for every order and for every account without one; the value of the orders by the
segment that came from the account's side, which was added up when the orders were made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program

if TYPE_CHECKING:
    import pyarrow as pa


def _run(launch: Launch) -> None:
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

        from gridwright.workload.datasets.checksum import column_values

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

    from gridwright.workload.datasets.checksum import column_values

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
        from gridwright.workload.datasets.sales import SEGMENTS

        self.rows = 0
        self.cents = [0] * SEGMENTS

    def take(self, merged: pa.RecordBatch) -> None:
        import numpy as np

        from gridwright.workload.datasets.checksum import column_values

        quantity, price, segment = (
            column_values(merged.column(name)).astype(np.int64)
            for name in ("quantity", "price_cents", "segment")
        )
        value = quantity * price
        self.rows += merged.num_rows
        for number in range(len(self.cents)):
            self.cents[number] += int(value[segment == number].sum())


PROGRAM = Program(
    name="merge",
    class_="io",
    mirrors="DATA step with MERGE and BY",
    engine="NumPy",
    tables=("accounts", "orders"),
    run=_run,
    work={"orders": 1.75, "accounts": 1.0},
)
