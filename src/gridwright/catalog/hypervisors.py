"""Which instance types are older than AWS's Nitro System."""

from __future__ import annotations

from functools import cache

from gridwright.catalog.tables import rows

XEN_COLUMNS = ("name", "source", "date")


@cache
def xen_types() -> frozenset[str]:
    """Names of the types that EC2 lists with the hypervisor Xen; all others are built on Nitro."""
    return frozenset(name for name, _, _ in rows("xen-types.csv", XEN_COLUMNS))
