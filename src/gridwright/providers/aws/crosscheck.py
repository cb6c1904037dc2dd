"""Rules between fields of a grid on AWS: its region and zone, subnets, keys, names of machines.

Works on plain data: whatever has the wrong type is passed over here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.providers.aws.network_crosscheck import network_problems
from gridwright.providers.aws.section import SUBNETS, default_subnets
from gridwright.providers.aws.section_network import NETWORK, SMALLEST_SUBNET
from gridwright.providers.controller import CONTROLLER
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show
from gridwright.yamltext.together import KEY, Refused

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
    network = _parsed(aws.get("network", NETWORK))
    given = aws.get("subnets")
    # The models tell of a network of another size, which has no three subnets.
    if network is None or not 16 <= network.prefixlen <= 24 or not isinstance(given, Mapping):
        return
    named = {name: found for name in SUBNETS if (found := _parsed(given.get(name))) is not None}
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
    return next(
        (
            each
            for each in network.subnets(new_prefix=size)
            if not any(each.overlaps(other) for other in used)
        ),
        None,
    )


def _parsed(value: Any) -> _Network | None:  # noqa: ANN401
    """A range that is written as it should be; the models tell of others."""
    try:
        return ipaddress.IPv4Network(value) if isinstance(value, str) else None
    except ValueError:
        return None


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
