"""Existing nodes and file systems of a spec: every design keeps them, and only the rest is searched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.spec.filesystem import FileSystem
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.storage import INSTANCE_STORE

NODES = "nodes"
"""The part of a spec that its nodes are."""


@dataclass(frozen=True, slots=True)
class Given:
    """Existing nodes and file systems, which every design keeps.

    `group` is what the group of nodes is called; `instance` and `count` are None where they are searched.
    `homes` are libraries that name the file system they live on. The others may be placed anywhere, on
    kept file systems, too.
    """

    group: str = "compute"
    instance: str | None = None
    count: int | None = None
    filesystems: Mapping[str, FileSystem] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict)

    @property
    def parts(self) -> list[str]:
        """Existing parts, by their place in the spec: `nodes.compute`, `filesystems.shared`."""
        nodes = [f"{NODES}.{self.group}"] if self.instance or self.count else []
        return [*nodes, *(f"filesystems.{name}" for name in self.filesystems)]

    def without(self, part: str) -> Given:
        """The same with one of its `parts` to be searched."""
        sort, _, name = part.partition(".")
        if sort == NODES:
            return replace(self, instance=None, count=None)
        return replace(
            self,
            filesystems={each: filesystem for each, filesystem in self.filesystems.items() if each != name},
            homes={library: home for library, home in self.homes.items() if home != name},
        )

    @property
    def is_on_instance_stores(self) -> bool:
        """Whether the nodes' own disks belong to a kept file system."""
        return any(
            filesystem.node_disks is not None and filesystem.node_disks.type == INSTANCE_STORE
            for filesystem in self.filesystems.values()
        )

    @property
    def node_volumes(self) -> int:
        """Volumes at each node that belong to kept file systems."""
        disks = [
            disk for filesystem in self.filesystems.values() if (disk := filesystem.node_disks) is not None
        ]
        return sum(each.count or 1 for each in disks if each.type != INSTANCE_STORE)

    @property
    def servers(self) -> int:
        """Machines of the grid that serve kept file systems."""
        built = [filesystem for filesystem in self.filesystems.values() if filesystem.is_built]
        return sum(group.count for filesystem in built for group in filesystem.server_groups.values())

    @property
    def is_served(self) -> bool:
        """Whether machines of the grid serve kept file systems."""
        return any(filesystem.is_built for filesystem in self.filesystems.values())

    def document(self) -> dict[str, Any]:
        """The kept file systems as the spec has them, by name."""
        return {
            name: filesystem.model_dump(mode="json", exclude_unset=True, exclude_none=True)
            for name, filesystem in self.filesystems.items()
        }


def read_given(spec: GridSpec) -> Given:
    """What a spec has of its grid.

    Raises GridwrightError for a second group of nodes, which no prediction knows.
    """
    if "nodes" not in spec.model_fields_set:
        return Given(filesystems=dict(spec.filesystems), homes=_homes(spec))
    groups = list(spec.nodes.items())
    if len(groups) > 1:
        raise GridwrightError(
            problem_at(
                spec,
                ("nodes", groups[1][0]),
                "a plan knows one group of nodes that run jobs, and this is a second one",
                "keep one group; or plan each in a spec of its own",
            )
        )
    ((name, group),) = groups
    count = group.count if "count" in group.model_fields_set else None
    return Given(str(name), group.instance, count, dict(spec.filesystems), _homes(spec))


def _homes(spec: GridSpec) -> dict[str, str]:
    """The file system of each library that names one."""
    return {
        str(name): library.filesystem
        for name, library in spec.libraries.items()
        if library.filesystem and name not in spec.unplaced_libraries
    }


def describe_existing(given: Given) -> Iterator[str]:
    """A line for each existing part: its place in the spec and its type."""
    if given.instance or given.count:
        count = "" if given.count is None else f"{given.count} "
        yield f"{NODES}.{given.group}: {count}{given.instance or 'nodes, of a type to be found'}"
    for name, filesystem in given.filesystems.items():
        libraries = [library for library, home in given.homes.items() if home == name]
        for_whom = f", for {' and '.join(libraries)}" if libraries else ""
        yield f"filesystems.{name}: {kind_of(filesystem).describe(filesystem)}{for_whom}"
