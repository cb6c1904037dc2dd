"""Mirrors PROC SQL: join transactions with their settlements, then group by account.

I/O: reads both tables from data; the hash join spills partitions of both sides to util as soon as
they exceed a quarter of the launch's memory; writes the joined table to work, and reads it back
to group it.
Check: one row per transaction; the amounts by segment and the sum of all fees, which were added
up when the tables were made.
"""

from __future__ import annotations

from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program

_JOIN = """
    SELECT t.*, s.settlement, s.settled, s.fee_cents, s.s01, s.s02, s.s03, s.s04, s.s05, s.s06, s.s07, s.s08
    FROM transactions t JOIN settlements s USING (transaction)
"""
_GROUP = """
    SELECT account, count(*) AS entries, sum(amount_cents)::BIGINT AS cents,
           sum(fee_cents)::BIGINT AS fees, sum(CASE WHEN settled > 19000 THEN 1 ELSE 0 END)::BIGINT AS late
    FROM joined GROUP BY account
"""


def _run(launch: Launch) -> None:
    import pyarrow as pa

    from gridwright.workload.sql import blocks, database

    left, right = launch.open("transactions"), launch.open("settlements")
    added = [right.schema.field(name) for name in ("settlement", "settled", "fee_cents")]
    added += [right.schema.field(f"s{number:02d}") for number in range(1, 9)]
    schema = pa.schema([*left.schema, *added])
    with database(launch, spills=True) as sql, launch.write("joined", schema) as target:
        sql.register("transactions", left.to_arrow())
        sql.register("settlements", right.to_arrow())
        for batch in blocks(sql.sql(_JOIN), schema):
            target.write(batch)
    launch.check_table("transactions", left)
    launch.check_table("settlements", right)
    launch.check("rows of the join", target.checksum.rows, launch.facts("transactions").rows)
    _group(launch)


def _group(launch: Launch) -> None:
    import pyarrow as pa

    from gridwright.workload.sql import blocks, database

    names = ("account", "entries", "cents", "fees", "late")
    schema = pa.schema([(name, pa.int64()) for name in names])
    sums = _Sums()
    with (
        database(launch, spills=True) as sql,
        launch.write("by_account", schema) as target,
    ):
        sql.register("joined", launch.reread("joined").to_arrow())
        for batch in blocks(sql.sql(_GROUP), schema):
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
        from gridwright.workload.datasets.sales import SEGMENTS

        self.entries = self.fees = self.late = 0
        self.cents_by_segment = [0] * SEGMENTS

    def take(self, batch: object) -> None:
        import numpy as np
        import pyarrow as pa

        from gridwright.workload.datasets.checksum import column_values
        from gridwright.workload.datasets.sales import segment_of

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


PROGRAM = Program(
    name="join",
    class_="io",
    mirrors="PROC SQL",
    engine="DuckDB",
    tables=("transactions", "settlements"),
    run=_run,
    work={"transactions": 1.5},
    util={"transactions": 2.0, "settlements": 2.0},
)
