"""Ranges of IPv4 addresses that sections of clouds hold, as pydantic checks them. All raise FieldError."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Network

from gridwright.yamltext.fields import FieldError
from gridwright.yamltext.source import show

WIDEST_SSH = 8
"""Shortest prefix of a range that is let in from outside: a site's own addresses are never more."""
SSH_EXAMPLE = "write the addresses that your users come from, such as 203.0.113.0/24"


def parsed_range(value: str, example: str, *, widest: int = 0) -> IPv4Network:
    """A range; what is wrong names the nearest one, with a prefix of `widest` or more, or the example."""
    try:
        return IPv4Network(value)
    except ValueError:
        pass
    try:
        near = IPv4Network(value, strict=False)
    except ValueError:
        raise FieldError(f"{show(value)} is no range of IPv4 addresses", example) from None
    if near.prefixlen < widest:
        near = IPv4Network((value.partition("/")[0], widest), strict=False)
    raise FieldError(f"{value} has bits of an address behind its prefix", f"write {near}")


def private_network(value: str, example: str, largest: int, smallest: int, unfit: str) -> str:
    """A private range with a prefix from `largest` to `smallest`; `unfit` says what is wrong with others."""
    network = parsed_range(value, example)
    if not network.is_private or network.is_loopback or network.is_link_local:
        raise FieldError(f"{value} is not a private range of addresses", example)
    if not largest <= network.prefixlen <= smallest:
        near = largest if network.prefixlen < largest else smallest
        nearby = IPv4Network((network.network_address, near), strict=False)
        raise FieldError(f"{value} is not of a size that {unfit}", f"write {nearby}")
    return str(network)


def let_in(value: str, *, example: str = SSH_EXAMPLE, do: str = "log in") -> str:
    """A range that others may come from, not much of the Internet; `do` is what for."""
    network = parsed_range(value, example, widest=WIDEST_SSH)
    if network.prefixlen == 0:
        raise FieldError(f"{value} lets everybody on the Internet try to {do}", example)
    if network.prefixlen < WIDEST_SSH:
        near = IPv4Network((network.network_address, WIDEST_SSH))
        raise FieldError(f"{value} is a large part of the Internet", f"write {near}, or a narrower range")
    return str(network)


def written_range(value: object) -> IPv4Network | None:
    """A range that is written as it should be; None for others, of which the models tell."""
    try:
        return IPv4Network(value) if isinstance(value, str) else None
    except ValueError:
        return None


def first_free(network: IPv4Network, used: Collection[IPv4Network], prefix: int) -> IPv4Network | None:
    """The first part of a network with this prefix that overlaps none of those that are used."""
    parts = network.subnets(new_prefix=prefix)
    return next((each for each in parts if not any(each.overlaps(other) for other in used)), None)
