"""The machine that serves the console, the address of its load balancer, and who may read it."""

from __future__ import annotations

import ipaddress

from gridwright.providers.aws.addresses import BALANCER
from gridwright.providers.aws.layout import AwsLayout, Machine, Role, first_address
from gridwright.providers.aws.names import grid_stack
from gridwright.spec.model import GridSpec

_PRIVATE = tuple(
    ipaddress.IPv4Network(each) for each in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16")
)
"""Ranges that nobody has on the Internet (RFC 1918, RFC 6598)."""


TOKEN = "ConsoleToken"  # noqa: S105 - a logical ID
"""The secret with the token, in the grid stack."""

KEY = "ConsoleKey"
"""The key pair by which the console reaches nodes, in the grid stack."""


def console_machine(layout: AwsLayout) -> Machine | None:
    """Who serves it: the head node, or the login node of a grid without one; None without a certificate."""
    if layout.aws.certificate is None:
        return None
    return (*layout.of_role(Role.HEAD), *layout.of_role(Role.LOGIN))[0]


def balancer_address(layout: AwsLayout) -> ipaddress.IPv4Address | None:
    """The one address of the load balancer, beside the login node; None where there is none.

    It is named, as one that AWS chooses might be a machine's, and so that the console lets in no other.
    """
    if layout.aws.certificate is None:
        return None
    return layout.subnets["public"][first_address(layout.aws) + BALANCER]


def readers(layout: AwsLayout) -> tuple[ipaddress.IPv4Network, ...]:
    """Who may open it: the network itself, and private ranges that users log in from, by a VPN, say."""
    given = [ipaddress.IPv4Network(each) for each in layout.aws.ssh_from]
    private = [each for each in given if any(each.subnet_of(one) for one in _PRIVATE)]
    return tuple(dict.fromkeys((*layout.networks, *private)))


def secret_name(spec: GridSpec) -> str:
    """Name of the secret with the token, and of the key pair. It is the same for each `up`.

    CloudFormation deletes secrets without a window of recovery, so that the name is free after `down`
    (CloudFormation User Guide, DeletionPolicy).
    """
    return f"{grid_stack(spec)}-console"
