"""Machines and shared volumes of a grid on AWS, as the kinds of file systems that join them know them."""

from __future__ import annotations

from gridwright.catalog import Catalog, load_catalog
from gridwright.filesystems.shared_disks import ClusterMachine, PairDisk
from gridwright.providers.aws.disk_pairs import partition
from gridwright.providers.aws.layout import AwsLayout, Machine, Role
from gridwright.providers.shared_disks import ClusterParts, shared_disk_file_systems
from gridwright.schedulers.machines import USABLE_PART
from gridwright.spec.model import GridSpec

_CLIENTS = (Role.LOGIN, Role.HEAD, Role.COMPUTE)


def cluster_parts(spec: GridSpec, layout: AwsLayout) -> dict[str, ClusterParts]:
    """Machines and disks of each file system that is a cluster, by the file system's name."""
    catalog = load_catalog(spec.file.parent if spec.file else None)
    clients = [*layout.of_role(*_CLIENTS), *(each for each in layout.machines if _mounts(spec, each))]
    found = {}
    for name in shared_disk_file_systems(spec):
        servers = [
            _machine(each, catalog, domain=partition(number))
            for number, each in enumerate(layout.pairs_of(name), start=1)
        ]
        disks = [
            PairDisk(volume=one.logical_id, device=one.path, pair=one.pair, index=one.index)
            for one in layout.volumes
            if one.filesystem == name
        ]
        found[name] = ClusterParts([*servers, *(_machine(each, catalog) for each in clients)], disks)
    return found


def _mounts(spec: GridSpec, machine: Machine) -> bool:
    """Whether a machine beside the nodes mounts what they mount."""
    return machine.role is Role.MACHINE and spec.machines[machine.group].mounts


def _machine(machine: Machine, catalog: Catalog, domain: int = 0) -> ClusterMachine:
    instance = catalog.instance(machine.instance, "aws")
    return ClusterMachine(
        name=machine.name,
        address=str(machine.address),
        is_server=machine.role is Role.NSD,
        pair=machine.pair,
        fault_domain=domain,
        # Login and head node are small: what suits nodes would not fit into their memory.
        runs_jobs=machine.role not in (Role.LOGIN, Role.HEAD),
        memory_bytes=int(instance.memory_bytes * USABLE_PART),
        nic_bytes_per_s=instance.network.baseline_bytes_per_s,
    )
