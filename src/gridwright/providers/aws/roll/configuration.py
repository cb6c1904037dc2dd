"""What is to be rolled: /etc/gridwright/roll.json.

```json
{
  "schema": 1,
  "grid": "prod", "region": "us-east-1", "table": "gridwright-prod-claims",
  "groups": [
    {"name": "prod-shared-oss", "servers": true, "jobs": false,
     "machines": ["shared-oss1"], "targets": ["shared-OST0000"]},
    {"name": "prod-compute", "servers": false, "jobs": true,
     "machines": ["compute1", "compute2"], "targets": []}
  ],
  "slurm_conf": "/etc/slurm/slurm.conf",
  "drain_limit_seconds": null
}
```

`name` is the tag Name of an Auto Scaling group. Servers are replaced in the order of the file. `slurm_conf`
is null where the grid has no Slurm, and `drain_limit_seconds` where a node waits for its jobs for as long as
they run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gridwright.node_programs.scratch.json_reader import JsonReader
from gridwright.node_programs.scratch.problems import WRONG_INPUT, ScratchError, Trouble

CONFIGURATION = Path("/etc/gridwright/roll.json")
SCHEMA = 1
_KEYS = {"schema", "grid", "region", "table", "groups", "slurm_conf", "drain_limit_seconds"}
_AGAIN = "run the playbook again: it writes the file"


@dataclass(frozen=True)
class ScalingGroup:
    """An Auto Scaling group."""

    name: str
    servers: bool
    machines: tuple[str, ...] = ()
    """Names of the machines that its instances can be."""
    targets: tuple[str, ...] = ()
    """Targets of Lustre that its machines serve."""
    jobs: bool = True
    """Whether its machines are nodes of the scheduler."""


@dataclass(frozen=True)
class RollConfiguration:
    """The whole file."""

    grid: str
    region: str
    table: str
    groups: tuple[ScalingGroup, ...]
    slurm_conf: Path | None = None
    drain_limit_s: float | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """All targets of Lustre."""
        return tuple(each for group in self.groups for each in group.targets)


def read_configuration(path: Path) -> RollConfiguration:
    """Read and check the file. Raises ScratchError with all that is wrong."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ScratchError(Trouble(f"{path}: {error.strerror}", _AGAIN), status=WRONG_INPUT) from None
    except (ValueError, RecursionError) as error:
        raise ScratchError(Trouble(f"{path} is not JSON: {error}", _AGAIN), status=WRONG_INPUT) from None
    reader = JsonReader()
    given = reader.mapping(data, "the file", _KEYS)
    if given.get("schema") != SCHEMA:
        reader.wrong("schema", given.get("schema"), str(SCHEMA))
    texts = {name: _text(reader, given.get(name), name) for name in ("grid", "region", "table")}
    groups = [
        _group(reader, each, f"groups[{number}]")
        for number, each in enumerate(reader.list(given.get("groups"), "groups"))
    ]
    conf, limit = given.get("slurm_conf"), given.get("drain_limit_seconds")
    if limit is not None and (not isinstance(limit, (int, float)) or isinstance(limit, bool) or limit <= 0):
        reader.wrong("drain_limit_seconds", limit, "seconds, or null")
    path_of_conf = None if conf is None else reader.path(conf, "slurm_conf")
    if reader.troubles:
        raise ScratchError(*reader.troubles, status=WRONG_INPUT)
    return RollConfiguration(
        **texts, groups=tuple(groups), slurm_conf=path_of_conf, drain_limit_s=None if limit is None else limit
    )


def _text(reader: JsonReader, data: Any, where: str) -> str:  # noqa: ANN401 - what JSON holds
    if not isinstance(data, str) or not data:
        reader.wrong(where, data, "a name")
    return str(data)


def _group(reader: JsonReader, data: Any, where: str) -> ScalingGroup:  # noqa: ANN401
    given = reader.mapping(data, where, {"name", "servers", "jobs", "machines", "targets"})
    flags = {key: given.get(key) for key in ("servers", "jobs")}
    for key, flag in flags.items():
        if not isinstance(flag, bool):
            reader.wrong(f"{where}.{key}", flag, "true or false")
    lists = {
        key: tuple(
            _text(reader, each, f"{where}.{key}") for each in reader.list(given.get(key), f"{where}.{key}")
        )
        for key in ("machines", "targets")
    }
    name = _text(reader, given.get("name"), f"{where}.name")
    return ScalingGroup(name, flags["servers"] is True, **lists, jobs=flags["jobs"] is True)
