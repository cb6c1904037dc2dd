"""Grids on AWS from nothing to nothing: the real command and real boto3, against moto's server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.aws_cloud import AwsCloud, aws_cloud
from tests.support.aws_grid import FSX, LUSTRE, STACKS, Grid, grid_of
from tests.support.command import Command
from tests.support.operator_permissions import Judge, judged

NODES = {"compute": ["compute1", "compute2"]}
SERVERS = {"oss": ["shared-oss1", "shared-oss2"], "mds": ["shared-mds1"]}


@pytest.fixture
def cloud() -> Iterator[AwsCloud]:
    with aws_cloud() as made:
        yield made


@pytest.fixture
def judge_fsx(cloud: AwsCloud) -> Iterator[Judge]:
    with judged(cloud, FSX) as judge:
        yield judge


@pytest.fixture
def judge_lustre(cloud: AwsCloud) -> Iterator[Judge]:
    with judged(cloud, LUSTRE) as judge:
        yield judge


@pytest.fixture
def fsx(gridwright: Command, cloud: AwsCloud, tmp_path: Path, judge_fsx: Judge) -> Grid:
    return grid_of(FSX, gridwright, cloud, tmp_path)


@pytest.fixture
def lustre(gridwright: Command, cloud: AwsCloud, tmp_path: Path, judge_lustre: Judge) -> Grid:
    return grid_of(LUSTRE, gridwright, cloud, tmp_path)


def test_a_grid_on_fsx_from_nothing_to_nothing(fsx: Grid, cloud: AwsCloud, judge_fsx: Judge) -> None:
    made = fsx.done("up", "--json").json
    assert made["made"] is True
    assert made["costs"]["usd_per_hour"] > 0
    (file_system,) = cloud.file_systems()
    assert set(cloud.stack_states()) == STACKS
    assert cloud.stack("gridwright-demo-storage").enable_termination_protection

    for role, names in NODES.items():
        cloud.claim("demo", names, role)
    status = fsx.done("status", "--json").json
    assert status["whole"] is True
    assert {each["name"]: each["state"] for each in status["machines"]} == dict.fromkeys(
        ["login1", "controller", "compute1", "compute2"], "running"
    )
    assert [each["state"] for each in status["filesystems"]] == ["AVAILABLE"]

    # A call whose answer is lost is made again, and must not find its own stack in the way.
    begun = [each.parameters for each in cloud.faults.calls if each.action == "cloudformation:CreateStack"]
    assert len({each["ClientRequestToken"] for each in begun}) == 2
    cloud.faults.clear()
    again = fsx.done("up")
    assert "nothing is changed" in again.out
    changing = {"CreateStack", "ExecuteChangeSet", "DeleteStack", "PUT", "UpdateTerminationProtection"}
    assert not {each.partition(":")[2] for each in cloud.faults.seen} & changing

    _stopped_and_started(fsx, cloud)

    fsx.edit("deployment: persistent-2", "deployment: scratch-2")
    refused = fsx("up")
    assert refused.status == 2
    for words in (
        "this would replace Shared (AWS::FSx::FileSystem), which holds data of file system shared",
        "filesystems.shared.deployment was persistent-2 and is scratch-2",
        "rebuild: a deployment type cannot be changed; data are copied",
        "--replace shared",
    ):
        assert words in refused.text
    assert cloud.file_systems() == [file_system]
    assert cloud.client("cloudformation").list_change_sets(StackName="gridwright-demo")["Summaries"] == []

    unasked = fsx("down")
    assert unasked.status == 2
    assert "add --yes" in unasked.text
    assert set(cloud.stack_states()) == STACKS

    kept = fsx.done("down", "--yes", "--json").json
    assert kept["kept"] == ["file system shared, with all its data"]
    assert kept["kept_usd_per_hour"] > 0
    assert cloud.file_systems() == [file_system]
    assert cloud.running("demo") == []

    gone = fsx.done("down", "--yes", "--delete-data", "shared", "--json").json
    assert gone["kept"] == [] == gone["left"]
    assert cloud.file_systems() == []
    assert cloud.stack_states() == {}
    assert cloud.tagged("demo") == []
    assert "was not up" in fsx.done("down", "--yes").out
    # Permissions of who runs it: none lacks (the fixture), and none is for nothing.
    assert judge_fsx.without_use() == set()


def _stopped_and_started(fsx: Grid, cloud: AwsCloud) -> None:
    fixed = {
        each["name"]: each["instance"]
        for each in fsx.done("status", "--json").json["machines"]
        if each["name"] in ("login1", "controller")
    }
    unasked = fsx("stop")
    assert unasked.status == 3
    assert "nobody tells whether jobs run on this grid" in unasked.text
    assert set(cloud.running("demo")) > set(fixed.values())

    before = fsx.done("status", "--json").json["costs"]["usd_per_hour"]
    stopped = fsx.done("stop", "--now", "--json").json
    assert set(cloud.running("demo")) == set(fixed.values()), "their disks stay, and so do they"
    assert stopped["saved_usd_per_hour"] == pytest.approx(before - stopped["costs"]["usd_per_hour"])
    assert {each["what"].split(",")[0] for each in stopped["costs"]["lines"]} >= {
        "root volumes of 2 machines",
        "NAT gateway",
    }
    status = fsx.done("status", "--json").json
    assert (status["state"], status["whole"]) == ("stopped", True)
    assert status["costs"] == stopped["costs"]
    assert {each["name"]: each["state"] for each in status["machines"]} == {
        "login1": "stopped",
        "controller": "stopped",
        "compute1": "missing",
        "compute2": "missing",
    }
    assert fsx.done("stop", "--json").json["changed"] is False

    assert fsx.done("start", "--json").json["changed"] is True
    assert len(cloud.running("demo")) == 4
    assert set(cloud.running("demo")) > set(fixed.values())
    assert "was running already" in fsx.done("start").out


def test_a_grid_on_its_own_lustre_from_nothing_to_nothing(
    lustre: Grid, cloud: AwsCloud, judge_lustre: Judge
) -> None:
    lustre.done("up")
    volumes = cloud.volumes("gridwright:target")
    assert sorted(volumes) == ["shared-MDT0000", *(f"shared-OST000{index}" for index in range(4))]
    half = lustre("status", "--json")
    assert half.status == 3
    assert "shared-oss1 has claimed nothing yet" in half.json["filesystems"][0]["lacking"]

    for role, names in {**NODES, **SERVERS}.items():
        cloud.claim("demo", names, role)
    status = lustre.done("status", "--json").json
    assert status["whole"] is True
    assert {each["name"]: len(each["volumes"]) for each in status["filesystems"][0]["claims"]} == {
        "shared-oss1": 2,
        "shared-oss2": 2,
        "shared-mds1": 1,
    }
    assert "nothing is changed" in lustre.done("up").out

    lustre.done("stop", "--now")
    assert len(cloud.running("demo")) == 2
    assert cloud.volumes("gridwright:target") == volumes
    values = [each.parameters for each in cloud.faults.calls if each.action == "cloudformation:UpdateStack"]
    assert [each["Parameters.member.1.ParameterValue"] for each in values] == ["servers", "none"]
    # What is brought up is started.
    assert "the grid was stopped, and is started again" in lustre.done("up").text
    assert len(cloud.running("demo")) == 7

    lustre.edit("{type: gp3, size: 100 GiB}", "{type: gp3, count: 2, size: 100 GiB}")
    lustre.edit("count: 2, disks: {type: gp3, count: 2", "count: 2, disks: {type: gp3, count: 1")
    refused = lustre("up")
    assert refused.status == 2
    assert "this would remove SharedOss1SharedOST0001 (AWS::EC2::Volume)" in refused.text
    assert "rebuild: a stripe has its disks for good" in refused.text
    assert cloud.volumes("gridwright:target") == volumes

    lustre.done("down", "--yes")
    assert cloud.volumes("gridwright:target") == volumes
    lustre.done("down", "--yes", "--delete-data", "shared")
    assert cloud.volumes("gridwright:target") == {}
    assert cloud.stack_states() == {}
    assert cloud.tagged("demo") == []
    assert judge_lustre.without_use() == set()


@pytest.mark.thorough
def test_owner_and_expiry_change_while_machines_run(fsx: Grid, cloud: AwsCloud) -> None:
    fsx.done("up")
    # moto makes a group anew whatever changes; what AWS does is held against its schemas, in the unit tests.
    found = {each["name"]: each["instance"] for each in fsx("status", "--json").json["machines"]}
    fixed = {found["login1"], found["controller"]}
    # A volume as a machine brings it along, in no stack.
    ec2, mark = cloud.client("ec2"), {"Key": "gridwright:grid", "Value": "demo"}
    tagged = [{"ResourceType": "volume", "Tags": [mark]}]
    volume = ec2.create_volume(AvailabilityZone="us-east-1a", Size=1, TagSpecifications=tagged)
    fsx.edit("owner: ann", "owner: bob, expires: 2027-01-31")
    ended = fsx.done("up", "--json")
    assert {each["action"] for each in ended.json["changes"]} <= {"change"}
    assert fixed <= set(cloud.running("demo"))
    wanted = {"gridwright:owner": "bob", "gridwright:expires": "2027-01-31"}
    running = ec2.describe_instances(InstanceIds=cloud.running("demo"))["Reservations"]
    machines = [each for reservation in running for each in reservation["Instances"]]
    (volume,) = ec2.describe_volumes(VolumeIds=[volume["VolumeId"]])["Volumes"]
    for one in (*machines, volume):
        tags = {each["Key"]: each["Value"] for each in one["Tags"]}
        assert {name: tags.get(name) for name in wanted} == wanted

    fsx.edit(", expires: 2027-01-31", "")
    fsx.done("up")
    left = ec2.describe_instances(InstanceIds=cloud.running("demo"))["Reservations"]
    assert not any(
        tag["Key"] == "gridwright:expires"
        for each in left
        for one in each["Instances"]
        for tag in one["Tags"]
    )


@pytest.mark.thorough
def test_what_can_change_in_place_does(fsx: Grid, cloud: AwsCloud) -> None:
    fsx.done("up")
    before, running = cloud.file_systems(), set(cloud.running("demo"))
    fsx.edit("scheduler: {type: slurm}", "scheduler: {type: slurm, queues: {day: {time: 12h}}}")
    changed = fsx.done("up", "--json").json
    assert changed["set_up_again"] == ["nodes"]
    assert changed["changes"] == []
    assert {each["policy"] for each in changed["fields"]} == {"live"}
    assert set(cloud.running("demo")) == running
    again = fsx.done("up", "--json").json
    assert (again["changed"], again["set_up_again"]) == (False, [])

    fsx.edit("capacity: 2400 GiB", "capacity: 4800 GiB")
    ended = fsx.done("up", "--json")
    assert "filesystems.shared.capacity: 2400 GiB becomes 4800 GiB (live" in ended.text
    changes = {each["resource"]: each for each in ended.json["changes"]}
    assert changes["Shared"]["action"] == "change"
    assert changes["Shared"]["properties"] == ["StorageCapacity"]
    assert cloud.file_systems() == before
    (found,) = cloud.client("fsx").describe_file_systems()["FileSystems"]
    assert found["StorageCapacity"] == 4800

    fsx.edit("capacity: 4800 GiB", "capacity: 2400 GiB")
    refused = fsx("up")
    assert refused.status == 2
    assert "cannot go from 4800 GiB to 2400 GiB: storage can grow, never shrink" in refused.text

    fsx.edit("capacity: 2400 GiB", "capacity: 4800 GiB")
    fsx.edit("zone: us-east-1a", "zone: us-east-1b")
    refused = fsx("up", "--replace", "shared")
    assert refused.status == 2
    assert "aws.zone of a grid that is up cannot change: it was us-east-1a and is us-east-1b" in refused.text
    assert "never: volumes and file systems cannot leave their zone" in refused.text


@pytest.mark.thorough
def test_a_file_system_that_is_named_is_replaced_and_its_data_kept(fsx: Grid, cloud: AwsCloud) -> None:
    fsx.done("up")
    (old,) = cloud.file_systems()
    fsx.edit("deployment: persistent-2", "deployment: scratch-2")
    wrong = fsx("up", "--replace", "shard")
    assert wrong.status == 2
    assert "did you mean shared?" in wrong.text
    replaced = fsx.done("up", "--replace", "shared", "--json").json
    assert replaced["kept"] == [f"FSx file system {old} of 2400 GiB, the former shared"]
    (new,) = set(cloud.file_systems()) - {old}
    assert cloud.resources("gridwright-demo-storage")["Shared"] == new

    assert f"kept, and billed: FSx file system {old}" in fsx("status").out
    fsx.done("down", "--yes", "--delete-data", "shared")
    assert cloud.file_systems() == []


@pytest.mark.thorough
def test_the_old_volumes_of_a_replaced_lustre_are_nobodys(lustre: Grid, cloud: AwsCloud) -> None:
    lustre.done("up")
    for role, names in SERVERS.items():
        cloud.claim("demo", names, role)
    old = set(cloud.volumes("gridwright:target").values())
    lustre.edit("disks: {type: gp3, count: 2", "disks: {type: gp3, count: 1")
    lustre.done("up", "--replace", "shared")
    new = cloud.volumes("gridwright:target")
    assert sorted(new) == ["shared-MDT0000", "shared-OST0000", "shared-OST0001"]
    assert not old & set(new.values())
    table = cloud.client("dynamodb").scan(TableName="gridwright-demo-claims")
    # No claim is left, and of machines only those that run have told anything.
    told = {each["instance"]["S"] for each in table["Items"] if each["slot"]["S"].startswith("boot#")}
    assert len(table["Items"]) == len(told)
    assert told == set(cloud.running("demo"))
    lustre.done("down", "--yes", "--delete-data", "shared")
    left = cloud.client("ec2").describe_volumes(Filters=[{"Name": "tag-key", "Values": ["gridwright:grid"]}])
    assert left["Volumes"] == []


@pytest.mark.thorough
def test_one_of_two_file_systems_goes(gridwright: Command, cloud: AwsCloud, tmp_path: Path) -> None:
    second = "  other: {type: fsx-lustre, path: /other, deployment: scratch-2, capacity: 1200 GiB}\n"
    text = FSX.replace("libraries:", second + "libraries:").replace(
        "{data: {}, work: {}, util: {}}",
        "{data: {filesystem: shared}, work: {filesystem: other}, util: {filesystem: other}}",
    )
    grid = grid_of(text, gridwright, cloud, tmp_path)
    grid.done("up")
    kept = cloud.resources("gridwright-demo-storage")["Shared"]
    ended = grid.done("down", "--yes", "--delete-data", "other")
    assert "file system shared, with all its data" in ended.out
    assert cloud.file_systems() == [kept]
    assert cloud.stack("gridwright-demo-storage").enable_termination_protection
