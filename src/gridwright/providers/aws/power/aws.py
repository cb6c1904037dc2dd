"""The cloud of powered nodes: Auto Scaling and DynamoDB, each call with a limit of time and of tries."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from gridwright.node_programs.power.supply import SupplyError
from gridwright.providers.aws.power.cloud import GroupState, StartTry, TableState
from gridwright.providers.aws.power.configuration import PowerConfiguration

GRID_TAG = "gridwright:grid"
GROUP_TAG = "gridwright:group"
WANTED = "wanted#"
"""How keys of items begin by which a node is wanted on; its name follows. Machines read them in `claim`."""
_ENDING = ("Terminating", "Terminated", "Detach", "Standby", "EnteringStandby", "Quarantined")
"""How lifecycle states begin of instances that are no machines of the group any more."""
_AT_ONCE = 100
"""Keys of one BatchGetItem (DynamoDB API Reference)."""
_STARTS = 50
_AGAIN = 5


class AwsPower:
    """See `cloud.PowerCloud`."""

    def __init__(self, configuration: PowerConfiguration) -> None:
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise SupplyError("boto3, by which AWS is asked, is not installed") from None
        self._grid, self._table = configuration.grid, configuration.table
        limits = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "max_attempts": 5})
        session = boto3.session.Session(region_name=configuration.region)

        def client(service: str) -> Any:  # noqa: ANN401 - boto3 has no types of its own
            return session.client(service, config=limits)

        self._groups = _asked("a client of Auto Scaling", lambda: client("autoscaling"))
        self._tables = _asked("a client of DynamoDB", lambda: client("dynamodb"))

    def group(self, name: str) -> GroupState:
        """The one Auto Scaling group that has the tags of the grid and of the group of nodes."""
        tags = {GRID_TAG: self._grid, GROUP_TAG: name}
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]

        def ask() -> list[Mapping[str, Any]]:
            pages = self._groups.get_paginator("describe_auto_scaling_groups").paginate(Filters=filters)
            return [each for page in pages for each in page["AutoScalingGroups"]]

        found = [
            each
            for each in _asked(f"the group of {name}", ask)
            if tags.items() <= {tag["Key"]: tag["Value"] for tag in each["Tags"]}.items()
            and each.get("Status") is None  # else it is being deleted
        ]
        if len(found) != 1:
            raise SupplyError(
                f"there are {len(found)} Auto Scaling groups of {name}, and there should be one"
            )
        (known,) = found
        return GroupState(
            known["AutoScalingGroupName"],
            known["MinSize"],
            known["MaxSize"],
            known["DesiredCapacity"],
            tuple(
                each["InstanceId"]
                for each in known["Instances"]
                if not each["LifecycleState"].startswith(_ENDING)
            ),
        )

    def table(self, nodes: Sequence[str]) -> TableState:
        """Owners and wishes of nodes."""
        owners: dict[str, str] = {}
        wanted: dict[str, float] = {}
        for item in self._items([key for node in nodes for key in (node, f"{WANTED}{node}")]):
            key = item["slot"]["S"]
            if key.startswith(WANTED):
                wanted[key[len(WANTED) :]] = float(item.get("since", {}).get("N", 0))
            elif "owner" in item:
                owners[key] = item["owner"]["S"]
        return TableState(owners, wanted)

    def _items(self, keys: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        for start in range(0, len(keys), _AT_ONCE):
            left: Any = {
                self._table: {
                    "Keys": [{"slot": {"S": key}} for key in keys[start : start + _AT_ONCE]],
                    "ConsistentRead": True,
                }
            }
            for _ in range(_AGAIN):
                answer = _asked("claims", partial(self._tables.batch_get_item, RequestItems=left))
                yield from answer["Responses"].get(self._table, ())
                left = answer.get("UnprocessedKeys")
                if not left:
                    break
            else:
                raise SupplyError("the table of claims answers in part only")

    def starts(self, group: GroupState) -> Sequence[StartTry]:
        """Its latest tries to start machines."""
        answer = _asked(
            f"activities of {group.name}",
            lambda: self._groups.describe_scaling_activities(
                AutoScalingGroupName=group.name, MaxRecords=_STARTS
            ),
        )
        return [
            StartTry(each["StatusCode"], each["StartTime"].timestamp(), each.get("StatusMessage", ""))
            for each in answer["Activities"]
            if each.get("Description", "").startswith("Launching")
        ]

    def want(self, node: str, now: float) -> None:
        """Write it down, unless it is written already: since when counts."""
        item = {
            "slot": {"S": f"{WANTED}{node}"},
            "since": {"N": f"{int(now)}"},
            "at": {"S": datetime.datetime.fromtimestamp(now, datetime.timezone.utc).isoformat()},  # noqa: UP017
        }
        _asked(f"wanting {node}", lambda: self._tables.put_item(TableName=self._table, Item=item))

    def want_no_more(self, node: str) -> None:
        """Take it away."""
        key = {"slot": {"S": f"{WANTED}{node}"}}
        _asked(f"{node}", lambda: self._tables.delete_item(TableName=self._table, Key=key))

    def resize(self, group: GroupState, desired: int) -> None:
        """Set its size."""
        _asked(
            f"the size of {group.name}",
            lambda: self._groups.set_desired_capacity(
                AutoScalingGroupName=group.name, DesiredCapacity=desired, HonorCooldown=False
            ),
        )

    def end(self, machine: str, *, shrink: bool) -> None:
        """Terminate it."""
        _asked(
            f"ending {machine}",
            lambda: self._groups.terminate_instance_in_auto_scaling_group(
                InstanceId=machine, ShouldDecrementDesiredCapacity=shrink
            ),
        )


def _asked(what: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call()
    except (BotoCoreError, ClientError) as error:
        raise SupplyError(f"{what}: {error}") from None
