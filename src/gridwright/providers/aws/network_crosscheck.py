"""Rules between fields of a grid's network on AWS: a VPC of the site's, and roles that rules name.

Works on plain data: whatever has the wrong type is passed over here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.errors import nearest
from gridwright.providers.aws.section_network import MOST_GROUPS, NETWORK, ROLE_NAME
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show
from gridwright.yamltext.together import KEY, Refused

ROLES = ("login", "head", "compute", "storage")
"""Whose ports and security groups a spec can name, beside groups of machines."""

_Network = ipaddress.IPv4Network
_Problems = Iterator[Refused]


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
    networks = [found for each in written if (found := _parsed(each))] if isinstance(written, list) else []
    taken: dict[str, _Network] = {}
    for name in ("login", "storage", "compute"):
        place = vpc.get(name)
        addresses = _parsed(place.get("addresses")) if isinstance(place, Mapping) else None
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


def _parsed(value: Any) -> _Network | None:  # noqa: ANN401
    """A range that is written as it should be; the models tell of others."""
    try:
        return _Network(value) if isinstance(value, str) else None
    except ValueError:
        return None
