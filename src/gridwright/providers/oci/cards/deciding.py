"""Pure: which commands give a card its address, out of what the metadata service and the kernel say."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MTU = 9000
"""Of a network of OCI (Oracle Cloud, hanging connection: MTU overview)."""
FIRST_TABLE = 4100
"""Number of the first routing table of these cards: others begin with 0 or 253."""


class CardsError(Exception):
    """What is wrong with the cards, in words for administrators."""


@dataclass(frozen=True)
class Card:
    """A network card beside the first one, as the cloud has it."""

    mac: str
    address: ipaddress.IPv4Address
    subnet: ipaddress.IPv4Network
    router: ipaddress.IPv4Address


def cards_of(documents: Sequence[Mapping[str, Any]]) -> tuple[Card, ...]:
    """All but the first of /opc/v2/vnics/ (Oracle Cloud, instance metadata). Raises CardsError."""
    found = []
    for each in documents[1:]:
        if int(each.get("vlanTag") or 0) and int(each.get("nicIndex") or 0) == 0:
            # It shares the first card by a VLAN, which is no second card: nothing of a grid is made so.
            continue
        try:
            found.append(
                Card(
                    str(each["macAddr"]).lower(),
                    ipaddress.IPv4Address(each["privateIp"]),
                    ipaddress.IPv4Network(each["subnetCidrBlock"]),
                    ipaddress.IPv4Address(each["virtualRouterIp"]),
                )
            )
        except (KeyError, ValueError) as error:
            raise CardsError(f"the metadata service tells of a card that is not whole: {error!r}") from None
    return tuple(found)


def commands(cards: Sequence[Card], interfaces: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """For ip(8), each of which may be repeated; `interfaces` are names by MAC. Raises CardsError.

    What comes in by a card goes out by it: without a table of its own, answers to clients of another subnet
    would leave by the first card, and the network drops what has the address of another card.
    """
    steps: list[tuple[str, ...]] = []
    for number, card in enumerate(cards):
        name = interfaces.get(card.mac)
        if name is None:
            raise CardsError(f"no network card has the MAC {card.mac} of {card.address}")
        table = str(FIRST_TABLE + number)
        own = ("dev", name, "table", table)
        steps += [
            ("link", "set", "dev", name, "mtu", str(MTU), "up"),
            ("address", "replace", f"{card.address}/{card.subnet.prefixlen}", "dev", name),
            ("route", "replace", str(card.subnet), *own, "src", str(card.address)),
            ("route", "replace", "default", "via", str(card.router), *own),
            ("rule", "add", "from", str(card.address), "lookup", table, "priority", table),
        ]
    return tuple(steps)
