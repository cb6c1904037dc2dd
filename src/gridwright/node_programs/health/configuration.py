"""What a node must have: /etc/gridwright/health.json.

```json
{
  "schema": 1,
  "limit_seconds": 10,
  "mounts": [{"path": "/shared", "types": ["lustre"], "source": "10.0.0.1@tcp:/shared"}],
  "directories": ["/scratch/work"]
}
```

`types` are those of /proc/self/mountinfo. With `source` the mount is at `path` itself and from there; without
one (null, or left out), `path` may lie anywhere on a mount of such a type. `limit_seconds` is how long a look
at one of them may take.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.node_programs.scratch.json_reader import JsonReader
from gridwright.node_programs.scratch.problems import Trouble

CONFIGURATION = Path("/etc/gridwright/health.json")
SCHEMA = 1
LIMIT_S = 10
"""slurmd kills the program after 60 s (slurm.conf(5), HealthCheckProgram): a look, a pause and two questions
to slurmctld take less."""
_MOST_LIMIT_S = 20


class HealthError(Exception):
    """The configuration is wrong; `troubles` has all that is."""

    def __init__(self, *troubles: Trouble) -> None:
        super().__init__("\n".join(str(trouble) for trouble in troubles))
        self.troubles = troubles


@dataclass(frozen=True)
class ExpectedMount:
    """A file system that the node must have mounted."""

    path: str
    types: tuple[str, ...]
    source: str | None = None


@dataclass(frozen=True)
class HealthConfiguration:
    """All that the node must have."""

    mounts: tuple[ExpectedMount, ...] = ()
    directories: tuple[str, ...] = ()
    limit_s: int = LIMIT_S

    @property
    def paths(self) -> tuple[str, ...]:
        """Everything that is looked at, once."""
        return tuple(dict.fromkeys((*(mount.path for mount in self.mounts), *self.directories)))


def read_configuration(path: Path) -> HealthConfiguration:
    """Read and check the file. Raises HealthError with all that is wrong."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise HealthError(Trouble(f"{path}: {error.strerror}", "run the playbook again")) from None
    except (ValueError, RecursionError) as error:
        raise HealthError(Trouble(f"{path} is not JSON: {error}", "run the playbook again")) from None
    reader = JsonReader()
    given = reader.mapping(data, "the file", {"schema", "limit_seconds", "mounts", "directories"})
    if given.get("schema") != SCHEMA:
        reader.wrong("schema", given.get("schema"), str(SCHEMA))
    limit = given.get("limit_seconds", LIMIT_S)
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 < limit <= _MOST_LIMIT_S:
        reader.wrong("limit_seconds", limit, f"a whole number from 1 to {_MOST_LIMIT_S}")
    mounts = [
        _mount(reader, each, f"mounts[{number}]")
        for number, each in enumerate(reader.list(given.get("mounts", []), "mounts"))
    ]
    directories = [
        str(reader.path(each, f"directories[{number}]"))
        for number, each in enumerate(reader.list(given.get("directories", []), "directories"))
    ]
    if reader.troubles:
        raise HealthError(*reader.troubles)
    return HealthConfiguration(tuple(mounts), tuple(directories), limit)


def _mount(reader: JsonReader, data: Any, where: str) -> ExpectedMount:  # noqa: ANN401 - what JSON holds
    given = reader.mapping(data, where, {"path", "types", "source"})
    path = reader.path(given.get("path"), f"{where}.path")
    types = reader.list(given.get("types"), f"{where}.types")
    if not types or not all(isinstance(each, str) and each for each in types):
        reader.wrong(f"{where}.types", given.get("types"), "a list of types, such as lustre")
    source = given.get("source")
    if source is not None and (not isinstance(source, str) or not source):
        reader.wrong(
            f"{where}.source", source, "what is mounted there, such as 10.0.0.1@tcp:/shared, or null"
        )
    return ExpectedMount(str(path), tuple(map(str, types)), source)
