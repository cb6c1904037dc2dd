"""The rates of an NFS server in a prediction: those that the spec says it delivers to all nodes."""

from __future__ import annotations

from gridwright.filesystems.nfs.model import NfsFileSystem
from gridwright.filesystems.resources import OPERATIONS, Contribution, Operation, Resource, Route, Use
from gridwright.filesystems.service_cost import stated_costs
from gridwright.filesystems.site import Site


def contribute(name: str, filesystem: NfsFileSystem, site: Site) -> Contribution:
    """What the server is said to deliver, shared by all nodes, behind the network of each.

    No catalogue lists NFS servers, so without `delivers`, an offer or limits nothing is known of its rates.
    """
    if filesystem.has_service_figures:
        from gridwright.filesystems.service_rates import service_contribution

        _check_version(name, filesystem, site)
        connections = filesystem.connections
        return service_contribution(name, filesystem, site, "NFS", protocol="nfs", connections=connections)
    routes = _routes(name, filesystem, site)
    missing = [operation for operation in OPERATIONS if operation not in routes]
    return Contribution(
        routes,
        stated_costs(f"NFS server {filesystem.server}", filesystem),
        capacity_bytes=None if filesystem.capacity is None else int(filesystem.capacity),
        # It is one server: what is behind it may outlive it, and nobody can say so from here.
        outlives_server=False,
        unknown=f"nobody says what its server delivers ({' and '.join(missing)}; limits: says it)"
        if missing
        else "",
    )


def _check_version(name: str, filesystem: NfsFileSystem, site: Site) -> None:
    """Note a version that the offer does not speak: the mount would be refused."""
    offer = site.catalog.offers.get(filesystem.offer or "")
    newest = offer.figure("version_max") if offer else None
    if offer is not None and newest is not None and float(filesystem.version) > newest:
        site.report(
            ("filesystems", name, "version"),
            f"{offer.name} speaks NFS up to {newest:g}, and this is {filesystem.version}: mounts would fail",
            f"write version: {newest:g}",
        )


def _routes(name: str, filesystem: NfsFileSystem, site: Site) -> dict[Operation, Route]:
    delivers = filesystem.delivers
    rates = {"write": delivers.write, "read": delivers.read} if delivers else {}
    routes: dict[Operation, Route] = {}
    for operation in OPERATIONS:
        if rate := rates.get(operation):
            what = f"NFS server {filesystem.server} ({rate} {operation}, as the spec says)"
            server = Resource(f"{name}.server-{operation}", what, "grid", rate.bytes_per_s, "the grid spec")
            routes[operation] = Route((*site.nodes.network(operation), Use(server)))
    return routes
