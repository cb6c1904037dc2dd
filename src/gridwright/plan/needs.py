"""What a grid must reach, as the planner reads it from a spec, and what exists there already.

Every design keeps existing nodes and file systems; only the rest is searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gridwright.errors import GridwrightError
from gridwright.filesystems import kind_of
from gridwright.plan.design import RequirementReading
from gridwright.spec.filesystem import INSTANCE_STORE, FileSystem
from gridwright.spec.load import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.provider import PROVIDERS
from gridwright.spec.requirements import Requirements
from gridwright.spec.warnings import PeakFactor, peak_factor_of
from gridwright.units import format_bytes, format_rate

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


def _read_given(spec: GridSpec) -> Given:
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


def _describe_existing(given: Given) -> Iterator[str]:
    """A line for each existing part: its place in the spec and its type."""
    if given.instance or given.count:
        count = "" if given.count is None else f"{given.count} "
        yield f"{NODES}.{given.group}: {count}{given.instance or 'nodes, of a type to be found'}"
    for name, filesystem in given.filesystems.items():
        libraries = [library for library, home in given.homes.items() if home == name]
        for_whom = f", for {' and '.join(libraries)}" if libraries else ""
        yield f"filesystems.{name}: {kind_of(filesystem).describe(filesystem)}{for_whom}"


@dataclass(frozen=True, slots=True)
class Need:
    """What one library needs: bytes per second for each core (0: nothing required), and room in bytes.

    `growth_bytes` is what it needs beside that in 12 months.
    """

    bytes_per_s_per_core: float
    capacity_bytes: int
    growth_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Needs:
    """All requirements of a grid. Every rate is per physical core, in bytes per second."""

    spec: GridSpec
    requirements: Requirements
    libraries: Mapping[str, Need]
    peak_factor: PeakFactor
    given: Given = field(default_factory=Given)

    @property
    def cores(self) -> int:
        """Physical cores that are required; 1 where nobody says how many, in a plan for a deadline."""
        return self.requirements.cores or 1

    @property
    def region(self) -> str:
        """The region to plan for; empty where the spec names none."""
        return self.spec.region or ""

    def rate(self, libraries: Iterable[str]) -> float:
        """What one core needs of a resource that these libraries share; see PeakFactor.required."""
        return self.peak_factor.required([self.libraries[name].bytes_per_s_per_core for name in libraries])

    def capacity(self, libraries: Iterable[str]) -> int:
        """The room that these libraries need together, in bytes."""
        return sum(self.libraries[name].capacity_bytes for name in libraries)

    def capacity_later(self, libraries: Iterable[str]) -> int:
        """The room that these libraries need together in 12 months, in bytes."""
        return sum(
            need.capacity_bytes + need.growth_bytes for need in (self.libraries[name] for name in libraries)
        )

    @property
    def grows(self) -> bool:
        """Whether a library will need more room in 12 months."""
        return any(need.growth_bytes for need in self.libraries.values())


def read_needs(spec: GridSpec) -> Needs:
    """Read the requirements of a spec. Raises GridwrightError where there is nothing to plan for."""
    if spec.requirements is None:
        raise _refused(
            spec,
            ("requirements",),
            "the spec has no requirements: to plan for",
            "Add requirements: {cores: 64}, and requires: to the libraries",
        )
    if not (spec.is_cloud or spec.provider_kind.market.plans_services):
        clouds = [
            f"provider: {name}{' and a region' if kind.market.needs_region else ''}"
            for name, kind in PROVIDERS.kinds()
            if kind.is_cloud or kind.market.plans_services
        ]
        raise _refused(
            spec,
            ("provider",),
            f"provider {spec.provider} sells no nodes, and there is nothing to choose",
            f"Write {', or '.join(clouds)}",
        )
    libraries = {
        str(name): Need(
            float(library.requires.bytes_per_s) if library.requires else 0.0,
            int(library.capacity or 0),
            max(0, int(library.capacity_in_12_months or 0) - int(library.capacity or 0)),
        )
        for name, library in spec.libraries.items()
    }
    for name, library in spec.libraries.items():
        if library.layout and library.filesystem not in spec.filesystems:
            raise _refused(
                spec,
                ("libraries", str(name), "layout"),
                f"the plan chooses where library {name} lives, and its layout with that",
                "Write auto, or say which file system it lives on",
            )
    timed = spec.requirements.jobs is not None and spec.requirements.finish_within is not None
    if not timed and not any(need.bytes_per_s_per_core for need in libraries.values()):
        raise _refused(
            spec,
            ("libraries", "*", "requires"),
            "no library requires a rate: nothing tells a good grid from a bad one",
            "Add requires: to the libraries, such as 100 MB/s/core for data and 125 for work and util",
        )
    return Needs(spec, spec.requirements, libraries, peak_factor_of(spec), _read_given(spec))


def _refused(spec: GridSpec, path: tuple[str, ...], what: str, remedy: str) -> GridwrightError:
    """What is wrong with the spec as a whole, at the line that it is about, or at the file's first."""
    problem = problem_at(spec, path, what, remedy)
    return GridwrightError(replace(problem, where=problem.where or str(spec.file or "grid.yaml")))


def readings(needs: Needs) -> tuple[RequirementReading, ...]:
    """How the planner reads the requirements, for the user to check."""
    requirements = needs.requirements
    rates = [need.bytes_per_s_per_core for need in needs.libraries.values()]
    factor = needs.peak_factor
    found = [
        RequirementReading("cores", f"at least {requirements.cores} physical cores", "requirements.cores"),
        RequirementReading(
            "rates",
            "each library alone gets its own rate on every core, and lasting: bursts do not count",
            "libraries.*.requires",
        ),
        RequirementReading(
            "all libraries at once",
            f"{factor.value:g} of the sum of their rates, {format_rate(factor.value * sum(rates))} per core: "
            f"{factor.reason}",
            factor.source,
        ),
    ]
    if requirements.memory_per_core is not None:
        memory = f"at least {requirements.memory_per_core} for each physical core"
        found.append(RequirementReading("memory", memory, "requirements.memory_per_core"))
    found.append(
        RequirementReading(
            "data", "on a file system that all nodes share; work and util may be each node's own", "design"
        )
    )
    found += [
        RequirementReading("kept as it is", words, "the grid spec")
        for words in _describe_existing(needs.given)
    ]
    if needs.grows:
        now, later = needs.capacity(needs.libraries), needs.capacity_later(needs.libraries)
        found.append(
            RequirementReading(
                "growth",
                f"room for {format_bytes(now)} now and {format_bytes(later)} in 12 months, growing evenly; "
                "designs are ranked by the mean of what they cost in these months",
                "libraries.*.capacity_in_12_months",
            )
        )
    losses = requirements.availability
    survives = "may be lost" if losses.lose_data_with_server else "must outlive the loss of a server"
    found.append(RequirementReading("data", survives, "requirements.availability.lose_data_with_server"))
    survives = "may be lost" if losses.lose_work_with_node else "must outlive the loss of a node"
    found.append(
        RequirementReading("work and util", survives, "requirements.availability.lose_work_with_node")
    )
    return tuple(found)
