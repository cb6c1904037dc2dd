"""/etc/gridwright/targets.json: what this server is to serve, read and checked before anything is done.

```json
{
  "schema": 1,
  "grid": "demo",
  "name": "shared-oss1",
  "address": "10.30.128.18",
  "mgs": "10.30.128.16@tcp",
  "targets": [
    {"name": "shared-OST0000", "kind": "ost", "index": 0, "fsname": "shared", "with_mgt": false,
     "mount": "/srv/gridwright/shared-OST0000", "device": "/dev/oracleoci/oraclevdb"}
  ]
}
```

`mgs` is the management server; it may be this machine. `directories` may say where `dev`, `modprobe`, `run`
and `mounts` (a file) are, where they are not where Linux has them.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gridwright.node_programs.lustre_targets.problems import ClaimError
from gridwright.node_programs.lustre_targets.target import (
    MACHINE,
    NID,
    DesiredTarget,
    TargetReader,
    in_order,
    json_of,
)
from gridwright.node_programs.scratch.problems import WRONG_INPUT, Trouble

TARGETS_FILE = Path("/etc/gridwright/targets.json")
SCHEMA = 1
DEVICE = r"/dev/oracleoci/oraclevd(?:[b-z]|a[a-g])"
"""The names that Compute gives to attachments (Oracle Cloud, consistent device paths)."""
_WRITE_ANEW = "have the machine set up again, which writes it"


@dataclass(frozen=True)
class TargetPaths:
    """The paths that are used on this system."""

    dev: Path = Path("/dev")
    modprobe: Path = Path("/etc/modprobe.d")
    run: Path = Path("/run/gridwright")
    mounts: Path = Path("/proc/self/mounts")


@dataclass(frozen=True)
class TargetsConfiguration:
    """All that the file says."""

    grid: str
    name: str
    address: str
    mgs: str
    targets: tuple[DesiredTarget, ...]
    devices: dict[str, str]
    """The name in /dev of each target's volume."""
    directories: TargetPaths = field(default_factory=TargetPaths)

    def mgs_of(self, target: DesiredTarget) -> str | None:
        """The management server that a target registers with; None where it is on the target itself."""
        return None if target.has_mgs else self.mgs


def read_targets(path: Path) -> TargetsConfiguration:
    """Read and check the file. Raises ClaimError (status 2) with everything that is wrong in it."""
    reader = _TargetsReader()
    found = reader.configuration(json_of(path, _WRITE_ANEW, _WRITE_ANEW))
    if reader.troubles:
        where = [Trouble(f"{path}: {each.what}", each.remedy) for each in reader.troubles]
        raise ClaimError(*where, status=WRONG_INPUT)
    return found


class _TargetsReader(TargetReader):
    """Reads the file."""

    more = frozenset({"device"})

    def configuration(self, data: Any) -> TargetsConfiguration:  # noqa: ANN401 - whatever JSON holds
        known = {"schema", "grid", "name", "address", "mgs", "targets", "directories"}
        given = self.mapping(data, "the file", known)
        if given.get("schema") != SCHEMA:
            self.wrong("schema", given.get("schema"), f"{SCHEMA}; another Gridwright may have written it")
        listed = self.list(given.get("targets"), "targets")
        targets = [self.target(each, f"targets[{index}]") for index, each in enumerate(listed)]
        if not targets:
            self.wrong("targets", listed, "at least one target")
        devices = {
            target.name: self.text(each, "device", DEVICE, "a consistent device path", f"targets[{index}]")
            for index, (target, each) in enumerate(zip(targets, listed))  # noqa: B905 - Python 3.9
            if isinstance(each, dict)
        }
        for what, values in (
            ("name", [each.name for each in targets]),
            ("device", list(devices.values())),
            ("mount", [str(each.mount) for each in targets]),
        ):
            self.once(f"targets: {what}", values, "one that no other target has")
        try:
            address = str(ipaddress.IPv4Address(given.get("address")))
        except ValueError:
            address = "0.0.0.0"  # noqa: S104 - nothing listens there: the file is refused
            self.wrong("address", given.get("address"), "an IPv4 address")
        return TargetsConfiguration(
            grid=self.text(given, "grid", MACHINE, "the name of the grid"),
            name=self.text(given, "name", MACHINE, "the name of this server"),
            address=address,
            mgs=self.text(given, "mgs", NID, "the management server, such as 10.30.128.16@tcp"),
            targets=in_order(targets),
            devices=devices,
            directories=self.directories(given.get("directories", {}), TargetPaths),
        )
