"""What will hurt in a valid grid spec: each finding with a stable name, the reason and a remedy.

What libraries require when they are busy at the same time is here, too: every command goes by that one
rule.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import combinations

from gridwright.errors import Finding
from gridwright.spec.crosscheck import ROLES
from gridwright.spec.filesystem import FILESYSTEMS
from gridwright.spec.findings import unsilenced
from gridwright.spec.model import GridSpec
from gridwright.units import Rate, format_rate


@dataclass(frozen=True, slots=True)
class PeakFactor:
    """The part of the sum of all libraries' rates that must be there at the same time, and who says so."""

    value: float
    source: str

    def required(self, rates: Collection[float]) -> float:
        """What must be there for libraries that share a resource, in the unit of their rates.

        The largest rate of a single library, or this part of their sum, whichever is larger.
        """
        return max(max(rates, default=0.0), self.value * sum(rates) if len(rates) > 1 else 0.0)

    @property
    def reason(self) -> str:
        """Why it is this part, in words."""
        return "all may peak together" if self.value >= 1 else "they do not all peak together"


@cache
def published_peak_factor() -> PeakFactor:
    """The factor of a spec that states none, from data/peak_factor.csv."""
    text = resources.files("gridwright.spec").joinpath("data/peak_factor.csv").read_text("utf-8")
    (row,) = csv.DictReader(text.splitlines())
    return PeakFactor(float(row["factor"]), row["source"])


def peak_factor_of(spec: GridSpec) -> PeakFactor:
    """The factor that a spec states, or the published one."""
    stated = spec.requirements.peak_factor if spec.requirements else None
    return published_peak_factor() if stated is None else PeakFactor(stated, "the grid spec")


def _required_at_once(spec: GridSpec, rates: Collection[float]) -> str:
    """What libraries with these rates per core need of disks they share, and why, in words."""
    factor = peak_factor_of(spec)
    required = format_rate(factor.required(rates), per_core=True)
    if factor.required(rates) > factor.value * sum(rates):
        return f"{required}, what the fastest of them requires alone"
    return f"{required}, {factor.value:.3g} of the sum of their rates: {factor.reason}"


# Beyond these a figure is more likely a slip of the unit than a choice.
_FAR_BELOW = 0.5
_FAR_ABOVE = 4.0


@dataclass(frozen=True, slots=True)
class Published:
    """Required rates that a paper states for a library, per physical core."""

    low: Rate
    high: Rate
    source: str
    published: str

    def __str__(self) -> str:
        span = f"{self.low}" if self.low == self.high else f"{self.low} to {self.high}"
        return f"{span} ({self.source}, {self.published})"


@cache
def published_requirements() -> dict[str, Published]:
    """Library name to what was published about it; from data/published_requirements.csv."""
    text = resources.files("gridwright.spec").joinpath("data/published_requirements.csv").read_text("utf-8")
    return {
        row["library"]: Published(
            Rate.parse(row["low"]), Rate.parse(row["high"]), row["source"], row["published"]
        )
        for row in csv.DictReader(text.splitlines())
    }


def warn(spec: GridSpec) -> list[Finding]:
    """All findings about a spec that it does not silence. Reads nothing but the spec."""
    return unsilenced(all_findings(spec), spec.silence)


def all_findings(spec: GridSpec) -> list[Finding]:
    """All findings about a spec, silenced ones too."""
    return [finding for check in _CHECKS for finding in check(spec)] + [*spec.provider_kind.findings(spec)]


def _shared_disks(spec: GridSpec) -> Iterator[Finding]:
    for name, filesystem in spec.filesystems.items():
        sharing = {
            role: library.requires
            for role, library in spec.libraries.items()
            if library.filesystem == name and library.requires is not None
        }
        if len(sharing) < 2 or not filesystem.is_node_local:
            continue
        rates = [float(rate.bytes_per_s) for rate in sharing.values()]
        required = format_rate(peak_factor_of(spec).required(rates), per_core=True)
        yield Finding(
            "warning",
            "shared-disks",
            f"libraries {_listed(list(sharing))} share file system {name}: when they are busy at the same "
            f"time, its disks must deliver {_required_at_once(spec, rates)}",
            f"Give the busiest library disks of its own, or prove that {name} delivers {required}",
        )


def _no_requirement(spec: GridSpec) -> Iterator[Finding]:
    for role, library in spec.libraries.items():
        if library.requires is None:
            published = published_requirements().get(role)
            hint = f"; published: {published}" if published else ""
            yield Finding(
                "warning",
                "no-requirement",
                f"library {role} requires no rate: it is measured, and nothing is proven",
                f"Add requires: to library {role}{hint}",
            )


def _unused_filesystem(spec: GridSpec) -> Iterator[Finding]:
    used = {library.filesystem for library in spec.libraries.values()}
    for name, each in spec.filesystems.items() if spec.is_placed else ():
        if name not in used and each.is_for_libraries:
            yield Finding(
                "warning",
                "unused-filesystem",
                f"no library lives on file system {name}: it is neither tested nor used",
                f"Put a library on {name}, or remove it",
            )


def _unusual_requirement(spec: GridSpec) -> Iterator[Finding]:
    for role, library in spec.libraries.items():
        published = published_requirements().get(role)
        if library.requires is None or published is None:
            continue
        rate = library.requires.bytes_per_s
        if _FAR_BELOW * published.low.bytes_per_s <= rate <= _FAR_ABOVE * published.high.bytes_per_s:
            continue
        below = rate < published.low.bytes_per_s
        effect = (
            "cores may wait for I/O in a grid that passes" if below else "no common hardware may reach it"
        )
        yield Finding(
            "warning",
            "unusual-requirement",
            f"library {role} requires {library.requires}, far {'below' if below else 'above'} the published "
            f"{published}: {effect}",
            "Check the unit; if the figure is meant, silence unusual-requirement with the reason",
        )


def _missing_library(spec: GridSpec) -> Iterator[Finding]:
    absent = [role for role in ROLES if role not in spec.libraries]
    if absent:
        yield Finding(
            "info",
            "missing-library",
            f"the grid has no library {_listed(absent)}: jobs that need it use a place that nobody tests",
            f"Add {_listed(absent)} under libraries",
        )


def _overlapping_filesystems(spec: GridSpec) -> Iterator[Finding]:
    for (one, first), (two, second) in combinations(spec.filesystems.items(), 2):
        if (
            first.path == second.path
            or first.path in second.path.parents
            or second.path in first.path.parents
        ):
            yield Finding(
                "warning",
                "overlapping-filesystems",
                f"file systems {one} and {two} share a directory: they may be the same disks, counted twice",
                "Keep one of the two, or give each the mount point of its own disks",
            )


def _of_kinds(spec: GridSpec) -> Iterator[Finding]:
    for name, filesystem in spec.filesystems.items():
        yield from FILESYSTEMS.get(filesystem.type).findings(name, filesystem, spec)


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


_CHECKS: tuple[Callable[[GridSpec], Iterator[Finding]], ...] = (
    _shared_disks,
    _no_requirement,
    _unusual_requirement,
    _missing_library,
    _unused_filesystem,
    _overlapping_filesystems,
    _of_kinds,
)
