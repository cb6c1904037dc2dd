"""Mirrors PROC APPEND: copy transactions, then add a table of new ones to the copy three times.

I/O: reads transactions from data and writes them to work (a DATA step with SET); reads the
additions from data and writes them at the end of the file, without reading what is there; then
reads the whole from work, as PROC CONTENTS and the next step would.
Check: rows and checksum of the whole, which are the sums of those of its parts.
"""

from __future__ import annotations

from gridwright.workload.launches.launch import Launch
from gridwright.workload.programs.program import Program

_TIMES = 3


def _run(launch: Launch) -> None:
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


PROGRAM = Program(
    name="append",
    class_="io",
    mirrors="PROC APPEND",
    engine="Arrow",
    tables=("transactions", "additions"),
    run=_run,
    work={"transactions": 1.0, "additions": float(_TIMES)},
)
