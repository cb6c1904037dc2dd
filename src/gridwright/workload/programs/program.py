"""The protocol of a test of the mixed workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gridwright.workload.launches.launch import Launch


@dataclass(frozen=True, slots=True)
class Program:
    """One test: what it is, what it needs, and how it runs.

    `run` does the work and raises WrongAnswer if its result is wrong; OSError and MemoryError
    pass through. Heavy engines are imported inside it, so that reading this is cheap. `work` and
    `util` say how many bytes it writes there per byte of each table it reads.
    """

    name: str
    class_: Literal["io", "memory", "computation"]
    mirrors: str
    """The SAS procedure or step whose I/O and computing it has."""
    engine: str
    """What does the work, such as `DuckDB`."""
    tables: tuple[str, ...]
    """Tables of the data set it reads, whole."""
    run: Callable[[Launch], None]
    work: Mapping[str, float] = field(default_factory=dict)
    util: Mapping[str, float] = field(default_factory=dict)
    threaded: bool = False
