"""What /etc/gridwright/disk-names.json says: names of this server's volumes, and their tags.

```json
{
  "schema": 1,
  "grid": "demo",
  "region": "us-east-1",
  "wait_seconds": 1800,
  "disks": [{"path": "/dev/gridwright/lake-p1-v01", "slot": "lake-p1", "target": "p1-v01"}]
}
```
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

CONFIGURATION = Path("/etc/gridwright/disk-names.json")
LINK = re.compile(r"/dev/gridwright/[a-z0-9][a-z0-9-]{0,126}")


class DiskNamesError(Exception):
    """What is wrong, all of it, in words for administrators: each with what to do about it."""

    def __init__(self, *troubles: str) -> None:
        super().__init__("; ".join(troubles))
        self.troubles = troubles


@dataclass(frozen=True)
class NamedDisk:
    """A volume that this server shares: its name here, and the tags of the volume."""

    path: str
    slot: str
    target: str


@dataclass(frozen=True)
class DiskNames:
    """All that the file says."""

    grid: str
    region: str
    disks: tuple[NamedDisk, ...]
    wait_seconds: float


def read_disk_names(path: Path) -> DiskNames:
    """Read and check it. Raises DiskNamesError with all that is wrong."""
    try:
        found = json.loads(path.read_text("utf-8"))
        disks = tuple(
            NamedDisk(str(each["path"]), str(each["slot"]), str(each["target"])) for each in found["disks"]
        )
        grid, region = str(found["grid"]), str(found["region"])
        wait = float(found.get("wait_seconds", 1800))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DiskNamesError(f"{path} cannot be read ({error!r}): have the machine set up again") from None
    wrong = [
        f"{each.path} is no name below /dev/gridwright" for each in disks if not LINK.fullmatch(each.path)
    ]
    wrong += [f"{each} is the name of two volumes" for each in twice(each.path for each in disks)]
    wrong += [f"{each} is named twice" for each in twice(f"{each.slot} {each.target}" for each in disks)]
    if wrong:
        raise DiskNamesError(*(f"{path}: {each}: have the machine set up again" for each in wrong))
    return DiskNames(grid, region, disks, wait)


def twice(names: Iterable[str]) -> list[str]:
    """What is there more than once."""
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    return sorted(name for name, count in seen.items() if count > 1)
