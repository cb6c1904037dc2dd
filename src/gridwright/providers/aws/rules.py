"""Rules of a spec on AWS between fields, and what a region does not offer."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gridwright.catalog import Catalog, InstanceType
from gridwright.catalog.instances import efa_types
from gridwright.errors import GridwrightError, nearest
from gridwright.filesystems.site import Site
from gridwright.providers.aws.section import (
    MOST_GROUPS,
    NETWORK,
    ROLE_NAME,
    SMALLEST_SUBNET,
    SUBNETS,
    Aws,
    default_subnets,
)
from gridwright.providers.cloud import NamedType, first_free, named_types, written_range
from gridwright.providers.machines import CONTROLLER
from gridwright.spec.model import GridSpec
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show
from gridwright.yamltext.structure import KEY, Refused

# Rules between fields of a grid on AWS: its region and zone, subnets, keys, names of machines.
#
# Works on plain data: whatever has the wrong type is passed over here.

ROLES = ("login", "head", "compute", "storage")
"""Whose ports and security groups a spec can name, beside groups of machines."""


def network_problems(data: Mapping[str, Any], aws: Mapping[str, Any]) -> _Problems:
    """Problems of aws.vpc with other fields, and roles that the grid does not have."""
    machines = data.get("machines")
    roles = [*ROLES, *(str(name) for name in machines)] if isinstance(machines, Mapping) else list(ROLES)
    yield from _ingress(aws, roles)
    vpc = aws.get("vpc")
    if not isinstance(vpc, Mapping):
        return
    # A spec that is kept in a stack has the defaults in it.
    for field, default in (("network", NETWORK), ("subnets", {})):
        if aws.get(field, default) != default:
            yield (
                ("aws", field, KEY),
                FieldError(
                    f"the network is that of the VPC, and aws.{field} is for one that the grid makes",
                    "remove it; aws.vpc says where machines are",
                ),
            )
    yield from _places(vpc)
    yield from _groups(vpc, roles)


def _ingress(aws: Mapping[str, Any], roles: list[str]) -> _Problems:
    rules = aws.get("ingress")
    seen: dict[tuple[str, ...], int] = {}
    for number, rule in enumerate(rules if isinstance(rules, list) else ()):
        if not isinstance(rule, Mapping):
            continue
        path = ("aws", "ingress", str(number))
        for field in ("role", "source"):
            value = rule.get(field)
            named = isinstance(value, str) and (field == "role" or ROLE_NAME.fullmatch(value))
            if named and value not in roles:
                yield (*path, field), _no_role(str(value), roles)
        # AWS takes no rule twice.
        key = tuple(str(rule.get(field, "tcp")) for field in ("role", "source", "ports", "protocol"))
        if seen.setdefault(key, number) != number:
            yield path, FieldError("the same rule stands here twice", "remove one of them")


def _places(vpc: Mapping[str, Any]) -> _Problems:
    """Ranges of addresses lie within the VPC, and apart from each other."""
    written = vpc.get("networks")
    networks = (
        [found for each in written if (found := written_range(each))] if isinstance(written, list) else []
    )
    taken: dict[str, _Network] = {}
    for name in ("login", "storage", "compute"):
        place = vpc.get(name)
        addresses = written_range(place.get("addresses")) if isinstance(place, Mapping) else None
        if addresses is None:
            continue
        path = ("aws", "vpc", name, "addresses")
        if networks and not any(addresses.subnet_of(each) for each in networks):
            ranges = ", ".join(map(str, networks))
            yield (
                path,
                FieldError(
                    f"{addresses} is outside of the VPC's networks, {ranges}",
                    "write a part of one, or add the range of the VPC that it is in to networks",
                ),
            )
        other = next((each for each, range_ in taken.items() if addresses.overlaps(range_)), None)
        if other is not None:
            yield (
                path,
                FieldError(
                    f"{addresses} overlaps the addresses of {other}, {taken[other]}",
                    "give each addresses of its own, in the same subnet or another one",
                ),
            )
        taken[name] = addresses


def _groups(vpc: Mapping[str, Any], roles: list[str]) -> _Problems:
    """Security groups of the site are of roles that there are, and fit on an interface."""
    given = vpc.get("security_groups")
    for name, groups in given.items() if isinstance(given, Mapping) else ():
        path = ("aws", "vpc", "security_groups", str(name))
        if name not in roles:
            yield (*path, KEY), _no_role(str(name), roles)
        if isinstance(groups, list) and len(groups) > MOST_GROUPS:
            yield (
                path,
                FieldError(
                    f"{len(groups)} security groups, and {MOST_GROUPS} fit beside the grid's own",
                    "name fewer, or put their rules together",
                ),
            )
        if isinstance(groups, list) and len(set(map(str, groups))) < len(groups):
            yield path, FieldError("a security group is named twice", "name each once")


def _no_role(name: str, roles: list[str]) -> FieldError:
    near = nearest(name, roles)
    hint = f"did you mean {near}? " if near else ""
    return FieldError(f"the grid has no machines of role {show(name)}", f"{hint}roles: {', '.join(roles)}")


LOGIN_GROUP = "login"
"""The login node is called login1, as the first node of a group of this name would be."""

_Network = ipaddress.IPv4Network
_Problems = Iterator[Refused]


def aws_problems(data: Mapping[str, Any]) -> _Problems:
    """Problems between fields of a grid on AWS: a path and what is wrong there."""
    aws = data.get("aws")
    if not isinstance(aws, Mapping):
        return
    yield from _of_the_region(data, aws)
    yield from network_problems(data, aws)
    if "vpc" not in aws:
        yield from _subnets(aws)
    yield from _names(data)
    yield from _powered(data, aws)
    yield from _secrets(data)


def _secrets(data: Mapping[str, Any]) -> _Problems:
    """Secrets that machines read are in their region: they ask its own service."""
    users, region = data.get("users"), data.get("region")
    if not isinstance(users, Mapping):
        return
    for kind, section in (("ldap", "bind"), ("ad", "join")):
        inner = users.get(kind)
        held = inner.get(section) if isinstance(inner, Mapping) else None
        secret = held.get("secret") if isinstance(held, Mapping) else None
        parts = secret.split(":") if isinstance(secret, str) else []
        if len(parts) > 4 and isinstance(region, str) and parts[3] != region:
            yield (
                ("users", kind, section, "secret"),
                FieldError(
                    f"the secret is in {parts[3]}, and the grid in {region}",
                    f"replicate it to {region}, and write the ARN that it has there",
                ),
            )


def _of_the_region(data: Mapping[str, Any], aws: Mapping[str, Any]) -> _Problems:
    """Zone, key, certificate and topic are in the region of the grid."""
    region, zone = data.get("region"), aws.get("zone")
    if not isinstance(region, str) or not region:
        return
    if isinstance(zone, str) and len(zone) > 1 and zone[:-1] != region and zone[-2:-1].isdigit():
        yield (
            ("aws", "zone"),
            FieldError(f"{show(zone)} is no zone of the region {region}", f"write {region}{zone[-1]}"),
        )
    alarms = aws.get("alarms")
    topic = alarms.get("topic") if isinstance(alarms, Mapping) else None
    # CloudWatch sends to topics of its own region alone (CloudWatch API Reference, PutMetricAlarm).
    for path, value, what in (
        (("kms_key",), aws.get("kms_key"), "key"),
        (("certificate",), aws.get("certificate"), "certificate"),
        (("alarms", "topic"), topic, "topic"),
    ):
        parts = value.split(":") if isinstance(value, str) else []
        if len(parts) > 4 and parts[3] != region:
            yield (
                ("aws", *path),
                FieldError(
                    f"the {what} is in {parts[3] or 'no region'}, and the grid in {region}",
                    f"write the ARN of a {what} in {region}",
                ),
            )


def _subnets(aws: Mapping[str, Any]) -> _Problems:
    """Subnets are parts of the network, and apart from each other."""
    network = written_range(aws.get("network", NETWORK))
    given = aws.get("subnets")
    # The models tell of a network of another size, which has no three subnets.
    if network is None or not 16 <= network.prefixlen <= 24 or not isinstance(given, Mapping):
        return
    named = {name: found for name in SUBNETS if (found := written_range(given.get(name))) is not None}
    taken = {**default_subnets(network), **named}
    for name, subnet in named.items():
        others = {other: each for other, each in taken.items() if other != name}
        problem = _subnet_problem(name, subnet, network, others, named)
        if problem is None:
            continue
        near = _fitting(name, subnet, network, others.values())
        remedy = f"write {near}" if near else "write a larger aws.network, or smaller subnets"
        taken[name] = near or subnet
        yield ("aws", "subnets", name), FieldError(problem, remedy)


def _subnet_problem(
    name: str,
    subnet: _Network,
    network: _Network,
    others: Mapping[str, _Network],
    named: Mapping[str, _Network],
) -> str | None:
    if not subnet.subnet_of(network):
        return f"{subnet} is outside the network, {network}"
    if subnet.prefixlen > SMALLEST_SUBNET:
        return f"{subnet} is smaller than a subnet of AWS can be"
    for other, each in others.items():
        # Of two that are named, the later one is reported.
        earlier = other not in named or SUBNETS.index(other) < SUBNETS.index(name)
        if earlier and subnet.overlaps(each):
            return f"{subnet} overlaps subnet {other}, {each}"
    return None


def _fitting(name: str, subnet: _Network, network: _Network, others: Any) -> _Network | None:  # noqa: ANN401
    """The nearest that fits: the default, else the first free part of the network of that size."""
    used = [each for each in others if each.subnet_of(network)]
    default = default_subnets(network)[name]
    if not any(default.overlaps(each) for each in used):
        return default
    size = min(max(subnet.prefixlen, network.prefixlen + 1), SMALLEST_SUBNET)
    return first_free(network, used, size)


def _powered(data: Mapping[str, Any], aws: Mapping[str, Any]) -> _Problems:
    """What nodes that are powered, or bought as spot instances, go with."""
    groups = data.get("nodes")
    for name, group in groups.items() if isinstance(groups, Mapping) else ():
        if not isinstance(group, Mapping):
            continue
        if group.get("min") is not None and aws.get("replace_nodes") is False:
            yield (
                ("nodes", name, "min"),
                FieldError(
                    "plain instances, which nothing replaces, are always on",
                    "remove aws.replace_nodes: false, or min",
                ),
            )
        if group.get("spot") not in (None, False) and group.get("min") != 0:
            yield (
                ("nodes", name, "spot"),
                FieldError(
                    "a spot instance that is taken away cannot be always on",
                    "add min: 0: nodes start when jobs wait, and jobs of one that goes start again elsewhere",
                ),
            )


def _names(data: Mapping[str, Any]) -> _Problems:
    """Groups of nodes whose nodes would be called as other machines are."""
    filesystems = data.get("filesystems")
    taken = {CONTROLLER, LOGIN_GROUP}
    if isinstance(filesystems, Mapping):
        taken |= {f"{name}-{role}" for name in filesystems for role in ("oss", "mds", "mgs")}
    for section, example in (("nodes", "compute"), ("machines", "meta")):
        groups = data.get(section)
        for name in groups if isinstance(groups, Mapping) else ():
            if name in taken:
                yield (
                    (section, name, KEY),
                    FieldError(
                        f"{section} of a group {name} would be called as other machines of the grid",
                        f"give the group another name, such as {example}",
                    ),
                )


# Finds instance types in a spec that its region on AWS lacks, or that lack its network adapter.

_FAMILY = re.compile(r"(?P<kind>[a-z]+?)(?P<generation>[0-9]+)(?P<extras>[a-z0-9-]*)")
_PROCESSORS = frozenset("iag")
"""Letters of a family that name who made the processor: another maker does as well."""


def _named_types(spec: GridSpec) -> Iterator[NamedType]:
    """Every instance type of the spec: nodes, servers, and what section aws has."""
    yield from named_types(spec)
    aws = spec.section(Aws)
    if aws is not None:
        yield NamedType(("aws", "login", "instance"), "the login node", aws.login.instance)
        if spec.scheduler.needs_head_node:
            yield NamedType(("aws", "head", "instance"), "the head node", aws.head.instance)


def report_not_offered(site: Site) -> None:
    """Note each instance type that its region does not sell, or that lacks the adapter asked for."""
    for each in _named_types(site.spec):
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


def _known(site: Site, named: NamedType) -> InstanceType | None:
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
