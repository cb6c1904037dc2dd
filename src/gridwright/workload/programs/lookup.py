"""Mirrors the hash object of the DATA step: accounts in a hash table in memory, a look-up per transaction.

I/O: reads accounts from data and keeps them; reads transactions from data and looks up the
account of each, all over memory; writes the transactions that exceed their account's limit to work.
Check: every account is found; the amounts by the segment that was looked up are those that were
added up when the transactions were made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program

if TYPE_CHECKING:
    import pandas as pd

    from gridwright.workload.datasets.quantiles import Integers


def _run(launch: Launch) -> None:
    import numpy as np
    import pyarrow as pa

    from gridwright.workload.datasets.checksum import column_values
    from gridwright.workload.datasets.sales import SEGMENTS

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

    from gridwright.workload.datasets.checksum import column_values

    names = ("account", "segment", "limit_cents")
    parts = [[column_values(batch.column(name)) for name in names] for batch in launch.read("accounts")]
    account, segment, limit = (np.concatenate(column) for column in zip(*parts, strict=True))
    # In the order of the file neighbours would share cache lines, and ascending keys need no hash.
    order = np.argsort(account.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return pd.Index(account[order]), segment[order], limit[order]


PROGRAM = Program(
    name="lookup",
    class_="memory",
    mirrors="DATA step with a hash object",
    engine="pandas",
    tables=("accounts", "transactions"),
    run=_run,
    work={"transactions": 0.5},
)
