"""Which sizes of Oracle's Lustre are on sale, by the facts of the catalogue."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from gridwright.catalog import ManagedOffer
from gridwright.filesystems.oci_lustre.fields import GB, TIERS

OFFER_NAMES = {tier: f"oci-lustre-{tier}" for tier in TIERS}
"""The catalogue's name of each tier."""


def offer_of(offers: Mapping[str, ManagedOffer], tier: int) -> ManagedOffer:
    """The offer of a tier, in MB/s for each TB."""
    return offers[OFFER_NAMES[tier]]


def least_size(offer: ManagedOffer, wanted_bytes: float) -> int:
    """The smallest size on sale from so many bytes on, in bytes.

    Sizes are the smallest, steps up to a large one, and larger steps from there on
    (docs.oracle.com/en-us/iaas/Content/lustre/file-system-capacity.htm, 2026-11-27).
    """
    least, step = _gb(offer, "capacity_min"), _gb(offer, "capacity_step")
    large, large_step = _gb(offer, "capacity_large"), _gb(offer, "capacity_step_large")
    wanted = wanted_bytes / GB * (1 - 1e-12)
    if wanted <= large:
        return (least + max(0, math.ceil((wanted - least) / step)) * step) * GB
    return (large + math.ceil((wanted - large) / large_step) * large_step) * GB


def nearest_sizes(offer: ManagedOffer, size_bytes: int) -> Iterator[int]:
    """The sizes on sale just below, where there is one, and just above, in bytes; the size itself alone."""
    above = least_size(offer, size_bytes)
    if above == size_bytes:
        yield above
        return
    if above > _gb(offer, "capacity_min") * GB:
        large = _gb(offer, "capacity_large") * GB
        yield above - _gb(offer, "capacity_step" if above <= large else "capacity_step_large") * GB
    yield above


def _gb(offer: ManagedOffer, fact: str) -> int:
    found = offer.figure(fact)
    if found is None:
        raise LookupError(f"{offer.name} has no {fact}")
    return round(found / GB)
