"""What will hurt, or leave paid rate unused, in a valid spec of a grid on OCI."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gridwright.catalog import Catalog, load_catalog
from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.provided import SharedDiskServers
from gridwright.providers.oci.layout import DEFAULT_VOLUME, DEVICE_LETTERS, shared_disk_file_systems
from gridwright.spec.model import GridSpec
from gridwright.units import format_rate


def oci_findings(spec: GridSpec) -> Iterator[Finding]:
    """All findings about a grid on OCI; what the catalogue does not know is passed over here."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    for name, shared in shared_disk_file_systems(spec).items():
        try:
            yield from _volumes_below_card(name, shared, spec, catalog)
        except GridwrightError:
            # `check` tells of unknown shapes and volumes by itself, with their places.
            continue


def _volumes_below_card(
    name: str, shared: SharedDiskServers, spec: GridSpec, catalog: Catalog
) -> Iterator[Finding]:
    """The rule of paper 003: volumes x rate reach the rate of the server's card (facts oci-scale).

    Only of servers with two cards: with one, volumes and clients share it, and the model reckons with that.
    """
    servers = shared.nsd
    if servers is None or servers.disks is None:
        return
    network = catalog.instance(servers.instance, spec.provider).network
    if network.nics < 2:
        return
    disks = servers.disks
    count = disks.count or 1
    rate = catalog.volume(disks.type, spec.provider).limits(int(disks.size or DEFAULT_VOLUME))
    card = network.baseline_bytes_per_s / network.nics
    volumes = count * rate.steady_bytes_per_s
    if volumes >= card:
        return
    enough, most = math.ceil(card / rate.steady_bytes_per_s), len(DEVICE_LETTERS) // 2
    more = (
        f"Write count: {enough} under its disks"
        if enough <= most
        else f"Take larger volumes or a faster type: {most} disks a server are the most"
    )
    yield Finding(
        "info",
        "volumes-below-card",
        f"each server of {name} is the first of {count} volumes that pass {format_rate(volumes)} together, "
        f"and its card passes {format_rate(card)}: the volumes bind",
        f"{more}; or keep it where predict finds the libraries' rates met",
    )
