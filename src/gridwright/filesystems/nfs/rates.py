"""The rates of an NFS server in a prediction: those that the spec says it delivers to all nodes."""

from __future__ import annotations

from gridwright.filesystems.nfs.model import NfsFileSystem
from gridwright.filesystems.resources import OPERATIONS, Contribution, Operation, Resource, Route, Use
from gridwright.filesystems.site import Site


def contribute(name: str, filesystem: NfsFileSystem, site: Site) -> Contribution:
    """What the server is said to deliver, shared by all nodes, behind the network of each.

    No catalogue lists NFS servers, so without `delivers` nothing is known of its rates.
    """
    routes = _routes(name, filesystem, site)
    missing = [operation for operation in OPERATIONS if operation not in routes]
    return Contribution(
        routes,
        # It is one server: what is behind it may outlive it, and nobody can say so from here.
        outlives_server=False,
        unknown=f"nobody says what its server delivers ({' and '.join(missing)}; delivers: does)"
        if missing
        else "",
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
