"""File systems of a grid that OCI runs as a service: its managed Lustre, and File Storage. Pure."""

from __future__ import annotations

import ipaddress

from gridwright.filesystems import kind_of
from gridwright.filesystems.provided import FileStorage, TieredLustre
from gridwright.providers.oci.layout import FIRST_ADDRESS, OciLayout
from gridwright.spec.model import GridSpec


def tiered_lustres(spec: GridSpec) -> dict[str, TieredLustre]:
    """Those on OCI's managed Lustre, by name."""
    return {
        name: found
        for name, each in spec.filesystems.items()
        if (found := kind_of(each).tiered_lustre(each)) is not None
    }


def file_storages(spec: GridSpec) -> dict[str, FileStorage]:
    """Those on OCI File Storage, by name."""
    return {
        name: found
        for name, each in spec.filesystems.items()
        if (found := kind_of(each).file_storage(each)) is not None
    }


def mount_target_address(layout: OciLayout) -> ipaddress.IPv4Address:
    """Where all exports of the grid are reached: beside the grid control server."""
    return layout.subnets["fs"].network_address + FIRST_ADDRESS + 1


def mount_sources(spec: GridSpec, layout: OciLayout) -> dict[str, str]:
    """What nodes mount of file systems that the spec gives no source of.

    OCI gives a managed Lustre its address when it makes it, so that each machine is told at its start.
    """
    target = mount_target_address(layout)
    exported = {name: f"{target}:{each.export_path}" for name, each in file_storages(spec).items()}
    return exported | {name: f"{{{{ gridwright_sources['{name}'] }}}}" for name in tiered_lustres(spec)}
