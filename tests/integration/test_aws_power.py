"""Nodes on AWS that Slurm powers on and off: the program of the head node against moto.

What Slurm says is a file here, which scontrol prints; what a real Slurm says is tested in a lab
(tests/machine/test_power_saving.py).
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gridwright.providers.aws.layout import Role
from gridwright.providers.aws.machine_files import POWER as POWER_PROGRAM
from gridwright.providers.aws.machine_files import power_configuration
from gridwright.spec import load_spec
from tests.support.aws_cloud import AwsCloud, aws_cloud
from tests.support.aws_faults import Call
from tests.support.aws_grid import FSX, Grid, grid_of
from tests.support.aws_permissions import POWER, RenderedGrid, action_name
from tests.support.command import Command

POWERED = FSX.replace("count: 2}", "count: 3, min: 1, idle: 10 min}")
SCONTROL = """#!/bin/sh
case "$*" in
  *"show nodes"*) cat "$SLURM_SAYS" ;;
  *) printf '%s\\n' "$*" >> "$SLURM_WAS_TOLD" ;;
esac
"""
KEY = "POWERPROGRAM"
ME = "i-0123456789abcdef0"


@pytest.fixture
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


class Head:
    """The head node: what Slurm says there, and the program."""

    def __init__(self, grid: Grid, cloud: AwsCloud, place: Path) -> None:
        self._cloud, self.place = cloud, place
        (place / "scontrol").write_text(SCONTROL)
        (place / "scontrol").chmod(0o755)
        (place / "power.pyz").write_bytes(POWER_PROGRAM.archive())
        (place / "power.json").write_text(json.dumps(power_configuration(load_spec(grid.spec))))
        self.told.touch()

    @property
    def told(self) -> Path:
        """What was told to Slurm."""
        return self.place / "told"

    def slurm_says(self, **states: str) -> None:
        """States of nodes, with a reason behind a blank."""
        lines = []
        for name, text in states.items():
            state, _, reason = text.partition(" ")
            lines.append(f"NodeName={name} CPUTot=8 State={state} ThreadsPerCore=2 {reason}")
        (self.place / "says").write_text("\n".join(lines) + "\n")

    def round(self, status: int = 0) -> str:
        """One round of the program; what it printed."""
        environment = {
            **os.environ,
            **self._cloud.environment,
            "PATH": f"{self.place}:{os.environ['PATH']}",
            "AWS_ACCESS_KEY_ID": KEY,
            "SLURM_SAYS": str(self.place / "says"),
            "SLURM_WAS_TOLD": str(self.told),
        }
        argv = [sys.executable, str(self.place / "power.pyz"), "--config", str(self.place / "power.json")]
        done = subprocess.run(
            [*argv, "--once"], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def grid(gridwright: Command, cloud: AwsCloud, tmp_path: Path) -> Grid:
    return grid_of(POWERED, gridwright, cloud, tmp_path)


@pytest.fixture
def head(grid: Grid, cloud: AwsCloud, tmp_path: Path) -> Head:
    grid.done("up")
    place = tmp_path / "head"
    place.mkdir()
    return Head(grid, cloud, place)


def group(cloud: AwsCloud) -> dict[str, Any]:
    (found,) = cloud.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    return dict(found)


def sizes(cloud: AwsCloud) -> tuple[int, int, int, int]:
    found = group(cloud)
    return found["MinSize"], found["DesiredCapacity"], found["MaxSize"], len(found["Instances"])


def machines(cloud: AwsCloud) -> set[str]:
    return {each["InstanceId"] for each in group(cloud)["Instances"]}


def owns(cloud: AwsCloud, node: str, machine: str) -> None:
    """A machine has claimed a node; how it does is tested elsewhere."""
    item = {"slot": {"S": node}, "owner": {"S": machine}, "token": {"N": "1"}}
    cloud.client("dynamodb").put_item(TableName="gridwright-demo-claims", Item=item)


def wished(cloud: AwsCloud) -> set[str]:
    items = cloud.client("dynamodb").scan(TableName="gridwright-demo-claims")["Items"]
    return {each["slot"]["S"] for each in items if each["slot"]["S"].startswith("wanted#")}


OFF = "IDLE+CLOUD+POWERED_DOWN"
STARTING = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"


def test_machines_come_and_go_with_nodes_and_up_leaves_them(grid: Grid, head: Head, cloud: AwsCloud) -> None:
    # `up` waits for what is always on alone, and a grid whose other nodes are off is whole.
    assert sizes(cloud) == (1, 1, 3, 1)
    (first,) = machines(cloud)
    owns(cloud, "compute1", first)
    states = {each["name"]: each["state"] for each in grid.done("status", "--json").json["machines"]}
    assert (states["compute1"], states["compute2"]) == ("running", "powered-down")

    head.slurm_says(compute1="IDLE", compute2=STARTING, compute3=OFF)
    head.round()
    assert wished(cloud) == {"wanted#compute2"}
    assert sizes(cloud) == (1, 2, 3, 2)
    (second,) = machines(cloud) - {first}
    # The machine is there and has no name yet: nothing is done again.
    assert head.round() == ""
    owns(cloud, "compute2", second)

    head.slurm_says(compute1="IDLE", compute2="ALLOCATED+CLOUD", compute3=STARTING)
    head.round()
    (third,) = machines(cloud) - {first, second}
    owns(cloud, "compute3", third)

    # A later up says nothing of how many there are, and no machine of a job ends by it.
    grid.edit("scheduler: {type: slurm}", "scheduler: {type: slurm, queues: {day: {time: 12h}}}")
    grid.edit("min: 1", "min: 2")
    assert grid.done("up", "--json").json["made"] is False
    assert machines(cloud) == {first, second, third}
    # moto does not see that a mapping has another least size; AWS compares values.
    assert sizes(cloud)[1:] == (3, 3, 3)
    grid.edit("min: 2", "min: 1")
    grid.done("up")

    head.slurm_says(compute1="IDLE", compute2="IDLE+CLOUD+POWERING_DOWN", compute3="ALLOCATED+CLOUD")
    head.round()
    assert machines(cloud) == {first, third}
    assert wished(cloud) == {"wanted#compute3"}
    assert sizes(cloud) == (1, 2, 3, 2)
    assert head.told.read_text() == ""

    grid.done("stop", "--now")
    assert sizes(cloud) == (0, 0, 0, 0)
    head.round()
    assert sizes(cloud) == (0, 0, 0, 0)
    grid.done("start")
    assert sizes(cloud)[:3] == (1, 1, 3)
    assert cloud.client("dynamodb").scan(TableName="gridwright-demo-claims")["Items"]
    grid.done("down", "--yes", "--delete-data", "shared")
    assert cloud.running("demo") == []


@pytest.mark.thorough
def test_what_ec2_has_not_is_told_to_slurm_and_asked_for_no_longer(head: Head, cloud: AwsCloud) -> None:
    (first,) = machines(cloud)
    owns(cloud, "compute1", first)
    head.slurm_says(compute1="IDLE", compute2=STARTING, compute3=OFF)
    head.round()
    # moto has whatever is asked for; EC2 has not.
    (second,) = machines(cloud) - {first}
    cloud.client("autoscaling").detach_instances(
        InstanceIds=[second], AutoScalingGroupName=group(cloud)["AutoScalingGroupName"],
        ShouldDecrementDesiredCapacity=True,
    )  # fmt: skip
    reason = "We currently do not have sufficient m6i.4xlarge capacity in zone us-east-1a [sic]"
    began = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    cloud.activities = [
        {
            "ActivityId": "a",
            "AutoScalingGroupName": "g",
            "Cause": "c",
            "Description": "Launching a new EC2 instance.  Status Reason: no capacity",
            "StartTime": began,
            "StatusCode": "Failed",
            "StatusMessage": reason,
        }
    ]
    head.round()
    down, off = head.told.read_text().splitlines()
    assert down == (
        "update NodeName=compute2 State=DOWN Reason=gridwright: power: EC2 gives no m6i.4xlarge now: "
        "We currently do not have sufficient m6i.4xlarge capacity in zone us-east-1a sic"
    )
    assert off == "update NodeName=compute2 State=POWER_DOWN"
    reason = f"Reason={down.partition('Reason=')[2]} [root@2026-11-24T10:00:00]"
    head.slurm_says(compute1="IDLE", compute2=f"DOWN+CLOUD+POWERED_DOWN {reason}", compute3=OFF)
    head.told.write_text("")
    head.round()
    assert wished(cloud) == set()
    assert sizes(cloud) == (1, 1, 3, 1)
    # Minutes later it may be tried again.
    assert head.told.read_text() == "update NodeName=compute2 State=RESUME\n"


def test_where_slurm_or_aws_does_not_answer_nothing_is_changed(head: Head, cloud: AwsCloud) -> None:
    (head.place / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    assert "Slurm does not answer" in head.round(3)
    (head.place / "scontrol").write_text(SCONTROL)
    head.slurm_says(compute1="IDLE", compute2=STARTING, compute3=OFF)
    cloud.faults.answer("dynamodb:BatchGetItem", "AccessDeniedException")
    assert "AccessDeniedException" in head.round(3)
    assert sizes(cloud) == (1, 1, 3, 1)
    assert head.told.read_text() == ""


def test_the_head_may_do_this_and_nothing_else(grid: Grid, head: Head, cloud: AwsCloud) -> None:
    (first,) = machines(cloud)
    cloud.faults.clear()
    owns(cloud, "compute1", first)
    head.slurm_says(compute1="IDLE", compute2=STARTING, compute3=OFF)
    head.round()
    (second,) = machines(cloud) - {first}
    owns(cloud, "compute2", second)
    head.slurm_says(compute1="IDLE", compute2=OFF, compute3=STARTING)
    head.round()
    cloud.client("autoscaling").detach_instances(
        InstanceIds=list(machines(cloud) - {first}),
        AutoScalingGroupName=group(cloud)["AutoScalingGroupName"],
        ShouldDecrementDesiredCapacity=True,
    )
    head.round()
    calls = [each for each in cloud.faults.calls if each.key == KEY]
    rendered = RenderedGrid.of(grid.spec)
    assert rendered.denied(Role.HEAD, calls, ME) == []
    assert {action_name(each) for each in calls} == POWER

    def put(key: str) -> Call:
        return Call("dynamodb:PutItem", "/", {"TableName": rendered.table, "Item": {"slot": {"S": key}}})

    assert rendered.denied(Role.HEAD, [put("wanted#compute3")], ME) == []
    assert len(rendered.denied(Role.HEAD, [put("compute3"), put("wanted#login1")], ME)) == 2
    assert len(rendered.denied(Role.COMPUTE, [put("wanted#compute3")], ME)) == 1
    resize = Call("autoscaling:SetDesiredCapacity", "/", {})
    assert len(rendered.denied(Role.COMPUTE, [resize], ME)) == 1
    another = RenderedGrid.of(grid.spec)
    grid.edit("name: demo", "name: other")
    other = RenderedGrid.of(grid.spec)
    assert len([a for a in another.asked(Role.HEAD, resize, ME) if not _allows(other, a)]) == 1


def _allows(grid: RenderedGrid, asked: Any) -> bool:
    from tests.support.iam_judge import is_allowed

    return is_allowed(grid.statements(Role.HEAD), asked)
