"""The engines of the tests: whether they are installed, and how they are kept to their cores."""

from __future__ import annotations

import os
from importlib.util import find_spec

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
