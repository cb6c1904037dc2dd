"""Mirrors PROC TRANSPOSE: measurements from one row a value to one row a subject, and back.

I/O: reads the long table from data; writes the wide one to work and reads it back; writes the
long one to work.
Check: the rows that came back are those that were read (count, checksum), and the sums by
variable, taken of the wide table, are those of the making.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


def _run(launch: Launch) -> None:
    import numpy as np

    from gridwright.workload.datasets.sales import VARIABLES

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

    from gridwright.workload.datasets.sales import VARIABLES

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


PROGRAM = Program(
    name="transpose",
    class_="io",
    mirrors="PROC TRANSPOSE",
    engine="Polars",
    tables=("measurements",),
    run=_run,
    work={"measurements": 1.6},
)
