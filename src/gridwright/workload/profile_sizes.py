"""How large one copy of the data is at each scale: what a launch profile is scaled by."""

from __future__ import annotations

from gridwright.workload.datasets.catalogue import TABLES
from gridwright.workload.scales import NAMES, scale
from gridwright.workload.space import table_bytes


def data_bytes() -> dict[str, int]:
    """Bytes of all tables of one copy, by scale, from their rows and columns; needs no engine."""
    return {name: sum(table_bytes(table, scale(name)) for table in TABLES) for name in NAMES}
