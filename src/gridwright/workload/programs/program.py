"""The protocol of a test of the mixed workload, the tests by name, and the engines that they need."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
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


TEST_NAMES = (
    "sort",
    "merge",
    "append",
    "join",
    "summary",
    "transpose",
    "convert",
    "lookup",
    "matrix",
    "reg",
    "logistic",
    "glm",
    "mixed",
    "forest",
    "boost",
    "cluster",
    "princomp",
    "forecast",
    "optimize",
)


REPLAY = "replay"
"""What runs launch profiles: it is asked for by the plan of a replay, and no matrix can name it."""


_MODULES = {
    "tables": ("append", "transpose", "lookup", "merge", "convert"),
    "sql": ("sort", "join", "summary"),
    "learning": ("forest", "boost", "cluster"),
    "regression": ("reg", "logistic", "glm", "mixed"),
    "multivariate": ("matrix", "princomp"),
    "forecast": ("forecast",),
    "optimize": ("optimize",),
    "replay": (REPLAY,),
}
"""Where each is: the module of `sort`, as one of them, has it as SORT_PROGRAM."""


@cache
def program_of(name: str) -> Program:
    """The test of a name. Raises KeyError if there is none."""
    where = {test: module for module, tests in _MODULES.items() for test in tests}[name]
    found = getattr(import_module(f"gridwright.workload.programs.{where}"), f"{name.upper()}_PROGRAM")
    if not isinstance(found, Program) or found.name != name:
        raise TypeError(f"the module of test {name} holds no such program")
    return found


ENGINES = {
    "duckdb": "duckdb",
    "highspy": "highspy",
    "lightgbm": "lightgbm",
    "numpy": "numpy",
    "pandas": "pandas",
    "polars": "polars",
    "scikit-learn": "sklearn",
    "scipy": "scipy",
    "statsmodels": "statsmodels",
}
"""Module by the name of its package; they are the extra `workload`."""


def absent_engines() -> list[str]:
    """Packages that are not installed."""
    return [package for package, module in ENGINES.items() if find_spec(module) is None]


def engine_environment(cores: int) -> dict[str, str]:
    """Environment that holds every engine to `cores` threads and to the system's allocator."""
    names = (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "POLARS_MAX_THREADS",
        "ARROW_NUM_THREADS",
        "LOKY_MAX_CPU_COUNT",
    )
    return {name: str(cores) for name in names} | {
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONHASHSEED": "0",
        "MALLOC_ARENA_MAX": str(min(cores, os.cpu_count() or 1)),
    }
