"""What objects cost in each storage class, had all files that were not used for long enough gone there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gridwright.repository.ages import UseOfFiles

GIB = 2**30
"""Providers bill storage by the GiB and call it GB."""
STANDARD = "s3-standard"
CLASSES: tuple[tuple[str, str], ...] = (
    ("s3-standard-ia", "30 days"),
    ("s3-glacier-instant", "90 days"),
    ("s3-glacier-flexible", "90 days"),
    ("s3-deep-archive", "1 year"),
)
"""Items of the catalogue's prices, and how long files are to be unused for each: at least as long as a class
bills an object (30, 90, 90 and 180 days; Amazon S3 User Guide, storage classes)."""

UsdOf = Callable[[str], float | None]
"""The price of an item, USD per GB and month, or per GB retrieved; None where none is known."""


@dataclass(frozen=True, slots=True)
class ClassCost:
    """One storage class. USD; None where no price is known."""

    storage_class: str
    unused_for: str | None
    """How long the files that would be in it were not used; None: all files are in it."""
    bytes: int
    """Of these files; all others are in S3 Standard."""
    usd_per_month: float | None
    """Of all files, those in S3 Standard among them."""
    retrieval_usd: float | None
    """Of reading these files once."""


def class_costs(use: UseOfFiles, usd_of: UsdOf) -> list[ClassCost]:
    """Costs of each class, of S3 Standard alone first."""
    standard = usd_of(STANDARD)
    found = [ClassCost(STANDARD, None, use.bytes, _times(use.bytes, standard), 0.0)]
    for item, limit in CLASSES:
        cold = use.bytes_older_than(limit)
        hot_usd, cold_usd = _times(use.bytes - cold, standard), _times(cold, usd_of(item))
        month = None if hot_usd is None or cold_usd is None else hot_usd + cold_usd
        back = _times(cold, usd_of(f"{item}-retrieval"))
        found.append(ClassCost(item, limit, cold, month, back))
    return found


def _times(size: int, usd: float | None) -> float | None:
    return None if usd is None else size / GIB * usd
