"""Limits of the tenancy and quotas of the compartment against what is still to be made.

Which limits a shape counts against, OCI says itself (Shape.quotaNames). Those of volumes are of the service
block-storage (OCI, Block Volume limits: total-storage-gb, volume-count).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gridwright.errors import Finding
from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.preflight.needs import StillNeeded
from gridwright.providers.oci.session import OciCallError, OciCloud
from gridwright.providers.preflight import QuotaUse

COMPUTE, VOLUMES, NETWORK = "compute", "block-storage", "vcn"


@dataclass(frozen=True, slots=True)
class LimitNeed:
    """What is needed of one limit."""

    service: str
    name: str
    unit: str
    needed: float


def limit_needs(layout: OciLayout, needed: StillNeeded, sold: Mapping[str, Any]) -> list[LimitNeed]:
    """All limits that the grid counts against; reserved capacity is counted already."""
    counted: defaultdict[tuple[str, str], float] = defaultdict(float)
    for each, number in needed.machines.items():
        shape = sold.get(each.shape)
        if shape is None or each.is_reserved:
            continue
        for name in dict.fromkeys(shape.quota_names or ()):
            unit, amount = _amount(name, each.ocpus or shape.ocpus, each.memory_gib or shape.memory_in_gbs)
            counted[name, unit] += number * amount
    found = [LimitNeed(COMPUTE, name, unit, amount) for (name, unit), amount in sorted(counted.items())]
    if needed.volumes:
        found.append(LimitNeed(VOLUMES, "total-storage-gb", "GB", needed.volume_gib))
        found.append(LimitNeed(VOLUMES, "volume-count", "volumes", needed.volumes))
    return found


def _amount(name: str, ocpus: float, memory: float) -> tuple[str, float]:
    """Unit and amount of one machine, by the name of the limit: cores, GB of memory, or machines."""
    if "memory" in name:
        return "GB", memory
    return ("OCPUs", ocpus) if "core" in name else ("machines", 1)


def limit_use(cloud: OciCloud, compartment: str, domain: str, need: LimitNeed) -> QuotaUse | None:
    """What is left of a limit; None where the service does not tell. Raises OciCallError."""
    asked = (need.service, need.name, compartment)
    try:
        found = _available(cloud, *asked, availability_domain=domain)
    except OciCallError as error:
        if error.http_status == 400:
            # Of the whole region, and not of an availability domain.
            found = _available(cloud, *asked)
        elif error.http_status == 404:
            return None
        else:
            raise
    left = found.fractional_availability if found.fractional_availability is not None else found.available
    if left is None:
        return None
    used = float(found.used or 0)
    code = f"{need.service}/{need.name}"
    return QuotaUse(need.name, code, need.unit, used + float(left), used, float(need.needed))


def _available(cloud: OciCloud, *asked: str, **more: str) -> Any:  # noqa: ANN401
    return cloud.call("limits", "LimitsClient", "get_resource_availability", *asked, **more)


def too_small(figures: Iterable[QuotaUse], region: str) -> Iterator[Finding]:
    """A finding for each limit that the grid does not fit into."""
    for each in figures:
        if not each.is_enough:
            yield Finding(
                "error",
                "quota-too-small",
                f"limit {each.name} ({each.code}) leaves {each.limit - each.used:g} "
                f"{each.unit} in {region}, and the grid needs {each.needed:g}",
                "ask for more in the console under Limits, Quotas and Usage, have an administrator raise the "
                "compartment's quota, or write fewer or smaller machines",
            )
