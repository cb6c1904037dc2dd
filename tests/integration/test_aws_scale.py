"""A grid on AWS with servers in pairs, from nothing to nothing: the real command against moto's server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.aws_cloud import AwsCloud, aws_cloud
from tests.support.aws_grid import SCALE, grid_of
from tests.support.command import Command
from tests.support.operator_permissions import judged

SERVERS = ["lake-nsd1", "lake-nsd2"]


@pytest.fixture
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


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
