"""The samples of a run as a Parquet file: one row per node, library, phase and second."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import get_args, get_type_hints

from gridwright.messages import LEFT_OUT, Extensible

_ARROW = {int: "int64", float: "float64", str: "string"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(Extensible):
    """What was done within an interval of so many seconds; null where it was not measured."""

    elapsed_s: float
    interval_s: float
    read_bytes: int
    written_bytes: int
    operations: int | None = field(default=None, metadata=LEFT_OUT)
    cpu_percent: float | None = None
    """Of the node as a whole, as memory and device are."""
    memory_used_bytes: int | None = None
    device: str | None = None
    device_read_bytes: int | None = None
    device_written_bytes: int | None = None

    @property
    def moved_bytes(self) -> int:
        """Read and written."""
        return self.read_bytes + self.written_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRow:
    """What was done within an interval that ended at the Unix time `time`; null where it was not measured."""

    time: float | None = None
    node: str | None = None
    library: str | None = None
    op: str | None = None
    """A phase of iotest, or `workload`."""
    elapsed_s: float | None = None
    interval_s: float | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    operations: int | None = None
    cpu_percent: float | None = None
    memory_used_bytes: int | None = None
    device: str | None = None
    device_read_bytes: int | None = None
    device_written_bytes: int | None = None
    launches_running: int | None = None

    @property
    def moved_bytes(self) -> int:
        """Read and written, as far as is known."""
        return (self.read_bytes or 0) + (self.written_bytes or 0)


_COLUMNS = tuple(each.name for each in fields(SampleRow))
_TYPES = {
    name: {int: (int,), float: (float, int), str: (str,)}[get_args(kind)[0]]
    for name, kind in get_type_hints(SampleRow).items()
}
MOST_ROWS = 4_000_000
"""A thousand nodes over an hour, a sample each second."""


def with_node(rows: Iterable[SampleRow], node: str) -> list[SampleRow]:
    """The rows, each with its node: `node` where it names none."""
    return [row if row.node else replace(row, node=node) for row in rows]


def write_samples(
    path: Path | str, rows: Iterable[SampleRow], node: str, *, directory: int | None = None
) -> None:
    """Write samples as `write_atomically`; those that name no node are of `node`. Raises OSError."""
    from gridwright.runs.parquet import write_columns

    kinds = get_type_hints(SampleRow)
    types = {name: _ARROW[get_args(kinds[name])[0]] for name in _COLUMNS}
    whole = with_node(rows, node)
    write_columns(
        path, {name: [getattr(row, name) for row in whole] for name in _COLUMNS}, types, directory=directory
    )


def read_samples(path: Path) -> list[SampleRow]:
    """Read samples as rows. Raises OSError, and ValueError if the file is no such table, or too large."""
    from gridwright.runs.parquet import read_columns

    columns = read_columns(path, MOST_ROWS, _COLUMNS, follows=False)
    for name, values in columns.items():
        allowed = _TYPES[name]
        if not all(value is None or isinstance(value, allowed) for value in values):
            raise ValueError(f"its column {name} holds something else than {_ARROW[allowed[0]]}")
    cells = zip(*columns.values(), strict=True)
    return [SampleRow(**dict(zip(columns, row, strict=True))) for row in cells]
