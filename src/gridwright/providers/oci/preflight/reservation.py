"""Whether the capacity reservation of the spec has room for the nodes that use it."""

from __future__ import annotations

from collections.abc import Iterator

from gridwright.errors import Finding
from gridwright.providers.oci.layout import OciLayout
from gridwright.providers.oci.preflight.needs import StillNeeded
from gridwright.providers.oci.session import OciCloud

_CORE, _CLIENT = "core", "ComputeClient"
_REMEDY = "change the reservation, or name another one in oci.capacity_reservation"


def reservation_findings(
    cloud: OciCloud, layout: OciLayout, needed: StillNeeded, domain: str
) -> Iterator[Finding]:
    """All that is wrong with it; nothing where the spec names none. Raises OciCallError."""
    ocid, count = layout.oci.capacity_reservation, needed.reserved
    if ocid is None:
        return
    found = cloud.found(_CORE, _CLIENT, "get_compute_capacity_reservation", ocid)
    if found is None:
        yield Finding(
            "error",
            "reservation-unfit",
            f"these credentials see no capacity reservation {ocid} in {cloud.region}",
            "correct oci.capacity_reservation, or have a policy let you use it",
        )
        return
    wrong = []
    if found.lifecycle_state != "ACTIVE":
        wrong.append(f"is {found.lifecycle_state.lower()}")
    if found.availability_domain != domain:
        wrong.append(f"is in {found.availability_domain}, and the grid in {domain}")
    left = (found.reserved_instance_count or 0) - (found.used_instance_count or 0)
    if left < count:
        wrong.append(f"has room for {left} machines, and {count} nodes are to use it")
    for each in wrong:
        text = f"capacity reservation {found.display_name} {each}"
        yield Finding("error", "reservation-unfit", text, _REMEDY)
