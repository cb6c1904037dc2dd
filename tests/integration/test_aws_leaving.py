"""Nodes leave a grid on AWS: those whose names go and no others, and not with jobs on them by accident."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.aws_cloud import AwsCloud, aws_cloud
from tests.support.aws_faults import Faults
from tests.support.aws_grid import FSX, grid_of
from tests.support.aws_roller import Head
from tests.support.command import Command
from tests.support.operator_permissions import judged

FOUR = FSX.replace("count: 2", "count: 4")


@pytest.fixture
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


@pytest.fixture
def before(cloud: AwsCloud) -> Iterator[Faults]:
    with Faults.before(cloud.direct) as faults:
        yield faults


def states(cloud: AwsCloud) -> dict[str, str]:
    found = cloud.client("ec2").describe_instances()["Reservations"]
    return {each["InstanceId"]: each["State"]["Name"] for one in found for each in one["Instances"]}


def test_a_smaller_group_loses_the_nodes_whose_names_go(
    gridwright: Command, cloud: AwsCloud, before: Faults, tmp_path: Path
) -> None:
    grid = grid_of(FOUR, gridwright, cloud, tmp_path)
    with judged(cloud, FOUR):
        grid.done("up")
        head = Head(cloud, FOUR, tmp_path / "head", before.url)
        head.claim()
        owners = head.owners()
        grid.edit("count: 4", "count: 2")
        refused = grid("up")
        assert refused.status == 2, refused.err
        assert "compute[3-4] would go, with the jobs on them" in refused.err
        assert "scontrol update NodeName=compute[3-4] State=DRAIN" in refused.err
        assert {states(cloud)[each] for each in owners.values()} == {"running"}
        grid.done("up", "--replace", "compute")
    now = {name: states(cloud)[instance] for name, instance in owners.items()}
    assert [now[f"compute{number}"] for number in (1, 2, 3, 4)] == ["running"] * 2 + ["terminated"] * 2
    (group,) = cloud.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    assert (group["MinSize"], group["DesiredCapacity"], group["MaxSize"]) == (2, 2, 2)
    assert {each["InstanceId"] for each in group["Instances"]} == {owners["compute1"], owners["compute2"]}
    assert not [each for each in group["Instances"] if each["ProtectedFromScaleIn"]]
    assert "nothing is changed" in grid.done("up").out


@pytest.mark.thorough
def test_stop_ends_what_a_killed_up_has_protected(
    gridwright: Command, cloud: AwsCloud, tmp_path: Path
) -> None:
    grid = grid_of(FSX, gridwright, cloud, tmp_path)
    grid.done("up")
    scaling = cloud.client("autoscaling")
    (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    scaling.set_instance_protection(
        AutoScalingGroupName=group["AutoScalingGroupName"],
        InstanceIds=[each["InstanceId"] for each in group["Instances"]],
        ProtectedFromScaleIn=True,
    )
    grid.done("stop", "--now")
    (group,) = scaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    assert group["Instances"] == []
