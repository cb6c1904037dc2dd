"""What is to be rolled, and what AWS is asked and told of it, each call with a limit of time and of tries.

/etc/gridwright/roll.json:

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gridwright.node_programs.scratch.problems import WRONG_INPUT, JsonReader, ScratchError, Trouble
from gridwright.providers.aws.roll.deciding import GroupInstance, SeenGroup, SetUp

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
        _group_of(reader, each, f"groups[{number}]")
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


def _group_of(reader: JsonReader, data: Any, where: str) -> ScalingGroup:  # noqa: ANN401
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


GRID_TAG = "gridwright:grid"
ROW = "roll"
"""Key of the row that says how far it all is."""
BOOT = "boot#"
"""What keys of rows begin with in which instances tell how they set themselves up."""


@dataclass(frozen=True)
class Table:
    """The table of claims."""

    names: Mapping[str, str] = field(default_factory=dict)
    """Machine that an instance is."""
    set_up: Mapping[str, SetUp] = field(default_factory=dict)
    """What instances told last."""


class RollAws:
    """Reads groups and the table, has groups replace instances, tells how far it is; raises ScratchError."""

    def __init__(self, configuration: RollConfiguration) -> None:
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            remedy = "install it: apt-get install python3-boto3, or dnf install python3-boto3"
            raise ScratchError(Trouble("boto3, by which AWS is asked, is not installed", remedy)) from None
        self._wanted = configuration
        limits = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "max_attempts": 6})
        session = boto3.session.Session(region_name=configuration.region)
        self._groups = session.client("autoscaling", config=limits)
        self._tables = session.client("dynamodb", config=limits)

    def groups(self) -> tuple[SeenGroup, ...]:
        """The groups of the configuration that are there, in its order."""
        filters = [{"Name": f"tag:{GRID_TAG}", "Values": [self._wanted.grid]}]

        def ask() -> list[Any]:
            pages = self._groups.get_paginator("describe_auto_scaling_groups").paginate(Filters=filters)
            return [each for page in pages for each in page["AutoScalingGroups"]]

        found = {_name(each): each for each in self._call("the Auto Scaling groups", ask)}
        return tuple(_group(found[each.name], each) for each in self._wanted.groups if each.name in found)

    def table(self) -> Table:
        """All of the table of claims, as it is at this moment."""

        def ask() -> list[Any]:
            pages = self._tables.get_paginator("scan").paginate(
                TableName=self._wanted.table, ConsistentRead=True
            )
            return [each for page in pages for each in page["Items"]]

        names: dict[str, str] = {}
        told: dict[str, SetUp] = {}
        for row in self._call(f"table {self._wanted.table}", ask):
            key = row["slot"]["S"]
            if key.startswith(BOOT):
                told[key.rpartition("/")[2]] = SetUp(
                    row.get("state", {}).get("S", ""),
                    int(row.get("tries", {}).get("N", "1")),
                    row.get("reason", {}).get("S", "")[:300],
                )
            elif "owner" in row:
                names[row["owner"]["S"]] = key
        return Table(names, told)

    def terminate(self, instance: str) -> None:
        """Have the group of an instance end it, and start another one."""
        self._call(
            f"replacing {instance}",
            lambda: self._groups.terminate_instance_in_auto_scaling_group(
                InstanceId=instance, ShouldDecrementDesiredCapacity=False
            ),
        )

    def tell(self, values: Mapping[str, str]) -> None:
        """Write the row that says how far it is."""
        item = {"slot": {"S": ROW}, **{name: {"S": value} for name, value in values.items()}}
        self._call(
            "telling how far it is", lambda: self._tables.put_item(TableName=self._wanted.table, Item=item)
        )

    def _call(self, what: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - boto3 has no types
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return call()
        except (BotoCoreError, ClientError) as error:
            said = " ".join(str(error).split())[:400]
            remedy = "nothing was changed by that; the next run, in a minute, goes on"
            raise ScratchError(Trouble(f"{what}: {said}", remedy)) from None


def _name(group: Mapping[str, Any]) -> str:
    return next((str(tag["Value"]) for tag in group.get("Tags", ()) if tag["Key"] == "Name"), "")


def _group(found: Mapping[str, Any], wanted_group: ScalingGroup) -> SeenGroup:
    instances = [
        GroupInstance(
            each["InstanceId"],
            outdated=is_outdated(each, found),
            in_service=each["LifecycleState"] == "InService",
        )
        for each in found.get("Instances", ())
    ]
    return SeenGroup(
        _name(found),
        wanted_group.servers,
        int(found["DesiredCapacity"]),
        tuple(instances),
        wanted_group.machines,
        wanted_group.jobs,
    )


def is_outdated(instance: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
    """Whether an instance was launched with another template or version than its group has now.

    Both are as Auto Scaling describes them. What has no template at all is compared with nothing.
    """
    policy = (group.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
    desired = group.get("LaunchTemplate") or policy.get("LaunchTemplateSpecification") or {}
    launched = instance.get("LaunchTemplate") or {}
    if not desired.get("Version") or not launched.get("Version"):
        return False
    return _version(launched) != _version(desired)


def _version(known: Mapping[str, Any]) -> tuple[str, str]:
    return str(known.get("LaunchTemplateId", "")), str(known["Version"])
