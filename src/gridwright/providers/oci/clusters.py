"""Machines and shared volumes of a grid on OCI, as the kinds of file systems that join them know them."""

from __future__ import annotations

from gridwright.catalog import Catalog, load_catalog
from gridwright.filesystems.shared_disks import ClusterMachine, PairDisk
from gridwright.providers.oci.layout import OciLayout, OciMachine, OciRole
from gridwright.providers.shared_disks import ClusterParts, shared_disk_file_systems
from gridwright.schedulers.machines import USABLE_PART
from gridwright.spec.model import GridSpec


def cluster_parts(spec: GridSpec, layout: OciLayout) -> dict[str, ClusterParts]:
    """Machines and disks of each file system that is a cluster, by the file system's name."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    found = {}
    for name in shared_disk_file_systems(spec):
        # Its servers first, then nodes that mount it: those that run jobs, and the grid control server.
        members = [*layout.servers_of(name), *layout.of_role(OciRole.HEAD, OciRole.COMPUTE)]
        disks = [
            PairDisk(
                volume=one.name,
                device=one.device,
                pair=one.pair,
                index=one.index,
                pool=one.pool,
                label=f"p{one.pair}_{one.pool}_v{one.index + 1:02d}" if one.pool else "",
            )
            for one in layout.volumes
            if one.filesystem == name and one.is_shared
        ]
        found[name] = ClusterParts([_machine(spec, one, catalog) for one in members], disks)
    return found


def _machine(spec: GridSpec, machine: OciMachine, catalog: Catalog) -> ClusterMachine:
    shape = machine.shape if machine.ocpus is None else f"{machine.shape}({machine.ocpus})"
    instance = catalog.instance(shape, spec.provider)
    cards = 2 if machine.second_address is not None else 1
    return ClusterMachine(
        name=machine.name,
        address=str(machine.serving_address),
        is_server=machine.role.is_server,
        pair=machine.pair,
        fault_domain=machine.fault_domain,
        memory_bytes=int(instance.memory_bytes * USABLE_PART),
        # Clients reach a server of two cards over one of them; the other one has the block volumes.
        nic_bytes_per_s=instance.network.baseline_bytes_per_s / cards,
    )
