"""The launches of a run as a Parquet file: one row each, libraries and shares as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from gridwright.messages import Extensible, plain
from gridwright.runs.launch_record import LaunchRecord, LibraryTraffic
from gridwright.runs.parquet import write_columns

_LIBRARIES = ("data", "work", "util")
_ARROW = {int: "int64", float: "float64", bool: "bool_"}


def write_launches(
    path: Path | str, launches: Sequence[LaunchRecord], *, directory: int | None = None
) -> None:
    """Write launches as `write_atomically`. Raises OSError."""
    types, rows = dict(_columns()), [_row(launch) for launch in launches]
    write_columns(path, {name: [row.get(name) for row in rows] for name in types}, types, directory=directory)


def launch_columns() -> tuple[str, ...]:
    """The names of all columns of such a file."""
    return tuple(name for name, _ in _columns())


def _columns() -> Iterator[tuple[str, str]]:
    """What is one figure or one text of a launch, and what of each library, each with its type in Arrow."""
    yield from _scalars(LaunchRecord)
    for library in _LIBRARIES:
        yield from ((f"{library}_{name}", kind) for name, kind in _scalars(LibraryTraffic))


def _scalars(record: type[Extensible]) -> Iterator[tuple[str, str]]:
    for name, kind in get_type_hints(record).items():
        kinds = [arg for arg in get_args(kind) or (kind,) if arg is not NoneType]
        if get_origin(kind) not in (list, dict) and not is_dataclass(kinds[0]):
            # A word out of a few is a text, too.
            yield name.rstrip("_"), _ARROW.get(kinds[0], "string")


def _row(launch: LaunchRecord) -> dict[str, Any]:
    row: dict[str, Any] = plain(launch)
    for library, traffic in row.pop("libraries").items():
        row |= {f"{library}_{name}": value for name, value in traffic.items()}
    return row
