"""The image that a grid on AWS keeps while its name moves on: the real command, against moto's server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.aws_cloud import UBUNTU_IMAGE, AwsCloud, aws_cloud
from tests.support.aws_faults import Faults
from tests.support.aws_grid import FSX, Grid, grid_of
from tests.support.aws_roller import Head
from tests.support.command import Command
from tests.support.lab import NODES_ONLY
from tests.support.operator_permissions import judged

NEWER, OURS = "ami-0bbbbbbbbbbbbbbbb", "ami-0cccccccccccccccc"
PARAMETER = "ComputeImageAmd64"
QUEUE = ("scheduler: {type: slurm}", "scheduler: {type: slurm, queues: {day: {time: 12h}}}")


@pytest.fixture
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


@pytest.fixture
def fsx(gridwright: Command, cloud: AwsCloud, tmp_path: Path) -> Iterator[Grid]:
    """A grid whose head node replaces nodes."""
    with Faults.before(cloud.direct) as before:
        head = Head(cloud, FSX, tmp_path / "head", before.url)
        with head.running():
            yield grid_of(FSX, gridwright, cloud, tmp_path)


@pytest.fixture
def allowed(cloud: AwsCloud) -> Iterator[None]:
    """The policies of the operator allow each call that the commands make."""
    with judged(cloud, FSX):
        yield


def kept(cloud: AwsCloud) -> str:
    return str(cloud.stack("gridwright-demo").parameters[PARAMETER])


@pytest.mark.thorough
@pytest.mark.usefixtures("allowed")
def test_a_name_that_moves_replaces_nothing_until_it_is_asked_for(fsx: Grid, cloud: AwsCloud) -> None:
    made = fsx.done("up", "--json").json
    machines = cloud.images_of_machines("demo")
    assert set(machines.values()) == {UBUNTU_IMAGE}
    (image,) = made["images"]
    assert [image[each] for each in ("field", "image", "newest")] == [
        *("aws.images.compute", UBUNTU_IMAGE, UBUNTU_IMAGE)
    ]

    cloud.publish(NEWER)
    again = fsx.done("up", "--json").json
    assert (again["changed"], again["changes"]) == (False, [])
    assert (again["images"][0]["image"], again["images"][0]["newest"]) == (UBUNTU_IMAGE, NEWER)
    fsx.edit(*QUEUE)
    changed = fsx.done("up")
    assert "set up again in place" in changed.out
    assert f"aws.images.compute: {UBUNTU_IMAGE} is kept; " in changed.out
    assert f"is {NEWER} by now: gridwright up --new-images replaces" in changed.out
    # Machines that die start from it, too: the group has it, and no name that moves.
    group = cloud.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"][0]
    template = group["LaunchTemplate"]["LaunchTemplateId"]
    versions = cloud.client("ec2").describe_launch_template_versions(LaunchTemplateId=template)
    launched = [each["LaunchTemplateData"]["ImageId"] for each in versions["LaunchTemplateVersions"]]
    assert launched == [UBUNTU_IMAGE]
    assert f"is {NEWER} by now" in fsx("status").out
    fsx.done("stop", "--now")
    fsx.done("start")
    assert set(cloud.images_of_machines("demo").values()) == {UBUNTU_IMAGE}

    renewed = fsx.done("up", "--new-images", "--json").json
    assert {"ComputeNodesTemplate", "HeadTemplate"} <= {each["resource"] for each in renewed["changes"]}
    assert kept(cloud) == NEWER
    assert fsx.done("up", "--new-images", "--json").json["changed"] is False


@pytest.mark.thorough
def test_another_name_in_the_spec_is_looked_up_and_kept(fsx: Grid, cloud: AwsCloud) -> None:
    cloud.publish(OURS, "/site/image")
    fsx.done("up")
    cloud.publish(NEWER)
    fsx.edit("owner: ann", "owner: ann, images: {compute: /site/image}")
    changed = fsx.done("up", "--json").json
    assert {each["policy"] for each in changed["fields"]} == {"rolling"}
    assert kept(cloud) == OURS
    fsx.edit("/site/image", OURS)
    fsx.done("up")
    assert PARAMETER not in cloud.stack("gridwright-demo").parameters
    # What the name stood for is not remembered: what it is today is what the spec asks for.
    fsx.edit(f", images: {{compute: {OURS}}}", "")
    fsx.done("up")
    assert kept(cloud) == NEWER


@pytest.mark.thorough
@pytest.mark.usefixtures("allowed")
def test_a_stack_that_keeps_no_image_is_left_so(fsx: Grid, cloud: AwsCloud) -> None:
    fsx.done("up")
    by_name = cloud.stack("gridwright-demo").template_dict["Parameters"][PARAMETER]["Default"]
    cloud.client("cloudformation").update_stack(
        StackName="gridwright-demo",
        UsePreviousTemplate=True,
        Parameters=[
            {"ParameterKey": "Running", "UsePreviousValue": True},
            {"ParameterKey": PARAMETER, "ParameterValue": by_name},
        ],
    )
    cloud.publish(NEWER)
    running = set(cloud.running("demo"))
    left = fsx.done("up")
    assert "nothing is changed" in left.out
    assert "aws.images.compute: not kept" in left.out
    assert set(cloud.running("demo")) == running
    # moto leaves launch templates alone when only a parameter changes: no more can be shown here.
    assert "gridwright up --new-images keeps" in fsx("status").out


@pytest.mark.thorough
@pytest.mark.usefixtures("allowed")
def test_an_image_that_is_gone_is_named_before_a_machine_needs_it(fsx: Grid, cloud: AwsCloud) -> None:
    fsx.done("up")
    cloud.publish(NEWER)
    cloud.withdraw(UBUNTU_IMAGE)
    found = fsx("up", "--check", "--json")
    assert found.status == 3
    (error,) = [each for each in found.json["findings"] if each["level"] == "error"]
    assert error["name"] == "image-gone"
    assert UBUNTU_IMAGE in error["text"]
    assert "--new-images" in error["remedy"]
    # It runs, and what needs no new machine is brought all the same.
    fsx.edit(*QUEUE)
    brought = fsx.done("up")
    assert "error image-gone" in brought.text
    cloud.image(NEWER).architecture = "arm64"
    refused = fsx("up", "--new-images")
    assert refused.status == 3
    assert "image-of-another-architecture" in refused.text
    assert kept(cloud) == UBUNTU_IMAGE
    cloud.image(NEWER).architecture = "x86_64"
    fsx.done("up", "--new-images")
    assert kept(cloud) == NEWER
    assert fsx("up", "--check").status == 0


@pytest.mark.thorough
def test_a_machine_that_restarts_for_a_kernel_is_waited_for(fsx: Grid, cloud: AwsCloud) -> None:
    cloud.machines.restarting["compute"] = "6.8.0-1057-aws"
    with fsx.start("up") as running:
        running.says(": restarting for kernel 6.8.0-1057-aws", seconds=120)
        assert fsx("status", "--json").json["whole"] is False
        cloud.machines.restarting.clear()
        assert running.end(seconds=120).status == 0


def test_a_name_that_stands_for_nothing_is_refused(fsx: Grid, cloud: AwsCloud) -> None:
    fsx.edit("owner: ann", "owner: ann, images: {compute: /site/nothing}")
    refused = fsx("up")
    assert refused.status == 3
    assert "the account sees no image /site/nothing" in refused.text
    assert cloud.stack_states() == {}
    fsx.edit("/site/nothing", UBUNTU_IMAGE)
    fsx.done("up")
    fsx.edit(UBUNTU_IMAGE, "/site/nothing")
    refused = fsx("up")
    assert refused.status == 3
    assert "/site/nothing in us-east-1 names no image" in refused.text


def test_images_are_those_of_machines_that_a_provider_starts(gridwright: Command, tmp_path: Path) -> None:
    spec = tmp_path / "lab.yaml"
    spec.write_text(NODES_ONLY.format(name="x", network="10.99.0.0/24", count=1))
    refused = gridwright("up", spec, "--new-images")
    assert refused.status == 2
    assert "provider lab starts no machines from images" in refused.text
