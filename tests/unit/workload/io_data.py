"""A small data set and launches over it, for tests of the tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gridwright.workload.datasets.catalogue import TABLES
from gridwright.workload.datasets.writer import write_table
from gridwright.workload.launches.launch import Launch
from gridwright.workload.launches.traffic import LaunchTraffic
from gridwright.workload.messages import Made
from gridwright.workload.table_facts import TableFacts

UNITS = {
    "transactions": 30_000,
    "settlements": 30_000,
    "additions": 3_000,
    "accounts": 3_000,
    "orders": 3_000,
    "measurements": 4_000,
    "extract": 20_000,
}
"""Several blocks of each table."""


def make_tables(directory: Path, seed: int, units: Mapping[str, int] = UNITS) -> dict[str, TableFacts]:
    """Write the tables of the I/O and memory tests."""
    return {name: facts(directory, name, seed, units) for name in units}


def facts(directory: Path, name: str, seed: int, units: Mapping[str, int]) -> TableFacts:
    """Write one table."""
    table = TABLES[name]
    path = directory / f"{name}.{table.format}"
    made: Made = write_table(table, path, units=units, seed=seed, copy=0)
    return TableFacts(path, made.rows, made.bytes_, made.checksum, made.expected)


def launch(directory: Path, tables: Mapping[str, TableFacts], memory_bytes: int = 384 << 20) -> Launch:
    """A launch in directories of its own."""
    for name in ("work", "util"):
        (directory / name).mkdir(exist_ok=True)
    return Launch(
        work=directory / "work",
        util=directory / "util",
        tables=tables,
        traffic=LaunchTraffic(LaunchTraffic.create()),
        cores=1,
        memory_bytes=memory_bytes,
        settings={},
    )
