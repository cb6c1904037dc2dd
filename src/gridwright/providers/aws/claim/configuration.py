"""The claim file: /etc/gridwright/claim.json, read and checked in full before anything is claimed.

```json
{
  "schema": 1,
  "grid": "demo",
  "region": "us-east-1",
  "table": "gridwright-demo-claims",
  "role": "oss",
  "mgs": "10.20.64.10@tcp",
  "slots": [
    {
      "name": "shared-oss1",
      "address": "10.20.64.11",
      "targets": [
        {"name": "shared-OST0000", "kind": "ost", "index": 0, "fsname": "shared", "with_mgt": false,
         "mount": "/srv/gridwright/shared-OST0000"}
      ]
    }
  ]
}
```

A slot with `"powered": true` is to be taken only while the table has an item `wanted#NAME`.

`role` is compute, machine, mgs, mds or oss; slots of the first two have no targets. `mgs` is the management
server of the targets; null where no target has one elsewhere. `directories` may say where `run`, `dev`,
`sys`, `modprobe`, `networkd` and `mounts` (a file) are, where they are not where Linux has them.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gridwright.node_programs.lustre_targets import (
    MACHINE,
    NID,
    ClaimError,
    DesiredTarget,
    TargetReader,
    in_order,
    json_of,
)
from gridwright.node_programs.scratch.problems import WRONG_INPUT, Trouble

CONFIGURATION = Path("/etc/gridwright/claim.json")
SCHEMA = 1
WITHOUT_TARGETS = ("compute", "machine")
"""Roles of machines that have a name and an address, and no volumes of their own."""
ROLES = (*WITHOUT_TARGETS, "mgs", "mds", "oss")
_TEXT = r"[A-Za-z0-9_.-]{1,255}"
_ABSENT = "machines of a grid get it at their first boot; name another one: --config FILE"
_WRITE_ANEW = "correct it, or have the instance replaced: it gets its file from the grid's bundle"


@dataclass(frozen=True)
class Slot:
    """A machine that an instance can become."""

    name: str
    address: str
    targets: tuple[DesiredTarget, ...] = ()
    powered: bool = False
    """Whether it is to be taken only while the scheduler wants it on."""


@dataclass(frozen=True)
class Directories:
    """The paths that a claim uses on this system."""

    run: Path = Path("/run/gridwright")
    dev: Path = Path("/dev")
    sys: Path = Path("/sys")
    modprobe: Path = Path("/etc/modprobe.d")
    networkd: Path = Path("/run/systemd/network")
    mounts: Path = Path("/proc/self/mounts")


@dataclass(frozen=True)
class Configuration:
    """All that the claim file says."""

    grid: str
    region: str
    table: str
    role: str
    slots: tuple[Slot, ...]
    mgs: str | None = None
    directories: Directories = field(default_factory=Directories)

    def slot(self, name: str) -> Slot | None:
        """The slot of a name."""
        return next((each for each in self.slots if each.name == name), None)


def read_configuration(path: Path) -> Configuration:
    """Read and check the claim file. Raises ClaimError (status 2) with everything that is wrong in it."""
    data = json_of(path, _ABSENT, _WRITE_ANEW)
    try:
        return parse_configuration(data)
    except ClaimError as error:
        where = [Trouble(f"{path}: {trouble.what}", trouble.remedy) for trouble in error.troubles]
        raise ClaimError(*where, status=WRONG_INPUT) from None


def parse_configuration(data: Any) -> Configuration:  # noqa: ANN401 - whatever JSON holds
    """Check plain data and make a Configuration of it. Raises ClaimError (status 2)."""
    reader = _Reader()
    configuration = reader.configuration(data)
    if reader.troubles:
        raise ClaimError(*reader.troubles, status=WRONG_INPUT)
    return configuration


class _Reader(TargetReader):
    """Reads a claim file."""

    def configuration(self, data: Any) -> Configuration:  # noqa: ANN401
        known = {"schema", "grid", "region", "table", "role", "mgs", "slots", "directories"}
        given = self.mapping(data, "the file", known)
        if given.get("schema") != SCHEMA:
            self.wrong("schema", given.get("schema"), f"{SCHEMA}; another Gridwright may have written it")
        role = given.get("role")
        if role not in ROLES:
            self.wrong("role", role, ", ".join(ROLES))
        mgs = given.get("mgs")
        if mgs is not None:
            mgs = self.text(given, "mgs", NID, "a NID, such as 10.20.64.10@tcp")
        slots = tuple(
            self.slot(each, f"slots[{index}]")
            for index, each in enumerate(self.list(given.get("slots"), "slots"))
        )
        if not slots:
            self.wrong("slots", given.get("slots"), "at least one slot")
        self.together(slots, mgs)
        return Configuration(
            grid=self.text(given, "grid", MACHINE, "the name of the grid"),
            region=self.text(given, "region", r"[a-z0-9-]{1,32}", "a region, such as us-east-1"),
            table=self.text(given, "table", _TEXT, "the name of the table of claims"),
            role=str(role),
            slots=slots,
            mgs=mgs,
            directories=self.directories(given.get("directories", {}), Directories),
        )

    def slot(self, data: Any, where: str) -> Slot:  # noqa: ANN401
        given = self.mapping(data, where, {"name", "address", "targets", "powered"})
        targets = [
            self.target(each, f"{where}.targets[{index}]")
            for index, each in enumerate(self.list(given.get("targets", []), f"{where}.targets"))
        ]
        address = given.get("address")
        try:
            address = str(ipaddress.IPv4Address(address))
        except ValueError:
            self.wrong(f"{where}.address", address, "an IPv4 address")
        name = self.text(given, "name", MACHINE, "the name of a machine", where)
        powered = given.get("powered", False)
        if not isinstance(powered, bool):
            self.wrong(f"{where}.powered", powered, "true or false")
        return Slot(name, str(address), in_order(targets), powered is True)

    def together(self, slots: tuple[Slot, ...], mgs: str | None) -> None:
        """What spans slots: names, addresses, targets and mount points of their own, and a way to the MGS."""
        targets = [target for slot in slots for target in slot.targets]
        for what, values in (
            ("name", [slot.name for slot in slots]),
            ("address", [slot.address for slot in slots]),
            ("targets: name", [target.name for target in targets]),
        ):
            self.once(f"slots: {what}", values, "one that no other slot has")
        for slot in slots:
            elsewhere = any(not target.has_mgs for target in slot.targets)
            if mgs is None and elsewhere and not any(target.has_mgs for target in slot.targets):
                self.wrong("mgs", mgs, f"the management server of the targets of {slot.name}")
