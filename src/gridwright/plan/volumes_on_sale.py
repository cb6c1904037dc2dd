"""The block volumes that a plan chooses from: those of one machine, and those that two servers share."""

from __future__ import annotations

from gridwright.catalog import Catalog
from gridwright.filesystems.volume_sets import VolumeMarket, volume_market
from gridwright.spec.model import GridSpec


def volumes_on_sale(catalog: Catalog, spec: GridSpec, region: str) -> tuple[VolumeMarket, VolumeMarket]:
    """Types for one machine, and types that two attach at once: none where the grid cannot have these."""
    kind = spec.provider_kind
    alone = volume_market(catalog, kind.planned_volumes, region)
    if kind.settings_of_pairs(spec) is None:
        return alone, VolumeMarket(())
    types = kind.shared_volume_types
    return alone, volume_market(catalog, types, region) if types else alone
