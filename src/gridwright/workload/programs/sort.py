"""Mirrors PROC SORT: sort transactions by account, amount and number.

I/O: reads the table from data once; spills sorted runs to util as soon as they exceed a quarter
of the launch's memory, and reads them back in a merge; writes the sorted table to work.
Check: the order holds from row to row, and the same rows came out as went in (count, checksum).
"""

from __future__ import annotations

from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program

_QUERY = "SELECT * FROM transactions ORDER BY account, amount_cents DESC, transaction"


def _run(launch: Launch) -> None:
    from gridwright.workload.sql import blocks, database

    source = launch.open("transactions")
    ordered = _Order()
    with (
        database(launch, spills=True) as sql,
        launch.write("sorted", source.schema) as target,
    ):
        sql.register("transactions", source.to_arrow())
        for batch in blocks(sql.sql(_QUERY), source.schema):
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

        from gridwright.workload.datasets.checksum import column_values

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


PROGRAM = Program(
    name="sort",
    class_="io",
    mirrors="PROC SORT",
    engine="DuckDB",
    tables=("transactions",),
    run=_run,
    work={"transactions": 1.0},
    util={"transactions": 2.0},
)
