"""The catalogue: what can be bought, with the source and the date of every figure."""

from gridwright.catalog.contents import Catalog
from gridwright.catalog.facts import MeasuredRate, Source
from gridwright.catalog.instances import Ebs, InstanceStore, InstanceType, Network, StoreMeasured
from gridwright.catalog.load import load_catalog
from gridwright.catalog.managed import ManagedDeployment, ManagedOffer, Tier
from gridwright.catalog.prices import Price, ServicePrices
from gridwright.catalog.volumes import VolumeLimits, VolumeType

__all__ = [
    "Catalog",
    "Ebs",
    "InstanceStore",
    "InstanceType",
    "ManagedDeployment",
    "ManagedOffer",
    "MeasuredRate",
    "Network",
    "Price",
    "ServicePrices",
    "Source",
    "StoreMeasured",
    "Tier",
    "VolumeLimits",
    "VolumeType",
    "load_catalog",
]
