"""Nodes of a grid that are alike: how many, what each has, and the routes from them to the libraries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gridwright.catalog import InstanceType
from gridwright.filesystems.resources import Contribution, Operation, Route


@dataclass(frozen=True, slots=True)
class AlikeNodes:
    """Nodes that run jobs, all alike. Memory in bytes; None where nobody says so.

    `contributions` has what each file system brings to these nodes, `routes` the way to each library; in it
    no library of which nothing is known. Resources of scope grid are the same for every group; where a grid
    has several groups, names of those of scope node begin with the group's.
    """

    name: str
    nodes: int
    cores_per_node: int
    memory_bytes_per_node: int | None
    instance: InstanceType | None
    contributions: Mapping[str, Contribution]
    routes: Mapping[str, Mapping[Operation, Route]]

    @property
    def cores(self) -> int:
        """Physical cores of all its nodes."""
        return self.nodes * self.cores_per_node

    def streams(self, per_node: int | None) -> int:
        """Streams on each node: as many as are asked for, else one per core."""
        return per_node or self.cores_per_node


def of_group(group: str, route: Route) -> Route:
    """The route with the names of what each node has of its own told apart from those of other groups."""
    uses = (
        replace(
            use,
            resource=replace(
                use.resource, name=f"{group}.{use.resource.name}", what=f"{use.resource.what}, nodes {group}"
            ),
        )
        if use.resource.scope == "node"
        else use
        for use in route.uses
    )
    return replace(route, uses=tuple(uses))
