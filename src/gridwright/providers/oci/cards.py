"""Sets up the second network card of a server, which images of Oracle leave alone: `cards.pyz`.

It waits for the cards of this machine, and gives them their addresses.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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


CONFIGURATION = Path("/etc/gridwright/cards.json")
PAUSE_S = float(os.environ.get("GRIDWRIGHT_CARDS_PAUSE_S", "5"))
COMMAND_S = 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 0 where all cards are as they should be."""
    parser = argparse.ArgumentParser(prog="cards", description="Network cards beside the first one.")
    parser.add_argument(
        "--config", type=Path, default=CONFIGURATION, metavar="FILE", help="the configuration"
    )
    parser.add_argument(
        "--sysfs", type=Path, default=Path("/sys"), metavar="DIRECTORY", help=argparse.SUPPRESS
    )
    given = parser.parse_args(arguments)
    done: list[str] = []
    try:
        desired = json.loads(given.config.read_text("utf-8"))
        cards = _awaited(set(desired["addresses"]), float(desired["wait_seconds"]))
        for words in commands(cards, _interfaces(given.sysfs)):
            if _run(words):
                done.append(" ".join(words))
    except (CardsError, OSError, ValueError, KeyError) as error:
        print(f"cards: {error}", file=sys.stderr)  # noqa: T201 - a program of its own
        return 3
    print(json.dumps({"schema": 1, "steps": done}))  # noqa: T201
    return 0


def _awaited(addresses: set[str], limit_s: float) -> tuple[Card, ...]:
    """The cards with these addresses: Terraform attaches them when the machine runs already."""
    from gridwright.providers.oci.boot import instance_principal

    deadline = time.monotonic() + limit_s
    while True:
        try:
            found = cards_of(json.loads(instance_principal.metadata("vnics/")))
        except instance_principal.Refused as refused:
            raise CardsError(str(refused)) from None
        known = {str(each.address) for each in found}
        if addresses <= known:
            return tuple(each for each in found if str(each.address) in addresses)
        if time.monotonic() >= deadline:
            missing = ", ".join(sorted(addresses - known))
            raise CardsError(f"this machine has no card with {missing}: look at its attached VNICs")
        time.sleep(PAUSE_S)


def _interfaces(sysfs: Path) -> Mapping[str, str]:
    """Names of physical cards by MAC: what lies on a card, such as a VLAN or a bond, has the same one."""
    return {
        (each / "address").read_text().strip().lower(): each.name
        for each in sorted((sysfs / "class/net").iterdir())
        if (each / "device").exists() and (each / "address").exists()
    }


def _run(words: Sequence[str]) -> bool:
    """Run ip(8); whether something may have changed. A rule that is there already is none more."""
    if words[0] == "rule":
        there = _ip(["rule", "show", "priority", words[-1]])
        if f"from {words[3]} lookup {words[5]}" in " ".join(there.split()):
            return False
    _ip(words)
    return words[0] == "rule"


def _ip(words: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            ["ip", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CardsError(f"ip {' '.join(words)}: {error}") from None
    if done.returncode:
        raise CardsError(f"ip {' '.join(words)} ended with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout
