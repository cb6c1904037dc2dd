"""Rules between fields of a grid on OCI: its region, subnets, and what both a VCN and a network would say.

Works on plain data: whatever has the wrong type is passed over here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from gridwright.providers.controller import CONTROLLER
from gridwright.providers.oci.platform_images import has_platform_image
from gridwright.providers.oci.section import (
    LARGEST_NETWORK,
    NETWORK,
    SERVICES,
    SMALLEST_NETWORK,
    SUBNETS,
    default_subnets,
)
from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.together import KEY, Refused

LOGIN_GROUP = "login"
"""The bastion host is called login1, as the first node of a group of this name would be."""
SMALLEST_SUBNET = 30
"""Longest prefix of a subnet (OCI, VCNs and subnets)."""

_Network = ipaddress.IPv4Network
_Problems = Iterator[Refused]


def oci_problems(data: Mapping[str, Any]) -> _Problems:
    """Problems between fields of a grid on OCI: a path and what is wrong there."""
    oci = data.get("oci")
    if not isinstance(oci, Mapping):
        return
    if not data.get("region"):
        yield (
            ("oci",),
            FieldError(
                "the spec says how the grid lies on OCI, and not in which region",
                "add region: us-ashburn-1, or another of gridwright catalog list --provider oci",
            ),
        )
    if oci.get("vcn") is not None:
        for name in ("network", "subnets"):
            if name in oci:
                yield (
                    ("oci", name),
                    FieldError(
                        f"{name} is of a VCN that the grid makes, and vcn names one", f"remove {name}"
                    ),
                )
    else:
        yield from _subnets(oci)
    if oci.get("state") is not None and oci.get("deploy", "resource-manager") == "resource-manager":
        yield (
            ("oci", "state"),
            FieldError(
                "Resource Manager keeps the state itself, and state names a directory for it",
                "remove state, or write deploy: tofu",
            ),
        )
    distribution = oci.get("distribution", "")
    if isinstance(distribution, str) and oci.get("image") is None and not has_platform_image(distribution):
        yield (
            ("oci", "distribution"),
            FieldError(
                f"OCI has no platform image of {distribution} that is known here",
                "add image: with the OCID of your own, or write ubuntu-24.04 or ol-9",
            ),
        )
    for section in ("nodes", "machines"):
        groups = data.get(section)
        for name in groups if isinstance(groups, Mapping) else ():
            if name in (CONTROLLER, LOGIN_GROUP):
                yield (
                    (section, name, KEY),
                    FieldError(f"{name} is what the grid's own machine is called", "choose another name"),
                )


def _subnets(oci: Mapping[str, Any]) -> _Problems:
    """Subnets are parts of the network, and apart from each other."""
    network = _parsed(oci.get("network", NETWORK))
    given = oci.get("subnets")
    # The models tell of a network of another size, which has no three subnets.
    if network is None or not LARGEST_NETWORK <= network.prefixlen <= SMALLEST_NETWORK:
        return
    if not isinstance(given, Mapping):
        return
    named = {name: found for name in (*SUBNETS, SERVICES) if (found := _parsed(given.get(name))) is not None}
    taken = {**default_subnets(network), **named}
    for name, subnet in named.items():
        others = {other: each for other, each in taken.items() if other != name}
        what = _problem(subnet, network, others)
        if what is not None:
            near = _fitting(subnet, network, others.values())
            remedy = f"write {near}" if near else "write a larger oci.network, or smaller subnets"
            taken[name] = near or subnet
            yield ("oci", "subnets", name), FieldError(what, remedy)


def _problem(subnet: _Network, network: _Network, others: Mapping[str, _Network]) -> str | None:
    if not subnet.subnet_of(network):
        return f"{subnet} is outside the network, {network}"
    if subnet.prefixlen > SMALLEST_SUBNET:
        return f"{subnet} is smaller than a subnet of OCI can be"
    for name, other in others.items():
        if subnet.overlaps(other):
            return f"{subnet} has addresses of subnet {name}, {other}"
    return None


def _fitting(subnet: _Network, network: _Network, others: Any) -> _Network | None:  # noqa: ANN401 - a view
    """The first part of the network of this size that is free."""
    size = min(max(subnet.prefixlen, network.prefixlen + 1), SMALLEST_SUBNET)
    free = (each for each in network.subnets(new_prefix=size) if not any(each.overlaps(o) for o in others))
    return next(free, None)


def _parsed(value: object) -> _Network | None:
    try:
        return ipaddress.IPv4Network(str(value)) if value is not None else None
    except ValueError:
        return None
