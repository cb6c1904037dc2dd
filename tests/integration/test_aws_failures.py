"""What AWS refuses, and stacks that failed: each ends in an error with its remedy, and can be continued."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.aws_cloud import AwsCloud, aws_cloud
from tests.support.aws_grid import FSX, STACKS, Grid, grid_of
from tests.support.command import Command

QUOTA = "You have requested more vCPU capacity than your current limit of 32 (VcpuLimitExceeded)"


@pytest.fixture
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


@pytest.fixture
def grid(gridwright: Command, cloud: AwsCloud, tmp_path: Path) -> Grid:
    return grid_of(FSX, gridwright, cloud, tmp_path)


def test_refusals_of_aws_are_told_with_their_remedy(grid: Grid, cloud: AwsCloud) -> None:
    refusals = [
        ("cloudformation:DescribeStacks", "ExpiredToken", "", "have expired", "aws sso login"),
        ("cloudformation:DescribeStacks", "Throttling", "Rate exceeded", "throttles", "wait a minute"),
        (
            "cloudformation:CreateStack",
            "AccessDenied",
            "User: ann is not authorized to perform: cloudformation:CreateStack on resource: x",
            "may not do cloudformation:CreateStack",
            "have an administrator of the account allow cloudformation:CreateStack",
        ),
        (
            "cloudformation:CreateStack",
            "LimitExceededException",
            "Limit of stacks",
            "Limit of stacks",
            "quota",
        ),
    ]
    for action, code, message, what, remedy in refusals:
        cloud.faults.clear()
        cloud.faults.answer(action, code, message)
        ended = grid("up")
        assert ended.status == 3
        assert what in ended.text
        assert remedy in ended.text
        assert cloud.stack_states() == {}


def test_throttling_that_passes_is_not_noticed(grid: Grid, cloud: AwsCloud) -> None:
    cloud.faults.answer("cloudformation:DescribeStacks", "Throttling", "Rate exceeded", times=1)
    ended = grid.done("status")
    assert "is not up" in ended.out
    assert cloud.faults.seen.count("cloudformation:DescribeStacks") > 2


def test_no_endpoint_is_told(gridwright: Command, cloud: AwsCloud, tmp_path: Path) -> None:
    grid = grid_of(FSX, gridwright, cloud, tmp_path)
    nowhere = cloud.environment | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    ended = gridwright("status", grid.spec, environment=nowhere)
    assert ended.status == 3
    assert "AWS did not answer" in ended.text
    assert "AWS_ENDPOINT_URL" in ended.text


@pytest.mark.thorough
def test_a_stack_that_failed_is_told_until_down_removes_it(grid: Grid, cloud: AwsCloud) -> None:
    cloud.fail_next_stack("gridwright-demo", "Login", "AWS::EC2::Instance", QUOTA)
    failed = grid("up")
    assert failed.status == 3
    assert "stack gridwright-demo is in ROLLBACK_COMPLETE: Login (AWS::EC2::Instance)" in failed.text
    assert "ask for a higher quota of vCPUs" in failed.text
    assert "Other" not in failed.text.partition("error:")[2]

    status = grid("status")
    assert status.status == 3
    assert QUOTA in status.out
    assert "gridwright down" in status.out

    before = cloud.file_systems()
    refused = grid("up")
    assert refused.status == 3
    assert (
        f"stack gridwright-demo is in ROLLBACK_COMPLETE: Login (AWS::EC2::Instance): {QUOTA}" in refused.text
    )
    assert "run gridwright down, which removes what is left of the stack" in refused.text

    grid.done("down", "--yes")
    ended = grid.done("up", "--json")
    assert ended.json["made"] is True
    assert set(cloud.stack_states()) == STACKS
    assert cloud.file_systems() == before


@pytest.mark.thorough
def test_a_storage_stack_that_failed_goes_with_down_and_is_made_anew(grid: Grid, cloud: AwsCloud) -> None:
    reason = "Quota exceeded (ServiceLimitExceeded)"
    cloud.fail_next_stack("gridwright-demo-storage", "Shared", "AWS::FSx::FileSystem", reason)
    failed = grid("up")
    assert failed.status == 3
    assert "Shared (AWS::FSx::FileSystem): Quota exceeded" in failed.text
    grid.done("down", "--yes")
    assert cloud.stack_states() == {}
    grid.done("up")
    assert len(cloud.file_systems()) == 1


def test_a_stack_that_is_not_at_rest_says_what_to_do(grid: Grid, cloud: AwsCloud) -> None:
    grid.done("up")
    cloud.stack("gridwright-demo").status = "UPDATE_ROLLBACK_FAILED"
    grid.edit("count: 2", "count: 3")
    ended = grid("up")
    assert ended.status == 3
    assert "is in UPDATE_ROLLBACK_FAILED" in ended.text
    assert "aws cloudformation continue-update-rollback --stack-name gridwright-demo" in ended.text

    cloud.stack("gridwright-demo").status = "UPDATE_IN_PROGRESS"
    with grid.start("up") as running:
        running.says("UPDATE_IN_PROGRESS, by an earlier command; waiting for its end")
        running.signal(signal.SIGINT)
        ended = running.end()
    assert ended.status == 130
    assert "AWS goes on with what it was told" in ended.text


def test_one_machine_that_fails_is_named_with_its_log_and_undoes_nothing(grid: Grid, cloud: AwsCloud) -> None:
    cloud.machines.failing["head"] = "the playbook failed: no package slurm"
    failed = grid("up")
    assert failed.status == 3
    assert "1 of 4 machines are not set up: head-i-" in failed.text
    assert "the playbook failed: no package slurm" in failed.text
    assert "| a line before" in failed.err
    assert "s3://" in failed.text
    assert set(cloud.stack_states().values()) == {"CREATE_COMPLETE"}
    running = set(cloud.running("demo"))
    assert len(running) == 4

    status = grid("status")
    assert status.status == 3
    assert "controller: setting itself up: failed, try 3" in status.out

    cloud.machines.failing.clear()
    ended = grid.done("up", "--json")
    assert ended.json["changed"] is False
    assert set(cloud.running("demo")) == running


@pytest.mark.thorough
def test_what_a_machine_told_of_another_bundle_does_not_count(grid: Grid, cloud: AwsCloud) -> None:
    grid.done("up")
    cloud.machines.silent.add("compute")
    grid.edit("scheduler: {type: slurm}", "scheduler: {type: slurm, queues: {day: {time: 12h}}}")
    with grid.start("up") as running:
        running.says("login-i-")
        running.says("head-i-")
        running.signal(signal.SIGINT)
        ended = running.end()
    assert ended.status == 130
    assert "2 machines go on setting themselves up" in ended.text


def test_what_is_in_no_stack_is_named_after_down(grid: Grid, cloud: AwsCloud) -> None:
    grid.done("up")
    made = cloud.client("ec2").create_volume(
        AvailabilityZone="us-east-1a",
        Size=1,
        TagSpecifications=[{"ResourceType": "volume", "Tags": [{"Key": "gridwright:grid", "Value": "demo"}]}],
    )
    ended = grid("down", "--yes", "--delete-data", "shared")
    assert ended.status == 3
    assert f"left of grid demo, and maybe billed: volume {made['VolumeId']}" in ended.text
