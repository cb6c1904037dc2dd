"""The file of the program: /etc/gridwright/power.json, written by the playbook from the grid spec.

```json
{
  "schema": 1,
  "grid": "demo",
  "region": "us-east-1",
  "table": "gridwright-demo-claims",
  "groups": [
    {"name": "compute", "instance": "m6i.4xlarge", "always_on": ["compute1"], "powered": ["compute2"]}
  ]
}
```
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CONFIGURATION = Path("/etc/gridwright/power.json")
SCHEMA = 1


class ConfigurationError(Exception):
    """The file is not as it should be."""


@dataclass(frozen=True)
class PoweredGroup:
    """A group of nodes, some of which are powered on and off."""

    name: str
    instance: str
    """The instance type of its nodes."""
    always_on: tuple[str, ...]
    powered: tuple[str, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.always_on, *self.powered)


@dataclass(frozen=True)
class PowerConfiguration:
    """All that the file says."""

    grid: str
    region: str
    table: str
    groups: tuple[PoweredGroup, ...]


def read_configuration(path: Path) -> PowerConfiguration:
    """Read the file. Raises ConfigurationError."""
    try:
        return _parsed(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigurationError(f"{path} is not as Gridwright writes it: {error!r}") from None


def _parsed(data: Mapping[str, Any]) -> PowerConfiguration:
    if data["schema"] != SCHEMA:
        raise ValueError(f"schema {data['schema']}")
    groups = tuple(
        PoweredGroup(
            str(each["name"]),
            str(each["instance"]),
            tuple(map(str, each["always_on"])),
            tuple(map(str, each["powered"])),
        )
        for each in data["groups"]
    )
    return PowerConfiguration(str(data["grid"]), str(data["region"]), str(data["table"]), groups)
