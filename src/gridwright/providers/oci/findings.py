"""What will hurt, or leave paid rate unused, in a valid spec of a grid on OCI."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from gridwright.catalog import Catalog, load_catalog
from gridwright.errors import Finding, GridwrightError
from gridwright.providers.lustre_servers import built_lustres
from gridwright.providers.no_scheduler import nodes_without_jobs, scheduler_not_packaged
from gridwright.providers.oci.devices import DEVICE_LETTERS
from gridwright.providers.oci.layout import DEFAULT_VOLUME
from gridwright.providers.oci.section import Oci
from gridwright.providers.oci.service_subnet import tiered_lustres
from gridwright.providers.shared_disks import shared_disk_file_systems
from gridwright.setup.distributions import distribution
from gridwright.spec.filesystem import FILESYSTEMS
from gridwright.spec.model import GridSpec
from gridwright.spec.storage import Disks, Servers
from gridwright.units import format_rate


def oci_findings(spec: GridSpec) -> Iterator[Finding]:
    """All findings about a grid on OCI; what the catalogue does not know is passed over here."""
    for name, filesystem in spec.filesystems.items():
        yield from FILESYSTEMS.get(filesystem.type).cloud_findings(name, filesystem, spec)
    yield from _scheduler(spec)
    yield from _no_server_image(spec)
    yield from _no_client_packages(spec)
    catalog = load_catalog(spec.file.parent if spec.file else None)
    for each in _data_servers(spec):
        try:
            yield from _volumes_below_card(each, spec, catalog)
        except GridwrightError:
            # `check` tells of unknown shapes and volumes by itself, with their places.
            continue


@dataclass(frozen=True, slots=True)
class _DataServers:
    """Servers whose volumes hold the data of a file system."""

    filesystem: str
    servers: Servers | None
    disks: Disks | None
    """Those of each server that new files go to."""
    most: int
    """How many of these each can have: the servers of a pair attach those of both, in all pools."""
    words: str
    """What a server is to its volumes."""


def _data_servers(spec: GridSpec) -> Iterator[_DataServers]:
    most = len(DEVICE_LETTERS)
    for name, shared in shared_disk_file_systems(spec).items():
        every = [*shared.pool_disks.values(), *([shared.nsd.disks] if shared.nsd else [])]
        others = sum(each.count or 1 for each in every if each is not None and each is not shared.file_disks)
        yield _DataServers(name, shared.nsd, shared.file_disks, most // 2 - others, "is the first of")
    for name, lustre in built_lustres(spec).items():
        yield _DataServers(name, lustre.oss, lustre.oss.disks if lustre.oss else None, most, "has")


def _scheduler(spec: GridSpec) -> Iterator[Finding]:
    oci = spec.section(Oci)
    if oci is not None:
        yield from nodes_without_jobs(spec, "OCI")
        yield from scheduler_not_packaged(spec, distribution(oci.distribution))


def _no_server_image(spec: GridSpec) -> Iterator[Finding]:
    oci = spec.section(Oci)
    if oci is None or oci.server_image is not None or oci.image is not None:
        return
    for name in built_lustres(spec):
        yield Finding(
            "warning",
            "no-server-image",
            f"Lustre {name} is built, and no image is named whose kernel has the server packages of Lustre: "
            "its servers do not come up",
            "Add server_image: ocid1.image... to oci; gridwright help oci says how to make one",
        )


def _no_client_packages(spec: GridSpec) -> Iterator[Finding]:
    """The platform images of OCI have no client of Lustre, and no repository is right for all kernels."""
    oci = spec.section(Oci)
    named = any(
        spec.setup.variables.get(each) for each in ("lustre_client_repository", "lustre_client_packages")
    )
    if oci is None or oci.image is not None or named:
        return
    for name in (*built_lustres(spec), *tiered_lustres(spec)):
        yield Finding(
            "warning",
            "no-client-packages",
            f"nodes mount Lustre {name}, no repository with its client is named, and the platform image of "
            f"{oci.distribution} has none: nodes do not mount it",
            "Write setup: {variables: {lustre_client_repository: ...}}, one for the kernel of that image, or "
            "image: with the OCID of an image that has the client",
        )
        return


def _volumes_below_card(each: _DataServers, spec: GridSpec, catalog: Catalog) -> Iterator[Finding]:
    """The rule of paper 003: volumes x rate reach the rate of the server's card (facts oci-scale).

    Only of servers with two cards: with one, volumes and clients share it, and the model reckons with that.
    """
    servers, disks, name = each.servers, each.disks, each.filesystem
    if servers is None or disks is None:
        return
    network = catalog.instance(servers.instance, spec.provider).network
    if network.nics < 2:
        return
    count = disks.count or 1
    rate = catalog.volume(disks.type, spec.provider).limits(int(disks.size or DEFAULT_VOLUME))
    card = network.baseline_bytes_per_s / network.nics
    volumes = count * rate.steady_bytes_per_s
    if volumes >= card:
        return
    enough, most = math.ceil(card / rate.steady_bytes_per_s), each.most
    more = (
        f"Write count: {enough} under its disks"
        if enough <= most
        else f"Take larger volumes or a faster type: {most} disks a server are the most"
    )
    yield Finding(
        "info",
        "volumes-below-card",
        f"each server of {name} {each.words} {count} volumes that pass {format_rate(volumes)} together, "
        f"and its card passes {format_rate(card)}: the volumes bind",
        f"{more}; or keep it where predict finds the libraries' rates met",
    )
