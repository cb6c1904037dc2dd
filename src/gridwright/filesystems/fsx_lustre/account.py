"""What an account may have of FSx for Lustre in a region until it asks AWS for more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gridwright.catalog.facts import Fact
from gridwright.errors import Finding
from gridwright.filesystems.fsx_lustre.model import FsxLustreFileSystem
from gridwright.spec.model import GridSpec
from gridwright.units import Bytes

_CAPACITY = "capacity_per_account_and_region"
_TIB_OF_AWS = 1000 * 2**30
"""AWS sells FSx for Lustre in GiB, and calls 1000 of them a TiB."""


def account_findings(name: str, spec: GridSpec, limits: Mapping[str, Fact]) -> Iterator[Finding]:
    """A warning at the file system with which the grid's capacity passes the limit; `limits` by their names.

    `up` on AWS asks for the quota that the account really has.
    """
    limit = limits.get(_CAPACITY)
    if limit is None:
        return
    most, total = limit.value * _TIB_OF_AWS, 0
    for each, filesystem in spec.filesystems.items():
        if not isinstance(filesystem, FsxLustreFileSystem):
            continue
        before, total = total, total + filesystem.capacity
        if each == name and before <= most < total:
            yield Finding(
                "warning",
                "account-limit",
                f"FSx for Lustre of this grid has {Bytes(total)}, and an account may have "
                f"{limit.value:g} TiB in a region until it asks for more "
                f"({limit.source.text}, {limit.source.date})",
                "Ask AWS for more before the grid is made: Service Quotas, Amazon FSx; gridwright up --check "
                "reads what the account has",
            )
