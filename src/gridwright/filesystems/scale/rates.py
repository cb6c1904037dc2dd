"""IBM Spectrum Scale on NSD servers of one's own: every file is spread over all of their disks."""

from __future__ import annotations

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
    )
