"""Which instance types can be nodes, and which requirement each of the others fails."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gridwright.catalog import Catalog, InstanceType
from gridwright.errors import GridwrightError, nearest
from gridwright.plan.design import Fit
from gridwright.plan.needs import Needs
from gridwright.spec.bounds import NodeBounds
from gridwright.spec.locate import problem_at
from gridwright.units import format_bytes


@dataclass(frozen=True, slots=True)
class Filter:
    """One requirement of a node: what a type provides, what is required, whether it fits.

    `score` orders types that fail by how near they come; None where nearness means nothing. `field` is
    where the requirement stands in the spec.
    """

    requirement: str
    required: str
    provided: Callable[[InstanceType], str]
    fits: Callable[[InstanceType], bool]
    score: Callable[[InstanceType], float] | None = None
    field: str = ""

    def fit(self, instance: InstanceType) -> Fit:
        """The row of an explanation."""
        fits = self.fits(instance)
        return Fit(self.requirement, self.provided(instance), self.required, "yes" if fits else "no")


def check_family_names(needs: Needs, catalog: Catalog) -> None:
    """Raise GridwrightError for families that the provider does not have, each with the nearest."""
    spec = needs.spec
    families = {one.family for one in catalog.instances.values() if one.provider == spec.provider}
    problems = []
    for field, names in (
        ("allow", needs.requirements.families.allow),
        ("forbid", needs.requirements.families.forbid),
    ):
        for name in names:
            if name not in families:
                near = nearest(name, families)
                hint = f"did you mean {near}? " if near else ""
                path = ("requirements", "families", field)
                what = f"there is no family {name!r} of {spec.provider}"
                problems.append(problem_at(spec, path, what, f"{hint}gridwright catalog list shows all"))
    for name in set(needs.requirements.families.allow) & set(needs.requirements.families.forbid):
        what = f"family {name} is allowed and forbidden"
        problems.append(problem_at(spec, ("requirements", "families", "forbid"), what, "keep one of the two"))
    if problems:
        raise GridwrightError(*problems)


def node_filters(needs: Needs) -> Iterator[Filter]:
    """What a type must have to be a node at all, before rates and costs."""
    requirements, given = needs.requirements, needs.given.instance
    if given:
        yield Filter("the type that is kept", given, lambda one: one.name, lambda one: one.name == given)
    if requirements.architecture:
        yield Filter(
            "architecture",
            requirements.architecture,
            lambda one: one.architecture,
            lambda one: one.architecture == requirements.architecture,
        )
    allow, forbid = requirements.families.allow, requirements.families.forbid
    if allow:
        yield Filter(
            "allowed families", ", ".join(allow), lambda one: one.family, lambda one: one.family in allow
        )
    if forbid:
        yield Filter(
            "forbidden families",
            f"not {', '.join(forbid)}",
            lambda one: one.family,
            lambda one: one.family not in forbid,
        )
    # A type that the spec names is wanted, whatever it has beside.
    if not allow and not given:
        yield Filter(
            "accelerators",
            "none (or the family named under families.allow)",
            lambda one: str(one.accelerators),
            lambda one: not one.accelerators,
        )
    if not allow and not given:
        yield Filter(
            "processor",
            "at full speed for good (or its family under families.allow)",
            lambda one: (
                "slower when its credits are spent" if one.burstable_cpu else "at full speed for good"
            ),
            lambda one: not one.burstable_cpu,
        )
    yield from _size_bounds(requirements.nodes)
    if requirements.memory_per_core is not None:
        memory = requirements.memory_per_core
        yield Filter(
            "memory per core",
            str(memory),
            lambda one: f"{math.floor(one.memory_bytes_per_core / 2**30 * 100) / 100:g} GiB",
            lambda one: one.memory_bytes_per_core >= memory,
            lambda one: one.memory_bytes_per_core,
            field="requirements.memory_per_core",
        )


def _size_bounds(bounds: NodeBounds) -> Iterator[Filter]:
    """The bounds on cores and memory of each node; those on the number of nodes go by the whole grid."""
    cores, memory = bounds.cores, bounds.memory
    yield from _between("cores", cores.least, cores.most, lambda one: one.cores, str)
    yield from _between("memory", memory.least, memory.most, lambda one: one.memory_bytes, format_bytes)


def _between(
    name: str,
    least: int | None,
    most: int | None,
    value: Callable[[InstanceType], int],
    words: Callable[[int], str],
) -> Iterator[Filter]:
    field = f"requirements.nodes.{name}"
    if least is not None:
        yield Filter(
            f"{name} of a node",
            f"at least {words(least)}",
            lambda one: words(value(one)),
            lambda one: value(one) >= least,
            value,
            field=f"{field}.least",
        )
    if most is not None:
        yield Filter(
            f"{name} of a node",
            f"at most {words(most)}",
            lambda one: words(value(one)),
            lambda one: value(one) <= most,
            lambda one: -value(one),
            field=f"{field}.most",
        )
