"""Finds instance types in a spec that its region on AWS lacks, or that lack its network adapter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gridwright.catalog import Catalog, InstanceType
from gridwright.catalog.efa import efa_types
from gridwright.errors import GridwrightError
from gridwright.filesystems.site import Site
from gridwright.providers.aws.section import Aws

_FAMILY = re.compile(r"(?P<kind>[a-z]+?)(?P<generation>[0-9]+)(?P<extras>[a-z0-9-]*)")
_PROCESSORS = frozenset("iag")
"""Letters of a family that name who made the processor: another maker does as well."""


class Named(NamedTuple):
    """An instance type that a spec names: where, for what, and its name."""

    path: tuple[str, ...]
    what: str
    name: str


def named_types(site: Site) -> Iterator[Named]:
    """Every instance type of the spec: nodes, servers, and what section aws has."""
    spec = site.spec
    for name, group in spec.nodes.items():
        if group.instance is not None:
            yield Named(("nodes", name, "instance"), f"nodes {name}", group.instance)
    for name, filesystem in spec.filesystems.items():
        for role, servers in filesystem.server_groups.items():
            yield Named(
                ("filesystems", name, role, "instance"), f"{role.upper()} of {name}", servers.instance
            )
    for name, machines in spec.machines.items():
        if machines.instance is not None:
            yield Named(("machines", name, "instance"), f"machines {name}", machines.instance)
    aws = spec.section(Aws)
    if aws is not None:
        yield Named(("aws", "login", "instance"), "the login node", aws.login.instance)
        if spec.scheduler.needs_head_node:
            yield Named(("aws", "head", "instance"), "the head node", aws.head.instance)


def report_not_offered(site: Site) -> None:
    """Note each instance type that its region does not sell, or that lacks the adapter asked for."""
    for each in named_types(site):
        instance = _known(site, each)
        if instance is None:
            continue
        if is_elsewhere(site.catalog, instance, site.region):
            site.report(
                each.path,
                f"{each.name} is not offered in {site.region}",
                _instead(
                    site.catalog,
                    instance,
                    lambda one: site.catalog.prices.price(one, site.region) is not None,
                    f"see gridwright catalog list --region {site.region}",
                ),
            )
        elif each.path[0] == "nodes" and _lacks_adapter(site, instance):
            site.report(
                ("aws", "efa"),
                f"{each.name} of {each.what} has no Elastic Fabric Adapter",
                "write false; or give the nodes a type that has one: "
                + _instead(
                    site.catalog,
                    instance,
                    lambda one: (
                        one.name in efa_types() and site.catalog.prices.price(one, site.region) is not None
                    ),
                    "none is known that is like it",
                ),
            )


def is_elsewhere(catalog: Catalog, instance: InstanceType, region: str) -> bool:
    """Whether a type is sold in other regions, and not in this one.

    Nothing is said of a region that no packaged list has, nor of a type that no region has a price for.
    """
    regions = catalog.prices.aws_listed()
    if region not in regions or catalog.prices.price(instance, region) is not None:
        return False
    return any(catalog.prices.price(instance, each) is not None for each in regions)


def nearest_type(
    catalog: Catalog, instance: InstanceType, suits: Callable[[InstanceType], bool]
) -> str | None:
    """The type nearest to one: of its size and family, else of the newest family like it."""
    return next(iter(nearest_types(catalog, instance, suits)), None)


def nearest_types(
    catalog: Catalog, instance: InstanceType, suits: Callable[[InstanceType], bool]
) -> list[str]:
    """All types that suit, the nearest to one first; see `nearest_type`."""
    found = [
        (_distance(instance, each), each.name)
        for each in catalog.instances.values()
        if each.provider == instance.provider
        and each.architecture == instance.architecture
        and not each.burstable_cpu
        and _kind(each) == _kind(instance)
        and suits(each)
    ]
    return [name for _, name in sorted(found)]


def _known(site: Site, named: Named) -> InstanceType | None:
    """The type in the catalogue; that it is not there is noted for what only section aws names."""
    if named.path[0] in ("aws", "machines"):
        return site.instance(named.name, *named.path)
    try:
        return site.catalog.instance(named.name, site.spec.provider)
    except GridwrightError:
        return None


def _lacks_adapter(site: Site, instance: InstanceType) -> bool:
    aws = site.spec.section(Aws)
    return aws is not None and aws.efa and instance.name not in efa_types()


def _instead(
    catalog: Catalog, instance: InstanceType, suits: Callable[[InstanceType], bool], otherwise: str
) -> str:
    near = nearest_type(catalog, instance, suits)
    return f"the nearest is {near}" if near else otherwise


def _kind(instance: InstanceType) -> str:
    found = _FAMILY.fullmatch(instance.family)
    return found["kind"] if found else instance.family


def _distance(desired: InstanceType, other: InstanceType) -> tuple[float, ...]:
    """How far a type is from the one wanted, the weightiest first.

    Bare metal for virtual machines comes last; then what the letters of the family promise (n: network,
    d: disks), the size, the family itself, and of others the newest.
    """
    generation, extras = _promises(other)
    _, promised = _promises(desired)
    return (
        other.bare_metal != desired.bare_metal,
        len(promised - extras),
        abs(other.cores - desired.cores),
        other.family != desired.family,
        -generation,
        len(extras - promised),
    )


def _promises(instance: InstanceType) -> tuple[int, frozenset[str]]:
    found = _FAMILY.fullmatch(instance.family)
    if found is None:
        return 0, frozenset()
    return int(found["generation"]), frozenset(found["extras"]) - _PROCESSORS
