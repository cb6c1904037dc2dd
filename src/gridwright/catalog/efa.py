"""Which instance types can have an Elastic Fabric Adapter."""

from __future__ import annotations

from functools import cache

from gridwright.catalog.tables import rows

EFA_COLUMNS = ("name", "source", "date")


@cache
def efa_types() -> frozenset[str]:
    """Names of the types that EC2 lists with an adapter."""
    return frozenset(name for name, _, _ in rows("efa-types.csv", EFA_COLUMNS))
