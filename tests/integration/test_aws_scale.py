"""A grid on AWS with servers in pairs, from nothing to nothing: the real command against moto's server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.aws_cloud import AwsCloud, aws_cloud
from tests.support.aws_grid import SCALE, Grid, grid_of
from tests.support.command import Command
from tests.support.operator_permissions import judged

SERVERS = ["lake-nsd1", "lake-nsd2"]


@pytest.fixture
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


def attached(cloud: AwsCloud, instance: str) -> dict[str, str]:
    """Volumes that stay when an instance goes, by the name that it has them at."""
    (found,) = cloud.client("ec2").describe_instances(InstanceIds=[instance])["Reservations"]
    mappings = found["Instances"][0]["BlockDeviceMappings"]
    kept = set(cloud.volumes("gridwright:target").values())
    return {
        each["DeviceName"]: each["Ebs"]["VolumeId"] for each in mappings if each["Ebs"]["VolumeId"] in kept
    }


def a_server_that_aws_has_ended_is_made_anew(grid: Grid, cloud: AwsCloud) -> None:
    """With the volumes of its pair, which the other server keeps."""

    def machines() -> dict[str, dict[str, Any]]:
        return {each["name"]: each for each in grid("status", "--json").json["machines"]}

    volumes, before = cloud.volumes("gridwright:target"), machines()
    ids = {name: str(each["instance"]) for name, each in before.items()}
    was = {name: attached(cloud, ids[name]) for name in SERVERS}
    assert set(was["lake-nsd1"].values()) == set(volumes.values())
    ec2 = cloud.client("ec2")
    ec2.terminate_instances(InstanceIds=[ids["lake-nsd1"], ids["controller"]])

    (lake,) = grid("status", "--json").json["filesystems"]
    assert lake["state"] == "incomplete"
    assert lake["lacking"] == "lake-nsd1 is missing, gridwright up makes it anew"

    made = grid("up")
    assert made.status == 0, made.text
    for name in ("lake-nsd1", "controller"):
        assert f"{name} is gone from EC2, and is made anew with an empty disk" in made.err
    assert "add LakeNsd1 (AWS::EC2::Instance)" in made.err
    assert made.err.count("(AWS::EC2::VolumeAttachment)") == 4
    assert "LakeNsd2" not in made.err
    after = machines()
    anew = {name for name, each in after.items() if each["instance"] != ids[name]}
    assert anew == {"lake-nsd1", "controller"}
    assert {name: each["address"] for name, each in after.items()} == {
        name: each["address"] for name, each in before.items()
    }
    assert attached(cloud, str(after["lake-nsd1"]["instance"])) == was["lake-nsd1"]
    assert attached(cloud, ids["lake-nsd2"]) == was["lake-nsd2"]
    assert cloud.volumes("gridwright:target") == volumes


@pytest.mark.thorough
def test_volumes_of_a_pair_outlive_its_servers(gridwright: Command, cloud: AwsCloud, tmp_path: Path) -> None:
    grid = grid_of(SCALE, gridwright, cloud, tmp_path)
    with judged(cloud, SCALE):
        grid.done("up")
        volumes = cloud.volumes("gridwright:target")
        assert sorted(volumes) == ["p1-v01", "p1-v02", "p1-v03", "p1-v04"]
        status = grid("status", "--json").json
        machines = {each["name"]: each["state"] for each in status["machines"]}
        assert {machines[name] for name in SERVERS} == {"running"}
        (lake,) = status["filesystems"]
        assert (lake["name"], lake["state"]) == ("lake", "running")
        assert "nothing is changed" in grid.done("up").out
        a_server_that_aws_has_ended_is_made_anew(grid, cloud)
        assert "nothing is changed" in grid.done("up").out

        grid.edit("{type: io2, count: 2", "{type: io2, count: 1")
        refused = grid("up")
        assert refused.status == 2
        assert "this would remove" in refused.text
        assert "AWS::EC2::Volume" in refused.text
        assert cloud.volumes("gridwright:target") == volumes
        grid.edit("{type: io2, count: 1", "{type: io2, count: 2")

        grid.done("down", "--yes")
        assert cloud.running("demo") == []
        assert cloud.volumes("gridwright:target") == volumes
        grid.done("up")
        assert cloud.volumes("gridwright:target") == volumes, "another grid finds the same volumes"
        grid.done("down", "--yes", "--delete-data", "lake")
    assert cloud.volumes("gridwright:target") == {}
    assert cloud.stack_states() == {}
    assert cloud.tagged("demo") == []
