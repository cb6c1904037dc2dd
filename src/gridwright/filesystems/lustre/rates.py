"""Lustre on servers of one's own: object storage servers with targets on disks or volumes."""

from __future__ import annotations

from gridwright.filesystems.lustre.model import LustreFileSystem
from gridwright.filesystems.resources import OPERATIONS, Contribution, Operation, Route, striped
from gridwright.filesystems.servers import ServerGroup, server_costs, server_group
from gridwright.filesystems.service_cost import stated_costs
from gridwright.filesystems.service_rates import service_contribution
from gridwright.filesystems.site import Site


def contribute(name: str, filesystem: LustreFileSystem, site: Site) -> Contribution:
    """What the OSS deliver to all nodes. Problems with the spec are noted at the site."""
    if filesystem.oss is None and filesystem.has_service_figures:
        return service_contribution(name, filesystem, site, "Lustre", protocol="lustre")
    if filesystem.oss is None:
        return Contribution(
            {},
            stated_costs("Lustre", filesystem),
            capacity_bytes=None if filesystem.capacity is None else int(filesystem.capacity),
            unknown="nothing is known of its servers (oss: describes them, limits: what they deliver)",
        )
    group = server_group("lustre", name, "oss", filesystem.oss, site)
    costs = [*server_costs(name, "oss", filesystem.oss, site)]
    for role in ("mds", "mgs"):
        if servers := getattr(filesystem, role):
            costs += server_costs(name, role, servers, site)
    if isinstance(group, str):
        return Contribution({}, tuple(costs), unknown=group)
    return Contribution(
        {operation: _route(filesystem, group, operation, site) for operation in OPERATIONS},
        tuple(costs),
        capacity_bytes=group.capacity_bytes,
        outlives_server=group.disks.are_volumes,
        targets=group.targets,
        target_bytes_per_s={operation: group.target_bytes_per_s(operation) for operation in OPERATIONS},
    )


def _route(filesystem: LustreFileSystem, group: ServerGroup, operation: Operation, site: Site) -> Route:
    uses = (*site.nodes.network(operation), *group.uses(operation))
    return striped(uses, filesystem.stripe_count, group.targets, group.target_bytes_per_s(operation))
