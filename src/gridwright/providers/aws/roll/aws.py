"""What AWS is asked of a grid's groups and claims, and told: each call with a limit of time and of tries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gridwright.node_programs.scratch.problems import ScratchError, Trouble
from gridwright.providers.aws.roll.configuration import RollConfiguration, ScalingGroup
from gridwright.providers.aws.roll.deciding import GroupInstance, SeenGroup, SetUp

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
            "telling how far it is",
            lambda: self._tables.put_item(TableName=self._wanted.table, Item=item),
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
