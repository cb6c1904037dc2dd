"""What a grid must reach, as the planner reads it from a spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from gridwright.errors import GridwrightError
from gridwright.plan.design import RequirementReading
from gridwright.plan.given import Given, describe_existing, read_given
from gridwright.spec.at_once import PeakFactor, peak_factor_of
from gridwright.spec.locate import problem_at
from gridwright.spec.model import GridSpec
from gridwright.spec.provider import PROVIDERS
from gridwright.spec.requirements import Requirements
from gridwright.units import format_bytes, format_rate


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
    return Needs(spec, spec.requirements, libraries, peak_factor_of(spec), read_given(spec))


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
        for words in describe_existing(needs.given)
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
