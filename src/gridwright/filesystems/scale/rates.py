"""IBM Spectrum Scale on NSD servers of one's own: every file is spread over all of their disks."""

from __future__ import annotations

from gridwright.errors import Finding
from gridwright.filesystems.resources import OPERATIONS, Contribution, Route
from gridwright.filesystems.scale.model import ScaleFileSystem
from gridwright.filesystems.servers import server_costs, server_group
from gridwright.filesystems.site import Site


def contribute(name: str, filesystem: ScaleFileSystem, site: Site) -> Contribution:
    """What the NSD servers deliver to all nodes. Problems with the spec are noted at the site."""
    if filesystem.nsd is None:
        return Contribution(
            {}, (), unknown=f"nothing is known of the servers of {name}, which another cluster has"
        )
    group = server_group("scale", name, "nsd", filesystem.nsd, site)
    costs = server_costs(name, "nsd", filesystem.nsd, site)
    if isinstance(group, str):
        return Contribution({}, costs, unknown=group)
    return Contribution(
        {
            operation: Route((*site.nodes.network(operation), *group.uses(operation)))
            for operation in OPERATIONS
        },
        costs,
        capacity_bytes=group.capacity_bytes,
        outlives_server=group.disks.are_volumes,
        targets=group.targets,
        findings=(_licences(name),),
    )


def _licences(name: str) -> Finding:
    return Finding(
        "info",
        "licences-not-priced",
        f"the cost of {name} is that of its servers and volumes: IBM's licences of Scale are not in it",
        "Add what you pay IBM, by capacity or by socket, before you compare it with other file systems",
    )
