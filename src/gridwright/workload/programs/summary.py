"""Mirrors PROC MEANS with CLASS: six statistics of fifteen columns by store and region.

I/O: reads the wide table of transactions from data once; writes the small table of statistics to
work.
Check: rows and amounts by store, missing values and sums of one measure, which were counted when
the table was made.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program

if TYPE_CHECKING:
    import pyarrow as pa

_STATISTICS = (
    "count({c}) AS n_{c}, avg({c}) AS mean_{c}, stddev_samp({c}) AS std_{c}, "
    "min({c}) AS min_{c}, max({c}) AS max_{c}, sum({c}) AS sum_{c}"
)


def _run(launch: Launch) -> None:
    from gridwright.workload.datasets.sales import MEASURES
    from gridwright.workload.sql import database

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


PROGRAM = Program(
    name="summary",
    class_="io",
    mirrors="PROC MEANS",
    engine="DuckDB",
    tables=("transactions",),
    run=_run,
    work={"transactions": 0.1},
    threaded=True,
)
