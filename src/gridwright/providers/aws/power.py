"""Has machines of powered nodes started and ended on AWS, from the head node, as the scheduler wants them.

Contract with the role `power`, which runs it there:

- The program is `power.pyz` (`gridwright.providers.aws.machine_files.POWER`), run as root by
  gridwright-power.service: `python3 power.pyz [--config FILE] [--once]`, with Python 3.9 or newer, and boto3.
- FILE is /etc/gridwright/power.json by default, in the form that `read_configuration` takes.
- An item `wanted#NODE` of the table of claims says that a node is to be on: machines of its Auto Scaling
  group claim such slots, those that are always on, and no others. The size of the group follows the items.
- Exit status: 0 ended by a signal, 2 FILE is wrong, 3 where --once could not ask Slurm or AWS.

What is to be done about a group is decided by a pure function: what the group and the table hold goes in, the
next calls come out. It imports the standard library, boto3 (late), and `gridwright.node_programs`.
"""

from __future__ import annotations

import argparse
import datetime
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from gridwright.node_programs.power import (
    REQUEST_LOG,
    PowerReconciler,
    PowerStates,
    RequestLog,
    Settled,
    SupplyError,
    reconcile,
)
from gridwright.node_programs.scratch.commands import run
from gridwright.node_programs.scratch.problems import FAILED, WRONG_INPUT

# The file of the program: /etc/gridwright/power.json, written by the playbook from the grid spec.
#
# ```json
# {
#   "schema": 1,
#   "grid": "demo",
#   "region": "us-east-1",
#   "table": "gridwright-demo-claims",
#   "groups": [
#     {"name": "compute", "instance": "m6i.4xlarge", "always_on": ["compute1"], "powered": ["compute2"]}
#   ]
# }
# ```

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


@dataclass(frozen=True)
class GroupState:
    """An Auto Scaling group."""

    name: str
    """As AWS has it."""
    least: int
    most: int
    desired: int
    machines: tuple[str, ...] = ()
    """Instances that are there or start; what ends is none of them."""


@dataclass(frozen=True)
class StartTry:
    """A try of the group to start a machine."""

    state: str
    """As AWS has it: InProgress, Successful, Failed, Cancelled and others."""
    began: float
    reason: str = ""


@dataclass(frozen=True)
class TableState:
    """What the table says of nodes of a group."""

    owners: Mapping[str, str] = field(default_factory=dict)
    """The instance that a node is, or was."""
    wanted: Mapping[str, float] = field(default_factory=dict)
    """Powered nodes that are wanted on, and since when."""


class PowerCloud(Protocol):
    """The cloud. Every call raises SupplyError where it is not answered, or not allowed."""

    def group(self, name: str) -> GroupState:
        """The Auto Scaling group of a group of nodes."""

    def table(self, nodes: Sequence[str]) -> TableState:
        """What the table says of nodes, as it is at this moment."""

    def starts(self, group: GroupState) -> Sequence[StartTry]:
        """Its latest tries to start machines, the newest first."""

    def want(self, node: str, now: float) -> None:
        """Write down that a node is wanted on."""

    def want_no_more(self, node: str) -> None:
        """Take that away."""

    def resize(self, group: GroupState, desired: int) -> None:
        """Have the group have so many machines."""

    def end(self, machine: str, *, shrink: bool) -> None:
        """Terminate a machine of a group, which is to be smaller by one then or to start another one."""


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

        self._groups = _call("a client of Auto Scaling", lambda: client("autoscaling"))
        self._tables = _call("a client of DynamoDB", lambda: client("dynamodb"))

    def group(self, name: str) -> GroupState:
        """The one Auto Scaling group that has the tags of the grid and of the group of nodes."""
        tags = {GRID_TAG: self._grid, GROUP_TAG: name}
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]

        def ask() -> list[Mapping[str, Any]]:
            pages = self._groups.get_paginator("describe_auto_scaling_groups").paginate(Filters=filters)
            return [each for page in pages for each in page["AutoScalingGroups"]]

        found = [
            each
            for each in _call(f"the group of {name}", ask)
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
        desired: dict[str, float] = {}
        for item in self._items([key for node in nodes for key in (node, f"{WANTED}{node}")]):
            key = item["slot"]["S"]
            if key.startswith(WANTED):
                desired[key[len(WANTED) :]] = float(item.get("since", {}).get("N", 0))
            elif "owner" in item:
                owners[key] = item["owner"]["S"]
        return TableState(owners, desired)

    def _items(self, keys: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        for start in range(0, len(keys), _AT_ONCE):
            left: Any = {
                self._table: {
                    "Keys": [{"slot": {"S": key}} for key in keys[start : start + _AT_ONCE]],
                    "ConsistentRead": True,
                }
            }
            for _ in range(_AGAIN):
                answer = _call("claims", partial(self._tables.batch_get_item, RequestItems=left))
                yield from answer["Responses"].get(self._table, ())
                left = answer.get("UnprocessedKeys")
                if not left:
                    break
            else:
                raise SupplyError("the table of claims answers in part only")

    def starts(self, group: GroupState) -> Sequence[StartTry]:
        """Its latest tries to start machines."""
        answer = _call(
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
        _call(f"wanting {node}", lambda: self._tables.put_item(TableName=self._table, Item=item))

    def want_no_more(self, node: str) -> None:
        """Take it away."""
        key = {"slot": {"S": f"{WANTED}{node}"}}
        _call(f"{node}", lambda: self._tables.delete_item(TableName=self._table, Key=key))

    def resize(self, group: GroupState, desired: int) -> None:
        """Set its size."""
        _call(
            f"the size of {group.name}",
            lambda: self._groups.set_desired_capacity(
                AutoScalingGroupName=group.name, DesiredCapacity=desired, HonorCooldown=False
            ),
        )

    def end(self, machine: str, *, shrink: bool) -> None:
        """Terminate it."""
        _call(
            f"ending {machine}",
            lambda: self._groups.terminate_instance_in_auto_scaling_group(
                InstanceId=machine, ShouldDecrementDesiredCapacity=shrink
            ),
        )


def _call(what: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return call()
    except (BotoCoreError, ClientError) as error:
        raise SupplyError(f"{what}: {error}") from None


@dataclass(frozen=True)
class Step:
    """One change of the table or of a group, and what is said of it."""

    text: str
    do: Callable[[PowerCloud], None]

    def __str__(self) -> str:
        return self.text


def _want(node: str, now: float) -> Step:
    """Write down that a node is wanted on, before there is a machine that could claim it."""
    return Step(f"{node} is wanted on", lambda cloud: cloud.want(node, now))


def _want_no_more(node: str) -> Step:
    """Take that away, before its machine ends: no other one claims it."""
    return Step(f"{node} is wanted no more", lambda cloud: cloud.want_no_more(node))


def _end(machine: str, why: str, *, shrink: bool) -> Step:
    return Step(f"{machine} ends: {why}", lambda cloud: cloud.end(machine, shrink=shrink))


def steps(
    group: PoweredGroup, wanted: frozenset[str], state: GroupState, table: TableState, now: float
) -> Iterator[Step]:
    """What to do, in order, so that the group has one machine for each node that is wanted, and no other.

    Each step may be the last one that is carried out: what follows is found again from what there is then.
    """
    if state.most == 0:
        return  # The grid is stopped, or on its way.
    nodes = frozenset(group.always_on) | (wanted & frozenset(group.powered))
    for node in group.powered:
        if node in nodes and node not in table.wanted:
            yield _want(node, now)
        if node not in nodes and node in table.wanted:
            yield _want_no_more(node)
    there = set(state.machines)
    target = min(len(nodes), state.most)
    desired = state.desired
    ended = 0
    for machine, why in _unwanted(group, nodes, state, table):
        # Where the group is no larger than it should be, another one takes the place of what is not wanted.
        shrink = desired > max(target, state.least)
        yield _end(machine, why, shrink=shrink)
        desired -= shrink
        ended += 1
    # Lowered below what is there, the group would choose by itself which machines end.
    aim = max(target, len(there) - ended, state.least) if target < desired else target
    if aim != desired:
        yield Step(f"{aim} machines instead of {desired}", lambda cloud: cloud.resize(state, aim))


def _unwanted(
    group: PoweredGroup, nodes: frozenset[str], state: GroupState, table: TableState
) -> Iterator[tuple[str, str]]:
    """Machines that are of no use: nodes that are off, and those that found no node to become."""
    there = set(state.machines)
    owned = {table.owners[node]: node for node in group.nodes if table.owners.get(node) in there}
    for machine, node in owned.items():
        if node not in nodes:
            yield machine, f"{node} is off"
    free = len(nodes) - sum(node in nodes for node in owned.values())
    idle = sorted(there - owned.keys())
    for machine in idle[: max(0, len(idle) - free)]:
        yield machine, "there is no node for it to be"


def hopeless(
    group: PoweredGroup,
    desired: frozenset[str],
    state: GroupState,
    table: TableState,
    starts: Sequence[StartTry],
) -> dict[str, str]:
    """Powered nodes that are wanted, that no machine is on its way for, and why there is none."""
    lacking = without_machine(group, desired, state, table)
    if not lacking or any(each.state in _GOING_ON for each in starts):
        return {}
    found = {}
    for node in lacking:
        since = table.wanted.get(node)
        failed = [each for each in starts if each.state in _FAILED and since and each.began >= since]
        if failed:
            found[node] = f"EC2 gives no {group.instance} now: {failed[0].reason}"
    return found


def without_machine(
    group: PoweredGroup, desired: frozenset[str], state: GroupState, table: TableState
) -> list[str]:
    """Powered nodes that are wanted and for which no machine is there, not even one without a name yet."""
    there = set(state.machines)
    owned = {node: table.owners[node] for node in group.nodes if table.owners.get(node) in there}
    coming = len(there) - len(set(owned.values()))
    free_always = sum(node not in owned for node in group.always_on)
    lacking = [node for node in group.powered if node in desired and node not in owned]
    return lacking[max(0, coming - free_always) :]


_GOING_ON = ("PendingSpotBidPlacement", "WaitingForSpotInstanceRequestId", "WaitingForSpotInstanceId",
             "WaitingForInstanceId", "PreInService", "InProgress", "WaitingForInstanceWarmup")  # fmt: skip
_FAILED = ("Failed", "Cancelled")
"""States of an activity (Amazon EC2 Auto Scaling API Reference, Activity)."""


class AwsSupply:
    """See Supply: one Auto Scaling group for each group of nodes."""

    def __init__(
        self, cloud: PowerCloud, groups: tuple[PoweredGroup, ...], now: Callable[[], float] = time.time
    ) -> None:
        self._cloud = cloud
        self._groups = groups
        self._now = now

    def settle(self, desired: frozenset[str]) -> Settled:
        """Take the steps that are left, and tell of nodes that the cloud has no machine for."""
        failed: dict[str, str] = {}
        done: list[str] = []
        for group in self._groups:
            # The group first: a machine that claims a node meanwhile is its owner by the table.
            state = self._cloud.group(group.name)
            table = self._cloud.table(group.nodes)
            for step in steps(group, desired, state, table, self._now()):
                step.do(self._cloud)
                done.append(f"{group.name}: {step}")
            if without_machine(group, desired, state, table):
                failed |= hopeless(group, desired, state, table, self._cloud.starts(state))
        return Settled(failed, tuple(done))


EVERY_S = 30.0
"""Slurm asks at once where it wants nodes; this is for what nobody asked for, and for starts that fail."""
AGAIN_S = 600.0
"""A zone that has no machines of a type left has some again after minutes, seldom seconds."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="power", description="Have machines of nodes there as long as Slurm wants these nodes on."
    )
    parser.add_argument(
        "--config", type=Path, default=CONFIGURATION, metavar="FILE", help="the configuration"
    )
    parser.add_argument("--once", action="store_true", help="one round, instead of one after the other")
    given = parser.parse_args(arguments)
    try:
        configuration = read_configuration(given.config)
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return WRONG_INPUT
    try:
        keeper = reconciler_of(configuration)
    except SupplyError as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    if given.once:
        return 0 if keeper.round() else FAILED
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    reconcile(keeper, RequestLog(lambda: REQUEST_LOG), EVERY_S, stop.wait)
    return 0


def reconciler_of(configuration: PowerConfiguration) -> PowerReconciler:
    """The reconciler of this grid's nodes. Raises SupplyError where AWS does not answer at all."""
    groups = configuration.groups
    return PowerReconciler(
        PowerStates(run),
        AwsSupply(AwsPower(configuration), groups),
        [node for group in groups for node in group.nodes],
        frozenset(node for group in groups for node in group.always_on),
        AGAIN_S,
        _say,
    )


def _say(text: str) -> None:
    """A line of the journal, which has its time."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
